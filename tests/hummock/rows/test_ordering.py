"""The order of rows against a plain sort, with hashes that collide."""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.hummock.rows.ordering import (
    bisect_keys,
    equal_to_previous,
    equal_values,
    identical_values,
    match_rows,
    order_by_key,
    sort_indices,
)

ROWS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 4), st.sampled_from([None, "a", "b"])), max_size=30
)


def expected(rows: list[tuple]) -> tuple[list[int], list[bool]]:
    order = sorted(range(len(rows)), key=lambda i: (rows[i][0], rows[i][1], rows[i][2] or ""))
    return order, [n == 0 or rows[order[n]] != rows[order[n - 1]] for n in range(len(rows))]


def as_table(rows: list[tuple]) -> tuple[np.ndarray, pa.Table]:
    hashes = np.array([row[0] for row in rows], dtype=np.int64)
    return hashes, pa.table(
        {
            "k": pa.array([row[1] for row in rows], pa.int64()),
            "s": pa.array([row[2] for row in rows], pa.string()),
        }
    )


FLOATS = st.sampled_from([0.0, -0.0, 1.5, float("nan"), None])
NESTED: dict[str, tuple[pa.DataType, st.SearchStrategy]] = {
    "number": (pa.float64(), FLOATS),
    "struct": (pa.struct({"x": pa.float32()}), st.none() | st.fixed_dictionaries({"x": FLOATS})),
    "list": (pa.list_(pa.float64()), st.none() | st.lists(FLOATS, max_size=2)),
    "map": (pa.map_(pa.string(), pa.float64()), st.lists(st.tuples(st.just("k"), FLOATS), max_size=1)),
    "text": (pa.string(), st.sampled_from(["a", "b", None])),
}


@pytest.mark.parametrize("kind", NESTED)
@given(data=st.data())
def test_identical_values_have_one_text(kind: str, data: st.DataObject) -> None:
    arrow_type, values = NESTED[kind]
    left, right = ([data.draw(values) for _ in range(4)] for _ in range(2))
    found = identical_values(*(pa.array([None, *each], arrow_type).slice(1) for each in (left, right)))
    assert found.tolist() == [repr(one) == repr(other) for one, other in zip(left, right, strict=True)]


@given(ROWS)
def test_rows_are_ordered_by_hash_and_key_and_stay_in_turn_where_equal(rows: list[tuple]) -> None:
    order, first = order_by_key(*as_table(rows))
    assert (order.tolist(), first.tolist()) == expected(rows)


@given(st.lists(ROWS, max_size=5))
def test_sorted_sources_are_merged_newest_first(sources: list[list[tuple]]) -> None:
    runs = [sorted(set(rows), key=lambda row: (row[0], row[1], row[2] or "")) for rows in sources]
    rows = [row for run in runs for row in run]
    hashes, keys = as_table(rows)
    source = np.repeat(np.arange(len(runs)), [len(run) for run in runs])
    order, first = order_by_key(hashes, keys, source)
    assert (order.tolist(), first.tolist()) == expected(rows)


def test_nested_values_are_the_same_as_their_parts_are() -> None:
    nan, kind = (
        float("nan"),
        pa.list_(pa.struct([("x", pa.float64()), ("m", pa.map_(pa.string(), pa.float64()))])),
    )
    one = [[{"x": nan, "m": [("a", nan)]}], [{"x": -0.0, "m": None}], [{"x": 1.0, "m": []}, None], [], None]
    other = [[{"x": nan, "m": [("a", nan)]}], [{"x": 0.0, "m": None}], [{"x": 1.0, "m": []}], None, None]
    found = equal_values(pa.array(one, kind), pa.array(other, kind))
    assert found.tolist() == [True, True, False, False, True]


KINDS = (pa.int8(), pa.int64(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.time64("us"))


@given(
    st.sampled_from(KINDS),
    st.lists(st.sampled_from([None, -1, 0, 1, 5, "least", "most"]), max_size=12),
    st.booleans(),
)
def test_the_ends_of_a_type_have_their_place_and_equal_themselves(
    kind: pa.DataType, given_values: list[int | str | None], with_nulls: bool
) -> None:
    bits = kind.bit_width
    ends: dict[int | str | None, int | None] = {"least": -(1 << bits - 1), "most": (1 << bits - 1) - 1}
    values = [ends[value] if isinstance(value, str) else value for value in given_values]
    if not with_nulls:
        values = [value for value in values if value is not None]
    numbers = pa.array(values, pa.int8() if bits == 8 else pa.int32() if bits == 32 else pa.int64())
    column = numbers.view(kind)
    keys = pa.table({"k": column})
    wanted = sorted(range(len(values)), key=lambda n: (values[n] is not None, values[n] or 0))
    assert sort_indices(keys).tolist() == wanted
    assert equal_values(column, column).all()
    same = [values[a] == values[b] for a, b in zip(wanted[1:], wanted, strict=False)]
    assert equal_to_previous(keys.take(pa.array(wanted, pa.int64()))).tolist() == same


@pytest.mark.parametrize("seed", range(12))
def test_rows_are_found_by_several_columns_as_by_tuples(seed: int) -> None:
    chance = random.Random(seed)
    constant, nulls = chance.random() < 0.5, chance.random() < 0.3

    def draw() -> tuple[int, int | None, str]:
        second = None if nulls and chance.random() < 0.2 else chance.randrange(5)
        return (7 if constant else chance.randrange(3)), second, chance.choice("abc")

    def as_table(rows: list[tuple[int, int | None, str]]) -> pa.Table:
        first, second, third = zip(*rows, strict=True) if rows else ((), (), ())
        kinds = (pa.int64(), pa.int32(), pa.string())
        arrays = [pa.array(list(one), kind) for one, kind in zip((first, second, third), kinds, strict=True)]
        return pa.table(arrays, names=["a", "b", "c"])

    def as_key(row: tuple[int, int | None, str]) -> tuple[int, int, str]:
        return row[0], -1 if row[1] is None else row[1], row[2]

    rows = sorted((draw() for _ in range(chance.randrange(60))), key=as_key)
    sought = [draw() for _ in range(chance.randrange(1, 20))]
    whole = chance.random() < 0.7
    ends = [sorted(chance.choices(range(len(rows) + 1), k=2)) for _ in sought]
    low = np.array([0 if whole else end[0] for end in ends])
    high = np.array([len(rows) if whole else end[1] for end in ends])
    for right, bisect in ((False, bisect_left), (True, bisect_right)):
        found = bisect_keys(as_table(rows), as_table(sought), low, high, right=right)
        expected = [
            bisect(rows, as_key(one), int(a), int(b), key=as_key)
            for one, a, b in zip(sought, low, high, strict=True)
        ]
        assert found.tolist() == expected


@pytest.mark.parametrize("seed", range(12))
def test_rows_of_numbers_and_booleans_are_found_as_by_tuples(seed: int) -> None:
    chance = random.Random(seed)
    flags = (True, False, None) if chance.random() < 0.3 else (True, False)
    cut = chance.randrange(10)  # of a slice the bits do not begin with a byte

    def as_table(rows: list[tuple[bool | None, int, int]]) -> pa.Table:
        arrays = [
            pa.array([row[n] for row in [rows[0]] * cut + rows], kind).slice(cut)
            for n, kind in enumerate((pa.bool_(), pa.int32(), pa.timestamp("us")))
        ]
        return pa.table(arrays, names=["a", "b", "c"])

    def as_key(row: tuple[bool | None, int, int]) -> tuple[int, int, int]:
        return -1 if row[0] is None else int(row[0]), row[1], row[2]

    def draw() -> tuple[bool | None, int, int]:
        return chance.choice(flags), chance.randrange(4), chance.randrange(6)

    rows = sorted((draw() for _ in range(chance.randrange(1, 60))), key=as_key)
    sought = [draw() for _ in range(chance.randrange(1, 20))]
    low, high = np.zeros(len(sought), dtype=np.int64), np.full(len(sought), len(rows), dtype=np.int64)
    for right, bisect in ((False, bisect_left), (True, bisect_right)):
        found = bisect_keys(as_table(rows), as_table(sought), low, high, right=right)
        assert found.tolist() == [bisect(rows, as_key(one), key=as_key) for one in sought]
    places = np.array([chance.randrange(len(rows)) for _ in sought])
    matched = match_rows(as_table(rows), as_table(sought), places)
    assert matched.tolist() == [rows[at] == one for at, one in zip(places, sought, strict=True)]

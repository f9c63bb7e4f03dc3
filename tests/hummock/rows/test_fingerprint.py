"""Fingerprints of rows: equal if and only if the rows are the same bag, by what the store calls identical."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from engine.hummock.rows.fingerprint import (
    add_fingerprints,
    compute_fingerprint,
    decode_fingerprint,
    encode_fingerprint,
    hash_rows,
)
from engine.hummock.rows.ordering import identical_values

_FLOATS = st.floats(width=32) | st.sampled_from([0.0, -0.0, float("nan")])
_TEXTS = st.text(max_size=12) | st.sampled_from(["x" * 255, "x" * 256, "x" * 257, "x" * 256 + "y"])
_DECIMALS = st.integers(-(10**20), 10**20).map(lambda n: decimal.Decimal(n).scaleb(-3))
_KINDS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    (pa.int8(), st.integers(-3, 3)),
    (pa.int16(), st.integers(-3, 3)),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float32(), _FLOATS),
    (pa.float64(), _FLOATS),
    (pa.string(), _TEXTS),
    (pa.large_string(), _TEXTS),
    (pa.binary(), st.binary(max_size=20)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us"), st.datetimes()),
    (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(datetime.UTC))),
    (pa.time64("ns"), st.times()),
    (pa.duration("us"), st.timedeltas(datetime.timedelta(-5), datetime.timedelta(5))),
    (pa.decimal128(10, 3), st.integers(-(10**9), 10**9).map(lambda n: decimal.Decimal(n).scaleb(-3))),
    (pa.decimal128(38, 3), _DECIMALS),
    (pa.list_(pa.int32()), st.lists(st.none() | st.integers(0, 2), max_size=3)),
    (pa.list_(pa.float64()), st.lists(st.sampled_from([0.0, -0.0, float("nan"), None]), max_size=3)),
    (
        pa.map_(pa.string(), pa.int64()),
        st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 1)), max_size=2),
    ),
    (
        pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))]),
        st.fixed_dictionaries(
            {
                "a": st.none() | st.integers(0, 1),
                "b": st.none() | st.lists(st.none() | st.sampled_from(["", "x"]), max_size=2),
            }
        ),
    ),
]


@st.composite
def _columns(draw: st.DrawFn) -> pa.Array[Any]:
    kind, values = draw(st.sampled_from(_KINDS))
    found = draw(st.lists(st.none() | values, min_size=1, max_size=12))
    return pa.array(found, kind)


def _hash(column: pa.Array[Any]) -> list[tuple[int, int]]:
    high, low = hash_rows([column], ["c"], len(column))
    return list(zip(high.tolist(), low.tolist(), strict=True))


@given(_columns())
def test_two_values_have_one_hash_if_they_are_identical(column: pa.Array[Any]) -> None:
    hashes = _hash(column)
    places = np.arange(len(column))
    left, right = (one.ravel() for one in np.meshgrid(places, places))
    same = identical_values(column.take(pa.array(left)), column.take(pa.array(right)))
    assert [hashes[a] == hashes[b] for a, b in zip(left, right, strict=True)] == same.tolist()


@given(_columns(), st.data())
def test_a_slice_has_the_hashes_of_its_rows(column: pa.Array[Any], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(column)))
    count = data.draw(st.integers(0, len(column) - start))
    assert _hash(column.slice(start, count)) == _hash(column)[start : start + count]
    whole = pa.array(range(count), pa.int64())
    assert _hash(column.slice(start, count).take(whole)) == _hash(column)[start : start + count]


@given(st.lists(_columns(), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter_and_rows_that_go_leave_nothing(
    columns: list[pa.Array[Any]], random: Any
) -> None:
    count = min(map(len, columns))
    names = [f"c{n}" for n in range(len(columns))]
    rows = pa.table([column.slice(0, count) for column in columns], names=names)
    order = list(range(count))
    random.shuffle(order)
    whole = compute_fingerprint(rows, names)
    assert compute_fingerprint(rows.take(pa.array(order, pa.int64())), names) == whole
    assert compute_fingerprint(rows, names[::-1]) == whole
    parts = [compute_fingerprint(rows.slice(at, 1), names) for at in range(count)]
    assert add_fingerprints(parts) == whole
    assert add_fingerprints([whole, *(-part for part in parts)]) == 0
    assert decode_fingerprint(encode_fingerprint(whole)) == whole


def test_a_column_of_nulls_changes_nothing_and_the_place_of_a_null_does() -> None:
    rows = pa.table({"a": [1, 2], "b": pa.array([None, 1], pa.int64())})
    wider = rows.append_column("c", pa.nulls(2, pa.string()))
    assert compute_fingerprint(rows, ["a", "b"]) == compute_fingerprint(wider, ["a", "b", "c"])
    one, other = (
        pa.table({"a": pa.array(a, pa.int64()), "b": pa.array(b, pa.int64())})
        for a, b in (([1], [None]), ([None], [1]))
    )
    assert compute_fingerprint(one, ["a", "b"]) != compute_fingerprint(other, ["a", "b"])


def test_values_that_change_rows_or_columns_are_seen() -> None:
    rows = pa.table({"a": [1, 2], "b": [3, 4]})
    for other in ({"a": [2, 1], "b": [3, 4]}, {"a": [3, 4], "b": [1, 2]}, {"a": [1, 1], "b": [3, 4]}):
        assert compute_fingerprint(pa.table(other), ["a", "b"]) != compute_fingerprint(rows, ["a", "b"])
    twice = pa.concat_tables([rows, rows])
    assert compute_fingerprint(twice, ["a", "b"]) != compute_fingerprint(rows, ["a", "b"])


@pytest.mark.parametrize("rows", [16_383, 16_384, 16_385, 40_000])
def test_parts_of_many_rows_add_up(rows: int) -> None:
    table = pa.table({"a": np.arange(rows), "t": [f"text {n % 7}" for n in range(rows)]})
    half = rows // 2
    parts = (compute_fingerprint(part, ["a", "t"]) for part in (table.slice(0, half), table.slice(half)))
    assert add_fingerprints(parts) == compute_fingerprint(table, ["a", "t"])


_WORD = (1 << 64) - 1


def _mix(x: int) -> int:
    """What docs/format.md calls mix."""
    x = (x + 0x9E3779B97F4A7C15) & _WORD
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & _WORD
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & _WORD
    return x ^ x >> 31


def _word_of(value: Any) -> int:
    """The word of a whole number, a text or a list of whole numbers, by the documented format alone."""
    if isinstance(value, list):
        parts = [0xD6E8FEB86659FD93 if item is None else _mix(_word_of(item)) for item in value]
        items = (_mix(part ^ (0xBF58476D1CE4E5B9 * place & _WORD)) for place, part in enumerate(parts))
        return (_mix(sum(items) & _WORD) + len(value)) & _WORD
    if isinstance(value, int):
        return value & _WORD
    data = value.encode()
    if len(data) > 256:
        return xxhash.xxh64_intdigest(data)
    found = len(data) * 0x9E3779B97F4A7C15 & _WORD
    for start in range(0, len(data), 8):
        found = _mix(found ^ int.from_bytes(data[start : start + 8], "little"))
    return found


def test_another_implementation_of_the_format_gives_the_same() -> None:
    rows = [
        {"id": 1, "t": "tea", "l": [1, None]},
        {"id": -5, "t": None, "l": []},
        {"id": None, "t": "eight by" * 3, "l": None},
        {"id": 2**63 - 1, "t": "x" * 257, "l": [-1, 2]},
        {"id": 0, "t": "", "l": [None]},
    ]
    expected = 0
    for row in rows:
        high = low = 0
        for name, value in row.items():
            if value is not None:
                seed = xxhash.xxh3_128_intdigest(name.encode())
                high = (high + _mix(_word_of(value) ^ seed >> 64)) & _WORD
                low = (low + _mix(_word_of(value) ^ seed & _WORD)) & _WORD
        low = _mix(((low ^ 0xE7037ED1A0B428DB) + high * 0xBF58476D1CE4E5B9) & _WORD)
        expected += (_mix(high ^ 0xA0761D6478BD642F) << 64) + low
    schema = pa.schema([("id", pa.int64()), ("t", pa.string()), ("l", pa.list_(pa.int64()))])
    table = pa.Table.from_pylist(rows, schema)
    assert compute_fingerprint(table, schema.names) == expected % (1 << 128)


def test_the_hash_is_the_documented_one() -> None:
    """The value is written down: another one would make the fingerprints of all stores wrong."""
    rows = pa.table(
        {
            "id": pa.array([1, None], pa.int64()),
            "name": ["tea", "a longer text"],
            "price": pa.array([1.5, float("nan")]),
            "tags": pa.array([["x", None], None], pa.list_(pa.string())),
            "amount": pa.array([decimal.Decimal("-1.25"), None], pa.decimal128(20, 2)),
        }
    )
    assert f"{compute_fingerprint(rows, rows.column_names):032x}" == "90acfbf7c67cdf7da67cb5c93822b80b"

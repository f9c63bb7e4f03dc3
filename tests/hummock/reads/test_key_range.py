"""Rows of a key between two bounds, and the nearest of them, are those that a look at all rows of the key gives."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import InvalidRow
from engine.hummock import Delete, Hummock, Put
from engine.hummock.reads.key_range import KeyRange
from tests.long_rest import mark_rest_long

SCHEMA = pa.schema([("g", pa.string()), ("t", pa.int64()), ("n", pa.int64()), ("v", pa.int64())])
KEYS = st.tuples(st.sampled_from(["a", "b", None]), st.none() | st.integers(0, 9), st.integers(0, 2))
EPOCHS = st.lists(
    st.tuples(st.lists(KEYS, max_size=15, unique=True), st.lists(KEYS, max_size=8, unique=True)),
    min_size=1,
    max_size=5,
)
BOUND = st.none() | st.integers(-1, 10)
ASKED = st.lists(st.tuples(st.sampled_from(["a", "b", None, "z"]), BOUND, BOUND), min_size=1, max_size=8)


def filled(store: Hummock, epochs: list[Any], distributed: list[str] | None) -> dict[Any, int]:
    """Fill a table; return its rows by their key."""
    table = store.create_table("s", SCHEMA, ["g", "t", "n"], distributed)
    rows: dict[Any, int] = {}
    for number, (put, deleted) in enumerate(epochs):
        gone = [key for key in deleted if key not in put]
        arrays = [list(column) for column in zip(*put, strict=True)]
        changes: list[Any] = []
        if put:
            changes.append(Put(pa.table([*arrays, [number] * len(put)], schema=SCHEMA)))
        if gone:
            keys = pa.table([list(c) for c in zip(*gone, strict=True)], schema=pa.schema(list(SCHEMA)[:3]))
            changes.append(Delete(keys))
        if changes:
            store.ingest_batch({table: changes})
        rows = {key: v for key, v in rows.items() if key not in gone} | dict.fromkeys(put, number)
    return rows


@pytest.mark.parametrize("distributed", mark_rest_long([["g"], None]), ids=["distributed", "ordered"])
@settings(max_examples=40, deadline=None)
@given(epochs=EPOCHS, asked=ASKED)
def test_rows_between_bounds_are_those_of_a_whole_look(
    epochs: list[Any], asked: list[Any], distributed: list[str] | None
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Hummock.open((Path(folder) / "store").as_uri(), cache_dir=Path(folder) / "cache")
        rows = filled(store, epochs, distributed)
        version, epoch = store.version.tables["s"], store.version.epoch
        groups, lows, highs = (list(column) for column in zip(*asked, strict=True))
        keys = pa.table({"g": pa.array(groups, pa.string())})
        for includes in itertools.product((True, False), repeat=2):
            between = KeyRange("t", pa.array(lows, pa.int64()), pa.array(highs, pa.int64()), includes)
            wanted = [
                (i, key, v)
                for i, (group, low, high) in enumerate(asked)
                for key, v in sorted(rows.items(), key=lambda row: _order(row[0]))
                if key[0] == group and _is_within(key[1], low, high, includes)
            ]
            found = []
            for index, part in store.reader.lookup_in_parts(
                version, keys, epoch, columns=SCHEMA.names, null_safe=True, key_range=between
            ):
                for i, row in zip(index.tolist(), part.to_pylist(), strict=True):
                    found.append((i, (row["g"], row["t"], row["n"]), row["v"]))
            assert sorted(found, key=repr) == sorted(wanted, key=repr)
            for last in (False, True):
                ends = {i: (key, v) for i, key, v in (wanted if last else reversed(wanted))}
                index, part = store.reader.find_first_rows(
                    version, keys, epoch, columns=SCHEMA.names, last=last, key_range=between
                )
                answer = {
                    i: ((row["g"], row["t"], row["n"]), row["v"])
                    for i, row in zip(index.tolist(), part.to_pylist(), strict=True)
                }
                assert answer == ends


def _order(key: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple((value is not None, value) for value in key)


def _is_within(value: int | None, low: int | None, high: int | None, includes: tuple[bool, bool]) -> bool:
    """Nulls stand before all values, so only a low bound keeps them out."""
    if value is None:
        return low is None
    above = low is None or value > low or (includes[0] and value == low)
    return above and (high is None or value < high or (includes[1] and value == high))


def test_the_rows_outside_of_the_bounds_are_not_read(store: Hummock) -> None:
    table = store.create_table("s", SCHEMA, ["g", "t", "n"], ["g"])
    times = list(range(100_000))
    store.ingest_batch({table: [Put(pa.table([["a"] * len(times), times, times, times], schema=SCHEMA))]})
    version, keys = store.version.tables["s"], pa.table({"g": ["a", "a"]})
    between = KeyRange("t", pa.array([500, 99_990]), pa.array([502, None]), (True, False))
    parts = store.reader.lookup_in_parts(
        version, keys, store.version.epoch, columns=["t"], null_safe=True, key_range=between
    )
    found = [
        (i, t) for index, rows in parts for i, t in zip(index.tolist(), rows["t"].to_pylist(), strict=True)
    ]
    assert found == [(0, 500), (0, 501), *((1, t) for t in range(99_990, 100_000))]


def test_bounds_of_a_column_that_does_not_follow_the_key_are_refused(store: Hummock) -> None:
    store.create_table("s", SCHEMA, ["g", "t", "n"], ["g"])
    version, keys = store.version.tables["s"], pa.table({"g": ["a"]})
    for column in ("n", "v", "g"):
        with pytest.raises(InvalidRow, match="leading columns of g, t, n"):
            store.reader.find_first_rows(
                version, keys, store.version.epoch, columns=["v"], key_range=KeyRange(column)
            )

"""Ranges of tables with a distribution key, within one value of it: all rows, the first one, and how many there may be."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import InvalidRow
from engine.hummock import Delete, Hummock, Put
from engine.hummock.reads.range_scan import estimate_rows_in_ranges, find_first_in_range, scan_range
from engine.testing.memory import MemoryObjectStore

SCHEMA = pa.schema([("part", pa.int32()), ("at", pa.int64()), ("id", pa.int64()), ("word", pa.string())])
KEY = ["part", "at", "id"]


def rows(found: list[tuple[int, int, int]], word: str) -> pa.Table:
    return pa.Table.from_pylist(
        [{"part": p, "at": a, "id": i, "word": word} for p, a, i in found], schema=SCHEMA
    )


def opened(folder: Path) -> Hummock:
    store = Hummock.open("memory://ranges", object_store=MemoryObjectStore(), cache_dir=str(folder))
    store.create_table("t", SCHEMA, KEY, ["part"])
    return store


KEYS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 3)), max_size=40, unique=True)


@settings(max_examples=40)
@given(
    epochs=st.lists(st.tuples(KEYS, KEYS), min_size=1, max_size=5),
    low=st.integers(0, 31),
    width=st.integers(0, 31),
)
def test_a_range_and_its_first_row_are_those_of_a_dictionary(
    tmp_path_factory: pytest.TempPathFactory,
    epochs: list[tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]]],
    low: int,
    width: int,
) -> None:
    store = opened(tmp_path_factory.mktemp("cache"))
    model: dict[tuple[int, int, int], str] = {}
    for n, (puts, deletes) in enumerate(epochs):
        keys = rows(deletes, "").select(KEY)
        store.ingest_batch({"t": [Put(rows(puts, str(n))), Delete(keys)]})
        model |= dict.fromkeys(puts, str(n))
        for key in deletes:
            model.pop(key, None)
    table = store.version.tables["t"]
    for part in range(3):
        bounds = ({"part": part, "at": low}, {"part": part, "at": low + width})
        expected = sorted(k for k in model if k[0] == part and low <= k[1] < low + width)
        found = [
            row
            for batch in scan_range(store.reader, table, table.committed_epoch, bounds, SCHEMA.names)
            for row in batch.to_pylist()
        ]
        assert [(r["part"], r["at"], r["id"]) for r in found] == expected
        assert [r["word"] for r in found] == [model[key] for key in expected]
        first = find_first_in_range(store.reader, table, table.committed_epoch, bounds, KEY)
        assert (None if first is None else tuple(first.values())) == (expected[0] if expected else None)
        least = estimate_rows_in_ranges(store.reader, table, table.committed_epoch, [bounds])
        assert least >= len(expected)
        twice = estimate_rows_in_ranges(store.reader, table, table.committed_epoch, [bounds, bounds])
        assert twice == 2 * least


def test_the_first_row_is_found_behind_many_deletions(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.ingest_batch({"t": [Put(rows([(0, n, 0) for n in range(500)], "a"))]})
    store.ingest_batch({"t": [Delete(rows([(0, n, 0) for n in range(400)], "").select(KEY))]})
    table = store.version.tables["t"]
    bounds = ({"part": 0}, {"part": 0, "at": 499})
    assert find_first_in_range(store.reader, table, table.committed_epoch, bounds, ["at"]) == {"at": 400}


def test_a_range_over_several_values_of_the_distribution_key_is_refused(tmp_path: Path) -> None:
    store = opened(tmp_path)
    with pytest.raises(InvalidRow, match="one value"):
        store.iter("t", range=({"part": 0}, {"part": 1}))
    with pytest.raises(InvalidRow, match="one value"):
        store.iter("t", range=(None, {"part": 1}))

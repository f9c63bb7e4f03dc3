"""Lookups by key over several runs: newest version wins, equality is verified, nulls follow the rule asked for."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from engine.errors import InvalidRow
from engine.hummock import Delete, Hummock, Put, Table, TableVersion
from engine.hummock.reads import lookup

SCHEMA = pa.schema([("g", pa.string()), ("n", pa.int64()), ("v", pa.float64())])


@pytest.fixture(params=[["g"], None], ids=["distributed", "ordered"])
def table(store: Hummock, request: pytest.FixtureRequest) -> Table:
    made = store.create_table("s", SCHEMA, ["g", "n"], request.param)
    store.ingest_batch({made: [put(("a", 1, 1.0), ("a", 2, 2.0), ("b", 1, 3.0), (None, 1, 4.0))]})
    store.ingest_batch(
        {made: [put(("a", 2, 20.0), ("a", 3, 30.0)), Delete(pa.table({"g": ["b"], "n": [1]}))]}
    )
    return made


def put(*values: tuple) -> Put:
    return Put(pa.table([pa.array(column) for column in zip(*values, strict=True)], schema=SCHEMA))


def find(store: Hummock, keys: pa.Table, **options) -> list[tuple]:
    version = store.version.tables["s"]
    index, rows = store.reader.lookup(version, keys, options.pop("epoch", version.committed_epoch), **options)
    assert (np.diff(index) >= 0).all()
    return [(int(i), *row.values()) for i, row in zip(index, rows.to_pylist(), strict=True)]


def test_all_rows_of_a_group_in_their_newest_version(store: Hummock, table: Table) -> None:
    keys = pa.table({"g": ["b", "a", "zz", "a"]})
    group = [("a", 1, 1.0), ("a", 2, 20.0), ("a", 3, 30.0)]
    assert find(store, keys) == [(1, *row) for row in group] + [(3, *row) for row in group]


def test_more_matches_than_are_looked_for_at_once_come_in_parts(
    store: Hummock, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "MOST_MATCHES", 4)
    store.ingest_batch({table: [put(*(("c", n, 1.0) for n in range(9)))]})
    version = store.version.tables["s"]
    keys = pa.table({"g": ["a", "b", "c", "zz", "a", "c", None]})
    found = store.reader.lookup_in_parts(version, keys, version.committed_epoch, columns=["g", "n"])
    parts = [
        [(int(i), *row.values()) for i, row in zip(index, rows.to_pylist(), strict=True)]
        for index, rows in found
    ]
    assert sorted(row for part in parts for row in part) == find(store, keys, columns=["g", "n"])
    assert max(len({i for i, *_ in part}) for part in parts if len(part) > 4) == 1
    assert len([part for part in parts if part]) >= 4


def test_the_old_epoch_shows_the_old_rows(store: Hummock, table: Table) -> None:
    old = store.version.tables["s"].log[0].epoch
    assert find(store, pa.table({"g": ["b", "a"]}), epoch=old, columns=["v"]) == [
        (0, 3.0),
        (1, 1.0),
        (1, 2.0),
    ]


def test_a_narrowed_version_reads_the_same(store: Hummock, table: Table) -> None:
    start = store.version.tables["s"].committed_epoch
    for step in range(4):
        end = store.ingest_batch({table: [put(("a", step, -1.0))]})
        if step == 1:
            store.compact(table)
    store.ingest_batch({table: [put(("a", 9, 9.0))]})
    whole = store.version.tables["s"]
    narrow = whole.narrow(start, end)

    def shown(version: TableVersion) -> list:
        reader = store.reader
        reads = (
            reader.scan(version, start),
            reader.scan(version, end),
            reader.read_changes(version, start, end),
        )
        return [[row for batch in batches for row in batch.to_pylist()] for batches in reads]

    assert shown(narrow) == shown(whole)
    assert len(narrow.log) < len(whole.log)


def test_a_null_key_matches_only_when_null_safe(store: Hummock, table: Table) -> None:
    keys = pa.table({"g": pa.array([None, "a"]), "n": [1, 1]})
    assert find(store, keys, columns=["v"]) == [(1, 1.0)]
    assert find(store, keys, columns=["v"], null_safe=True) == [(0, 4.0), (1, 1.0)]


def test_other_columns_are_compared_with_the_newest_version_only(store: Hummock, table: Table) -> None:
    keys = pa.table({"g": ["a", "a"], "v": [2.0, 20.0]})
    assert find(store, keys) == [(1, "a", 2, 20.0)]


def test_keys_are_cast_to_the_tables_types_and_unknown_columns_refused(store: Hummock, table: Table) -> None:
    assert find(store, pa.table({"g": ["a"], "n": pa.array([1], pa.int32())}), columns=["v"]) == [(0, 1.0)]
    with pytest.raises(InvalidRow, match="no column w"):
        find(store, pa.table({"g": ["a"], "w": [1]}))


def test_keys_without_the_searched_columns_are_refused(store: Hummock, table: Table) -> None:
    with pytest.raises(InvalidRow, match="the keys lack g"):
        find(store, pa.table({"n": [1]}))


def test_no_keys_and_no_matches_give_an_empty_table_with_the_schema(store: Hummock, table: Table) -> None:
    version = store.version.tables["s"]
    for keys in (pa.table({"g": pa.array([], pa.string())}), pa.table({"g": ["nobody"]})):
        index, rows = store.reader.lookup(version, keys, version.committed_epoch, columns=["v"])
        assert (len(index), rows.num_rows, rows.column_names) == (0, 0, ["v"])


def test_a_thousand_groups_over_compacted_and_fresh_runs(store: Hummock, table: Table) -> None:
    groups = [f"g{i}" for i in range(1000)]
    store.ingest_batch({table: [put(*((g, n, float(n)) for g in groups for n in range(3)))]})
    store.compact(table)
    store.ingest_batch({table: [put(*((g, 1, -1.0) for g in groups[::2]))]})
    found = find(store, pa.table({"g": groups}), columns=["n", "v"])
    assert found == [
        (i, n, -1.0 if n == 1 and i % 2 == 0 else float(n)) for i in range(1000) for n in range(3)
    ]

"""Without columns to look it up by, each row that asks finds a whole table; frames count on how many pairs that makes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from engine.hummock import Delete, Hummock, Put, Table
from engine.operators.lookups import lookup
from engine.operators.lookups.lookup import End, LookupTable, Probe
from engine.operators.lookups.row_bounds import PairBound, count_most_rows
from engine.operators.lookups.table_parameters import TableAt, TableParameters
from engine.sql.plan import Join, Scan, UnionAll

SCHEMA = pa.schema([("id", pa.int64()), ("item", pa.string())])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Hummock]:
    with Hummock.open((tmp_path / "store").as_uri()) as opened:
        yield opened


def create(store: Hummock, name: str, ids: list[int]) -> Table:
    table = store.create_table(name, SCHEMA, ("id",))
    rows = pa.table([ids, [f"item {n}" for n in ids]], schema=SCHEMA)
    store.ingest_batch({table: [Put(rows)]})
    return table


def find(
    store: Hummock,
    asking: list[int],
    side: list[int] | None = None,
    old: int | None = None,
    end: End | None = None,
) -> list[tuple[int, str | None, bool]]:
    """Return (who asks, what it has found, whether it has)."""
    version = store.refresh().tables["item"]
    source = TableAt(version, old, version.committed_epoch)
    probe = Probe((), "new" if side is None else "side", end=end)
    body = LookupTable(store.url, dict(store.options), source, probe, (("found", "item"),), "hit")
    given = {"n": pa.array(asking, pa.int64())}
    if side is not None:
        given["_side"] = pa.array(side, pa.int32())
    rows = [row for batch in body(iter([pa.RecordBatch.from_pydict(given)])) for row in batch.to_pylist()]
    return sorted((row["n"], row["found"], row["hit"]) for row in rows)


@pytest.mark.parametrize("most", [1, 4, 1000])
def test_each_row_finds_the_whole_table(store: Hummock, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "MOST_MATCHES", most)
    create(store, "item", [1, 2, 3])
    assert find(store, [7, 8]) == [(n, f"item {at}", True) for n in (7, 8) for at in (1, 2, 3)]
    assert find(store, []) == []


def test_a_row_that_asks_whether_there_are_any_finds_one(store: Hummock) -> None:
    table = create(store, "item", [1, 2, 3])
    found = find(store, [7, 8], end="first")
    assert [n for n, _, _ in found] == [7, 8] and all(hit for _, _, hit in found)
    store.ingest_batch({table: [Delete(pa.table([[n], ["gone"]], schema=SCHEMA)) for n in (1, 2, 3)]})
    assert find(store, [7, 8], end="first") == [(7, None, False), (8, None, False)]


def test_a_row_finds_the_table_as_of_its_side(store: Hummock) -> None:
    table = create(store, "item", [1, 2])
    old = store.version.tables["item"].committed_epoch
    store.ingest_batch({table: [Delete(pa.table([[1], ["item 1"]], schema=SCHEMA))]})
    assert find(store, [7, 8], side=[0, 1], old=old) == [
        (7, "item 1", True),
        (7, "item 2", True),
        (8, "item 2", True),
    ]


def test_a_row_stays_that_finds_an_empty_table(store: Hummock) -> None:
    table = create(store, "item", [1])
    store.ingest_batch({table: [Delete(pa.table([[1], ["item 1"]], schema=SCHEMA))]})
    assert find(store, [7]) == [(7, None, False)]


def scan(table: str) -> Scan:
    return Scan(table, (("id", "id"), ("item", "item")), ("id",), ("id",))


def test_a_frame_is_not_kept_for_more_pairs_than_it_counts_on(store: Hummock) -> None:
    one = create(store, "one", [1, 2, 3])
    create(store, "other", list(range(10)))
    tables = store.refresh().tables
    parameters = TableParameters(bounds={PairBound(scan("one"), 5, scan("other"), 30)})
    assert parameters.is_reusable(tables)
    few = TableParameters(bounds={PairBound(scan("one"), 3, scan("other"), 30)})
    store.ingest_batch({one: [Put(pa.table([[4], ["item 4"]], schema=SCHEMA))]})
    assert not parameters.is_reusable(store.refresh().tables)
    assert few.is_reusable(store.version.tables)  # a change of more rows is none for this frame


def test_rows_of_plans_are_bounded_by_those_of_tables(store: Hummock) -> None:
    create(store, "one", [1, 2, 3])
    create(store, "other", list(range(10)))
    total = store.create_table("total", pa.schema([("_global", pa.int32()), ("n", pa.int64())]), ("_global",))
    for n in range(4):
        store.ingest_batch({total: [Put(pa.table({"_global": pa.array([0], pa.int32()), "n": [n]}))]})
    tables = store.refresh().tables
    row = Scan("total", (("_global", "_global"), ("n", "n")), ("_global",), ("_global",))
    pairs = Join(scan("one"), scan("other"), "inner", ())
    assert tables["total"].row_count > 1 and count_most_rows(row, tables) == 1
    assert count_most_rows(Join(pairs, row, "inner", ()), tables) == 30
    assert count_most_rows(Join(pairs, row, "anti", ()), tables) == 30
    assert count_most_rows(Join(scan("one"), scan("other"), "left", (("id", "id"),)), tables) == 3
    assert count_most_rows(Join(scan("other"), scan("one"), "left", (("id", "item"),)), tables) == 13
    assert count_most_rows(Join(scan("other"), scan("one"), "inner", (("id", "item"),)), tables) == 3
    assert count_most_rows(Join(scan("other"), scan("one"), "inner", (("item", "item"),)), tables) == 30
    both = UnionAll((scan("one"), scan("other")), ("id",))
    assert count_most_rows(both, tables) == 13

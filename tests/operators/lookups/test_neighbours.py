"""Around a change so many rows of a state are read as calls look far, however large its partition is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.hummock import Delete, Hummock, Put, Reader, Table
from engine.operators.lookups import neighbours
from engine.operators.lookups.neighbours import CHANGED, ReadNeighbours
from engine.operators.lookups.table_parameters import TableAt
from engine.sql.incremental.rules import WindowReach

SCHEMA = pa.schema([("k", pa.int32()), ("t", pa.int32()), ("id", pa.int32())])
ITEMS = (("key", "id"), ("at", "t"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Hummock]:
    with Hummock.open((tmp_path / "store").as_uri()) as opened:
        yield opened


def written(store: Hummock, times: list[int | None]) -> Table:
    """Write rows of one partition, whose ids are their places in the list."""
    state = store.create_table("state", SCHEMA, ("k", "t", "id"), ("k",))
    ids = list(range(len(times)))
    store.ingest_batch({state: [Put(pa.table([[1] * len(ids), times, ids], schema=SCHEMA))]})
    return state


def found(store: Hummock, places: list[int | None], reach: WindowReach) -> list[tuple[int, bool]]:
    """Return (id, whether it may be changed) of the rows that are read for changes at some places."""
    version = store.refresh().tables["state"]
    source = TableAt(version, None, version.committed_epoch)
    body = ReadNeighbours(store.url, dict(store.options), source, ITEMS, ("k",), reach)
    given = pa.RecordBatch.from_pydict(
        {"_1": pa.array([1] * len(places), pa.int32()), "_2": pa.array(places, pa.int32())}
    )
    rows = [row for batch in body(iter([given])) for row in batch.to_pylist()]
    return sorted((row["key"], row[CHANGED]) for row in rows)


def test_of_a_large_partition_rows_twice_as_far_as_the_calls_look_are_read(store: Hummock) -> None:
    state = written(store, list(range(20_000)))
    gone = pa.table([[1, 1], [9_001, 9_002], [9_001, 9_002]], schema=SCHEMA)
    store.ingest_batch({state: [Delete(gone)]})
    near = found(store, [9_001], WindowReach("t", 2, nulls_below=True))
    changed = {8_999, 9_000, 9_003, 9_004}
    assert near == [(n, n in changed) for n in (8_997, 8_998, *sorted(changed), 9_005, 9_006)]


def test_rows_near_several_changes_are_read_once(store: Hummock) -> None:
    written(store, [0, 10, 20, 30, 40, 50, 60, 70])
    near = found(store, [20, 30, 30], WindowReach("t", 1, nulls_below=True))
    assert near == [(0, False), (1, True), (2, True), (3, True), (4, True), (5, False)]


@pytest.mark.parametrize(("nulls_below", "changed"), [(True, False), (False, True)])
def test_rows_without_a_value_are_behind_the_end_at_which_the_order_has_them(
    store: Hummock, nulls_below: bool, changed: bool
) -> None:
    written(store, [None, None, 10, 20, 30, 40])
    near = found(store, [40], WindowReach("t", 1, nulls_below=nulls_below))
    nulls = [] if nulls_below else [(0, changed), (1, changed)]
    assert near == [*nulls, (3, False), (4, True), (5, True)]


def test_a_change_without_a_value_concerns_the_whole_partition(store: Hummock) -> None:
    written(store, [None, 10, 20, 30])
    assert found(store, [None], WindowReach("t", 1, nulls_below=True)) == [(n, True) for n in range(4)]


def test_many_changes_read_their_partitions_as_wholes(
    store: Hummock, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(store, list(range(50)))
    monkeypatch.setattr(neighbours, "MOST_SEARCHES", 7)
    assert found(store, [20, 30], WindowReach("t", 1, nulls_below=True)) == [(n, True) for n in range(50)]


def test_a_partition_that_is_read_as_a_whole_is_read_once_however_many_changes_it_has(
    store: Hummock, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(store, [None, None, *range(50)])
    monkeypatch.setattr(neighbours, "MOST_SEARCHES", 7)
    for nulls_below in (True, False):
        with rows_read(monkeypatch) as read:
            assert len(found(store, list(range(50)), WindowReach("t", 1, nulls_below=nulls_below))) == 52
        assert sum(read) == 52


@pytest.mark.parametrize("nulls_below", [True, False])
def test_rows_that_are_level_and_rows_without_a_value_are_read_once_for_all_changes_near_them(
    store: Hummock, monkeypatch: pytest.MonkeyPatch, nulls_below: bool
) -> None:
    state = written(store, [*[None] * 30, *[7] * 30, *range(100, 140)])
    ids = list(range(70, 100))
    times = [id + 40 for id in ids]
    store.ingest_batch({state: [Delete(pa.table([[1] * 30, times, ids], schema=SCHEMA))]})
    with rows_read(monkeypatch) as read:
        near = found(store, [*times, 103], WindowReach("t", 2, nulls_below=nulls_below))
    absent = [] if nulls_below else [(n, True) for n in range(30)]
    assert near == [*absent, *((n, n > 60) for n in range(30, 70))]
    assert sum(read) == len(near)


@contextmanager
def rows_read(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Gather how many rows each look into a state finds."""
    read: list[int] = []
    looked_up = Reader.lookup_in_parts

    def counting(*given: Any, **named: Any) -> Iterator[tuple[Any, pa.Table]]:
        for index, rows in looked_up(*given, **named):
            read.append(rows.num_rows)
            yield index, rows

    with monkeypatch.context() as patched:
        patched.setattr(Reader, "lookup_in_parts", counting)
        yield read

"""Bytes that pass through a process are counted for the piece of work that they pass for, and told by the next commit."""

from __future__ import annotations

import threading

import pyarrow as pa

from engine.hummock import Hummock, Put, Table
from engine.hummock.metrics import Counters
from engine.hummock.monitoring.driver_traffic import track_bytes, track_rows, track_traffic
from tests.hummock.conftest import rows


def test_what_passes_is_counted_for_the_innermost_work() -> None:
    counters = Counters()
    with track_traffic(counters, "source a") as outer:
        track_bytes(10)
        with track_traffic(counters, "compaction t") as inner:
            track_bytes(3)
        track_bytes(5)
    assert (outer.bytes, inner.bytes) == (15, 3)
    assert counters.values() == {"driver_bytes.source a": 15, "driver_bytes.compaction t": 3}


def test_what_passes_for_no_work_is_not_counted() -> None:
    """As in a task, which runs the same code on an executor."""
    counters = Counters()
    with track_traffic(counters, "source a"):
        other = threading.Thread(target=track_bytes, args=(7,))
        other.start()
        other.join()
    track_bytes(7)
    assert counters.values() == {}


def test_rows_that_are_held_are_counted_by_their_size() -> None:
    table = pa.table({"n": pa.array(range(100), pa.int64())})
    with track_traffic(Counters(), "query") as traffic:
        assert track_rows(table) is table
    assert traffic.bytes == 800


def test_a_compaction_in_this_process_passes_the_rows_that_it_merges(store: Hummock, table: Table) -> None:
    for first in (0, 100):
        store.ingest_batch({table: [Put(rows({n: "a" for n in range(first, first + 100)}))]})
    before = store.metrics()
    store.compact(table)
    cost = store.metrics().since(before)
    assert cost.driver_bytes[f"compaction {table.name}"] >= 200 * 8
    after = store.metrics()
    store.ingest_batch({table: [Put(rows({1: "b"}))]})
    assert store.metrics().since(after).driver_bytes == {}


def test_the_next_commit_tells_what_has_passed_once(store: Hummock, table: Table) -> None:
    store.counters.add_driver_bytes("sink s", 5)
    store.ingest_batch({table: [Put(rows({1: "a"}))]})
    store.ingest_batch({table: [Put(rows({2: "a"}))]})
    store.counters.add_driver_bytes("sink s", 2)
    store.ingest_batch({table: [Put(rows({3: "a"}))]})
    spent = store.spending()
    assert spent is not None and spent.driver_bytes == {"sink s": 7}

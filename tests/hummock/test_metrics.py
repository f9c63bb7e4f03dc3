"""Counters of requests, commits and caches, and the shape of a store, as one snapshot."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.hummock import Delete, Hummock, Put, Table
from engine.hummock.metrics import Counters, Metrics
from tests.hummock.conftest import keys, rows


def test_an_idle_poll_costs_one_get(store: Hummock, table: Table) -> None:
    before = store.metrics()
    store.refresh()
    assert store.metrics().since(before).requests == {"get": 1}


def test_a_write_costs_one_file_and_one_manifest(store: Hummock, table: Table) -> None:
    before = store.metrics()
    store.ingest_batch({table: [Put(rows({1: "a"}))]})
    cost = store.metrics().since(before)
    assert cost.requests == {"put": 1, "put_if_absent": 1}
    assert (cost.commits, cost.ingested_rows, cost.rebases) == (1, 1, 0)
    assert cost.bytes_out > cost.ingested_bytes > 0


def test_files_are_counted_by_level_and_history_apart(store: Hummock, table: Table) -> None:
    for step in range(3):
        store.ingest_batch({table: [Put(rows({step: "a", 9: "b"}))]})
    store.ingest_batch({table: [Delete(keys(0))]})
    shape = store.metrics().tables["t"]
    assert (shape.l0, shape.files, shape.levels[0].rows, shape.levels[0].tombstones) == (4, 4, 7, 1)
    assert (shape.history_files, shape.log_entries) == (0, 4)
    store.compact(table)
    shape = store.metrics().tables["t"]
    assert (shape.l0, [level.files for level in shape.levels]) == (0, [0, 1])
    assert (shape.history_files, shape.generations) == (4, 2)
    assert store.metrics().space_amplification > 1


def test_a_compaction_raises_write_amplification(store: Hummock, table: Table) -> None:
    before = store.metrics()
    assert before.since(before).write_amplification is None
    for step in range(2):
        store.ingest_batch({table: [Put(rows({step: "a"}))]})
    assert store.metrics().since(before).write_amplification == 1
    store.compact(table)
    cost = store.metrics().since(before)
    assert cost.compactions == 1
    assert 1 < cost.write_amplification <= 2


def test_read_amplification_is_the_files_that_a_lookup_searches(store: Hummock, table: Table) -> None:
    for value in ("a", "b", "c"):
        store.ingest_batch({table: [Put(rows({1: value}))]})
    before = store.metrics()
    store.get(table, {"id": 1})
    assert store.metrics().since(before).read_amplification == 1
    store.compact(table)  # which looks up what stood before, for the table's fingerprint
    middle = store.metrics()
    store.get(table, {"id": 1})
    cost = store.metrics().since(middle)
    assert (cost.lookups, cost.read_amplification) == (1, 1)


def test_a_look_up_of_an_evicted_file_is_a_miss(store: Hummock, table: Table) -> None:
    store.ingest_batch({table: [Put(rows({1: "a"}))]})
    for file in store.reader.files.cache.folder.iterdir():
        file.unlink()
    before = store.metrics()
    store.get(table, {"id": 1})
    store.get(table, {"id": 1})
    cost = store.metrics().since(before)
    assert (cost.cache_misses, cost.cache_hits, cost.cache_hit_rate) == (1, 1, 0.5)


def test_a_lost_race_is_a_rebase(open_store: Callable[..., Hummock], store: Hummock, table: Table) -> None:
    other = open_store()
    store.ingest_batch({table: [Put(rows({1: "a"}))]})
    before = other.metrics()
    other.ingest_batch({"t": [Put(rows({2: "b"}))]})
    assert other.metrics().since(before).rebases == 1


def test_counters_of_threads_add_up() -> None:
    counters = Counters()

    def work(_: int) -> None:
        for _ in range(1000):
            counters.add("retries")
            counters.count_request("get", seconds=0.0, received=2)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    values = counters.values()
    assert (values["retries"], values["requests.get"], values["bytes_in"]) == (4000, 4000, 8000)


@pytest.mark.parametrize("name", ["write_amplification", "read_amplification", "space_amplification"])
def test_a_ratio_without_a_base_is_none(name: str) -> None:
    assert getattr(Metrics(), name) is None

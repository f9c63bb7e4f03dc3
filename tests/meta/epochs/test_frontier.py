"""Frontiers move for free over epochs in which nothing that a view reads has changed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from engine.hummock import Commit, Hummock, Put, Table
from engine.meta.epochs.frontier import compute_frontiers

SCHEMA = pa.schema([("id", pa.int64())])
ORDER = ("a", "b", "v", "w")
INPUTS = {"a": (), "b": (), "v": ("a",), "w": ("v", "b")}


@pytest.fixture
def store(tmp_path: Path) -> Hummock:
    opened = Hummock.open((tmp_path / "store").as_uri(), cache_dir=str(tmp_path / "cache"))
    for name in ("a", "b"):
        opened.create_table(name, SCHEMA, ["id"], ["id"])
    return opened


def put(store: Hummock, table: str, key: int) -> int:
    return store.ingest_batch({table: [Put(pa.table({"id": [key]}))]})


def commit_view(store: Hummock, name: str, epoch: int, rows: list[int]) -> None:
    exists = name in store.version.tables
    table = Table(name, SCHEMA, ("id",), ("id",))
    operations = pa.table({"id": pa.array(rows, pa.int64()), "_op": pa.array([0] * len(rows), pa.uint8())})
    written = store.reader.write_run(table, operations) if rows else []
    store.commit(
        Commit(create=() if exists else (table,), writes={name: tuple(written)}, epochs={name: epoch})
    )


def test_a_view_that_was_never_computed_is_pending_and_its_readers_wait(store: Hummock) -> None:
    known = compute_frontiers(store.version, ORDER, INPUTS)
    assert known["v"].pending and known["v"].frontier is None
    assert not known["w"].pending and known["w"].lagging


def test_a_source_is_known_up_to_the_newest_epoch_of_the_store(store: Hummock) -> None:
    put(store, "a", 1)
    newest = put(store, "b", 1)
    assert compute_frontiers(store.version, ORDER, INPUTS)["a"].frontier == newest


def test_a_views_frontier_passes_epochs_that_did_not_touch_its_inputs(store: Hummock) -> None:
    epoch = put(store, "a", 1)
    commit_view(store, "v", epoch, [1])
    newest = put(store, "b", 1)
    known = compute_frontiers(store.version, ORDER, INPUTS)["v"]
    assert known.committed == epoch and known.frontier is not None and known.frontier >= newest
    assert not known.pending and not known.lagging


def test_a_change_of_an_input_stops_the_frontier_just_before_it(store: Hummock) -> None:
    epoch = put(store, "a", 1)
    commit_view(store, "v", epoch, [1])
    put(store, "b", 1)
    change = put(store, "a", 2)
    known = compute_frontiers(store.version, ORDER, INPUTS)["v"]
    assert known.pending and known.frontier == change - 1 and known.oldest_change == change


def test_a_reader_reaches_no_further_than_the_slowest_of_its_inputs(store: Hummock) -> None:
    epoch = put(store, "a", 1)
    commit_view(store, "v", epoch, [1])
    commit_view(store, "w", epoch, [1])
    change = put(store, "a", 2)
    put(store, "b", 2)
    known = compute_frontiers(store.version, ORDER, INPUTS)["w"]
    assert known.reach == change - 1 and not known.pending and known.lagging

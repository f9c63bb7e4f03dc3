"""A pin keeps history readable for its time, and not for ever."""

from __future__ import annotations

import pytest

from engine.errors import Conflict, EpochExpired
from engine.hummock import Hummock, Put, Table
from tests.hummock.conftest import MovableClock, content, rows


def test_a_pinned_epoch_outlives_the_retention_and_ends_by_itself(
    store: Hummock, table: Table, clock: MovableClock
) -> None:
    epoch = store.ingest_batch({table: [Put(rows({1: "a"}))]})
    store.pin(table, epoch, seconds=10_000, owner="report")
    store.ingest_batch({table: [Put(rows({1: "b"}))]})
    store.compact(table)
    clock.added += 5_000
    store.gc()
    assert content(store, epoch=epoch) == {1: "a"}
    clock.added += 5_001
    store.gc()
    assert store.version.tables["t"].pins == {}
    with pytest.raises(EpochExpired):
        content(store, epoch=epoch)


def test_a_pin_ends_when_it_is_taken_away(store: Hummock, table: Table, clock: MovableClock) -> None:
    epoch = store.ingest_batch({table: [Put(rows({1: "a"}))]})
    pin = store.pin(table, seconds=10_000)
    assert pin.epoch == epoch
    store.ingest_batch({table: [Put(rows({1: "b"}))]})
    store.unpin(pin)
    clock.added += 5_000
    store.compact(table)
    with pytest.raises(EpochExpired):
        content(store, epoch=epoch)
    with pytest.raises(Conflict, match="history begins"):
        store.pin(table, epoch, seconds=10)


def test_a_tables_own_retention_counts_for_it_alone(store: Hummock, clock: MovableClock) -> None:
    schema = rows({}).schema
    short = store.create_table("short", schema, ["id"], retention_seconds=10)
    long = store.create_table("long", schema, ["id"])
    epoch = store.ingest_batch({table: [Put(rows({1: "a"}))] for table in (short, long)})
    store.ingest_batch({table: [Put(rows({1: "b"}))] for table in (short, long)})
    clock.added += 100
    store.compact(short)
    store.compact(long)
    assert content(store, "long", epoch) == {1: "a"}
    with pytest.raises(EpochExpired):
        content(store, "short", epoch)

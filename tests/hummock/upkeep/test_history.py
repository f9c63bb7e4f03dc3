"""What a cut lets go of, who keeps what beyond the retention, and which holds are over."""

from __future__ import annotations

import pytest

from engine.hummock import Commit, Hummock, Put, Table
from engine.hummock.epoch import seconds_of
from engine.hummock.upkeep.history import count_log_bytes
from tests.hummock.conftest import MovableClock, content, rows


def write(store: Hummock, table: Table, value: str) -> int:
    return store.ingest_batch({table: [Put(rows({1: value, 2: value}))]})


def test_a_cut_lets_go_of_what_the_retention_does_not_ask_for_and_says_how_much(
    store: Hummock, table: Table, clock: MovableClock
) -> None:
    for value in "abc":
        write(store, table, value)
    store.compact(table)
    assert store.maintenance.truncate() == ()
    before = store.version.tables["t"]
    clock.added += 1000
    (gone,) = store.maintenance.truncate()
    assert (gone.table, gone.epochs, gone.rows, gone.bytes) == ("t", 3, 6, count_log_bytes(before))
    assert count_log_bytes(store.version.tables["t"]) == 0
    assert content(store) == {1: "c", 2: "c"}
    assert store.maintenance.truncate() == ()


@pytest.mark.parametrize("kind", ["consumer", "pin"])
def test_who_keeps_a_log_beyond_the_retention_is_named_with_what_it_keeps(
    store: Hummock, table: Table, clock: MovableClock, kind: str
) -> None:
    first, second = write(store, table, "a"), write(store, table, "b")
    third = write(store, table, "c")
    field = "acks" if kind == "consumer" else "pins"
    store.commit(Commit(**{field: {"t": {"slow": first, "slower still": first, "idle": third}}}))  # type: ignore[arg-type]
    assert store.maintenance.list_holders() == ()  # the retention keeps all of it
    clock.added += 1000
    store.compact(table)
    store.maintenance.truncate()
    one, other = store.maintenance.list_holders()
    assert {one.name, other.name} == {"slow", "slower still"}
    assert (one.table, one.kind, one.epoch, one.epochs, one.rows) == ("t", kind, first, 2, 4)
    assert one.since == seconds_of(second)
    assert len(store.version.tables["t"].list_changes(first, third)) == 2
    store.commit(Commit(**{field: {"t": {"slow": None, "slower still": None}}}))  # type: ignore[arg-type]
    (gone,) = store.maintenance.truncate()
    assert gone.epochs == 3
    assert store.maintenance.list_holders() == ()


def test_holds_that_are_over_end_and_others_stay(store: Hummock, table: Table, clock: MovableClock) -> None:
    write(store, table, "a")
    short, long = (store.pin(table, seconds=seconds, owner="the nightly report") for seconds in (10, 10_000))
    clock.added += 100
    ended = store.maintenance.end_holds()
    assert [(pin.name, pin.owner) for pin in ended.pins] == [(short.name, "the nightly report")]
    assert ended.leases == ()
    assert set(store.version.tables["t"].pins) == {long.name}
    assert store.maintenance.end_holds().pins == ()


def test_a_collection_says_what_keeps_the_rest(store: Hummock, table: Table, clock: MovableClock) -> None:
    write(store, table, "a")
    write(store, table, "b")
    store.compact(table)
    held = store.maintenance.delete_garbage(dry_run=False, grace_seconds=3600).held
    assert {kind: one.objects for kind, one in held.items()} == {
        "live": 1,
        "history": 2,
        "branch": 0,
        "grace": 0,
    }
    clock.added += 1000
    store.maintenance.truncate()
    held = store.maintenance.delete_garbage(dry_run=False, grace_seconds=3600).held
    assert {kind: one.objects for kind, one in held.items()} == {
        "live": 1,
        "history": 0,
        "branch": 0,
        "grace": 2,
    }
    assert all(one.bytes > 0 for one in (held["live"], held["grace"]))
    clock.added += 4000
    report = store.maintenance.delete_garbage(dry_run=False, grace_seconds=3600)
    assert (report.deleted_objects, report.kept_objects) == (2, 1)

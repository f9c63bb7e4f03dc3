"""A table that follows the clock has content up to its next crossing, lags from there on, and makes a store at rest note the time."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pyarrow as pa
import pytest

from engine.hummock import Commit, Hummock, Put, Table
from engine.hummock.epoch import epoch_at, first_epoch_from, micros_of
from engine.meta.epochs.content import Content
from engine.meta.epochs.frontier import compute_frontiers, needs_run
from engine.meta.epochs.time_boundary import (
    BOUNDARIES,
    advance_version,
    clear_boundaries,
    count_crossing_rows,
    find_next_boundary,
    forget_boundaries,
    record_boundaries,
    record_time,
    rename_boundaries,
    request_boundaries,
)
from engine.sql.expression.clock import FOREVER, TIME_AT, TIME_PART
from engine.testing.manual_clock import ManualClock
from engine.testing.memory import MemoryObjectStore
from tests.meta.domains.test_domain import catalog

STORED = catalog({"a": ("t", None), "b": ("a", None)})
TIMED = pa.schema([(TIME_PART, pa.int32()), (TIME_AT, pa.int64()), ("id", pa.int64())])


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(start=1_700_000_000.0)


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Hummock:
    objects = MemoryObjectStore(clock)
    opened = Hummock.open("memory://crossing", object_store=objects, clock=clock, cache_dir=str(tmp_path))
    opened.create_table("t", pa.schema([("id", pa.int64())]), ["id"], ["id"])
    return opened


def put(store: Hummock, key: int) -> int:
    return store.ingest_batch({"t": [Put(pa.table({"id": [key]}))]})


def bring(store: Hummock, label: int, bounds: list[int]) -> None:
    """Commit the state `a`, with a row for each bound, and `b` over it, with the entry that a checkpoint would write."""
    known = store.version.tables
    made = Table("a", TIMED, (TIME_PART, TIME_AT, "id"), (TIME_PART,))
    rows = pa.table(
        {
            TIME_PART: pa.array([n % 16 for n in range(len(bounds))], pa.int32()),
            TIME_AT: pa.array(bounds, pa.int64()),
            "id": pa.array(range(len(bounds)), pa.int64()),
            "_op": pa.array([0] * len(bounds), pa.uint8()),
        }
    )
    other = Table("b", pa.schema([("id", pa.int64())]), ("id",), ("id",))
    store.commit(
        Commit(
            create=tuple(table for table in (made, other) if table.name not in known),
            writes={"a": tuple(store.reader.write_run(made, rows))},
            epochs={"a": label, "b": label},
        )
    )
    store.commit(Commit(catalog=record_boundaries(store.reader, store.version.tables, ["a"])))


def test_the_entry_is_the_first_epoch_at_or_after_the_first_bound(store: Hummock) -> None:
    label = put(store, 1)
    at = micros_of(label) + 5_000_001
    bring(store, label, [at + 7, at, FOREVER])
    found = find_next_boundary(store.version, "a")
    assert found == first_epoch_from(at) and micros_of(found) - at == 999
    assert count_crossing_rows(store.reader, store.version.tables["a"], found) == 2


def test_a_table_without_a_bound_before_it_never_crosses_one(store: Hummock) -> None:
    bring(store, put(store, 1), [FOREVER])
    assert find_next_boundary(store.version, "a") is None
    assert BOUNDARIES.key("a") in store.version.catalog


def test_content_ends_before_the_crossing_also_for_what_reads_the_table(
    store: Hummock, clock: ManualClock
) -> None:
    label = put(store, 1)
    bring(store, label, [micros_of(label) + 10_000_000])
    at = find_next_boundary(store.version, "a")
    clock.sleep(60)
    store.create_table("later", TIMED, ["id"])
    version = store.version
    assert at is not None and version.epoch > at
    content = Content(version, STORED.inputs)
    assert content.find_newest("a", version.epoch) == at - 1
    assert content.find_newest("b", version.epoch) == at - 1
    known = compute_frontiers(version, ("t", "a", "b"), {"t": (), "a": ("t",), "b": ("a",)})
    assert known["a"].pending and known["b"].lagging and known["a"].oldest_change == at
    assert needs_run(version, "a", ("t",), at) and not needs_run(version, "a", ("t",), at - 1)


def test_of_an_older_label_nobody_knows_how_long_it_held(store: Hummock, clock: ManualClock) -> None:
    first = put(store, 1)
    bring(store, first, [micros_of(first) + 10_000_000])
    clock.sleep(60)
    second = put(store, 2)
    bring(store, second, [])
    content = Content(store.version, STORED.inputs)
    assert content.find_newest("a", second - 1) == first
    assert content.find_newest("a", second) == second


def test_a_store_at_rest_notes_the_time_when_a_crossing_is_due_and_not_before(
    store: Hummock, clock: ManualClock
) -> None:
    label = put(store, 1)
    bring(store, label, [micros_of(label) + 10_000_000])
    clock.sleep(9.999)
    version = store.version
    assert advance_version(version, STORED, clock()) is version
    assert record_time(store, version, STORED, clock()) is version
    clock.sleep(0.001)
    ahead = advance_version(version, STORED, clock())
    assert ahead.epoch == epoch_at(clock()) == find_next_boundary(version, "a")
    assert record_time(store, version, STORED, clock()).epoch == ahead.epoch


def test_a_store_notes_the_time_when_an_input_has_changed(store: Hummock, clock: ManualClock) -> None:
    bring(store, put(store, 1), [FOREVER])
    clock.sleep(5)
    put(store, 2)
    clock.sleep(5)
    assert advance_version(store.version, STORED, clock()).epoch == epoch_at(clock())


def test_a_store_without_such_tables_never_notes_the_time(store: Hummock, clock: ManualClock) -> None:
    put(store, 1)
    clock.sleep(1e6)
    assert advance_version(store.version, STORED, clock()) is store.version


def test_entries_move_and_go_with_their_tables(store: Hummock) -> None:
    label = put(store, 1)
    bring(store, label, [micros_of(label) + 1])
    version = store.version
    entry = version.catalog[BOUNDARIES.key("a")]
    assert rename_boundaries(version, {"a": "z", "t": "t"}) == {
        BOUNDARIES.key("a"): None,
        BOUNDARIES.key("z"): entry,
    }
    both = dataclasses.replace(version, catalog=version.catalog.apply_changes({BOUNDARIES.key("b"): "7"}))
    assert rename_boundaries(both, {"a": "b", "b": "a"}) == {
        BOUNDARIES.key("a"): "7",
        BOUNDARIES.key("b"): entry,
    }
    assert forget_boundaries(version, ["a", "t"]) == {BOUNDARIES.key("a"): None}
    after = dataclasses.replace(
        version, catalog=version.catalog.apply_changes(clear_boundaries(version, ["a", "t"]))
    )
    assert find_next_boundary(after, "a") is None and find_next_boundary(after, "t") is None
    assert request_boundaries(["a"], label) == {BOUNDARIES.key("a"): str(label + 1)}

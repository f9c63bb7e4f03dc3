"""The change log nets changes per key, and its old values are what a reader saw before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from engine.errors import ClaimBroken, EpochExpired
from engine.hummock import Commit, Delete, Hummock, Put, Table
from engine.hummock.sorted_files.file_set import RecentAnswers
from engine.verification import VARIABLE as VERIFY
from tests.hummock.conftest import SCHEMA, MovableClock, content, keys, log, rows


def test_one_net_change_per_key_over_several_epochs(store: Hummock, table: Table) -> None:
    start = store.ingest_batch({table: [Put(rows({1: "a", 2: "b", 3: "c"}))]})
    store.ingest_batch({table: [Put(rows({1: "A", 4: "d"})), Delete(keys(2))]})
    store.ingest_batch({table: [Put(rows({1: "AA", 5: "e"})), Delete(keys(3))]})
    assert log(store, start) == {
        1: ("update", "AA", "a"),
        2: ("delete", None, "b"),
        3: ("delete", None, "c"),
        4: ("insert", "d", None),
        5: ("insert", "e", None),
    }


def test_changes_without_effect_are_left_out(store: Hummock, table: Table) -> None:
    start = store.ingest_batch({table: [Put(rows({1: "a", 2: None}))]})
    store.ingest_batch({table: [Put(rows({1: "x", 2: None, 9: "new"}))]})
    store.ingest_batch({table: [Put(rows({1: "a"})), Delete(keys(9)), Delete(keys(77))]})
    assert log(store, start) == {}


def test_changes_that_only_insert_are_read_without_a_search_for_old_rows(
    store: Hummock, table: Table
) -> None:
    start = store.ingest_batch({table: [Put(rows({1: "a"}))]})
    store.ingest_batch({table: Put(rows({2: "b", 3: None}), new_keys=True)})
    inserted = store.ingest_batch({table: Put(rows({4: "d"}), new_keys=True)})
    before = store.reader.files.counters.values().get("lookups", 0)
    assert log(store, start) == {
        2: ("insert", "b", None),
        3: ("insert", None, None),
        4: ("insert", "d", None),
    }
    assert store.reader.files.counters.values().get("lookups", 0) == before
    store.ingest_batch({table: [Delete(keys(2))]})
    store.ingest_batch({table: Put(rows({2: "again"}), new_keys=True)})
    assert log(store, start)[2] == ("insert", "again", None)
    assert log(store, inserted) == {2: ("update", "again", "b")}


def test_a_write_that_also_replaces_or_deletes_is_not_read_as_one_that_inserts(
    store: Hummock, table: Table
) -> None:
    start = store.ingest_batch({table: [Put(rows({1: "a", 2: "b"}))]})
    store.ingest_batch({table: [Put(rows({3: "c"}), new_keys=True), Put(rows({1: "A"}))]})
    store.ingest_batch({table: [Put(rows({4: "d"}), new_keys=True), Delete(keys(2))]})
    assert log(store, start) == {
        1: ("update", "A", "a"),
        2: ("delete", None, "b"),
        3: ("insert", "c", None),
        4: ("insert", "d", None),
    }


def test_a_row_that_was_hidden_when_its_key_came_again_is_still_retracted(
    store: Hummock, clock: MovableClock
) -> None:
    table = store.create_table("t", SCHEMA, ["id"], ttl_seconds=10)
    start = store.ingest_batch({table: [Put(rows({1: "a"}))]})
    clock.added += 11
    store.ingest_batch({table: Put(rows({1: "b"}), new_keys=True)})
    assert log(store, start) == {1: ("update", "b", "a")}


def count_lookups(store: Hummock, read: Callable[[], object]) -> int:
    before = store.reader.files.counters.values().get("lookups", 0)
    read()
    return store.reader.files.counters.values().get("lookups", 0) - before


def read_weights(store: Hummock, after: int, upto: int, *columns: str) -> list[tuple[object, ...]]:
    batches = store.reader.read_changes(store.version.tables["t"], after, upto, columns=columns)
    return sorted((tuple(row.values()) for batch in batches for row in batch.to_pylist()), key=repr)


def test_readers_of_a_change_share_the_search_for_its_old_rows(
    store: Hummock, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = store.ingest_batch({table: [Put(rows({1: "a", 2: "b"}))]})
    second = store.ingest_batch({table: [Put(rows({1: "A", 3: "c"})), Delete(keys(2))]})
    third = store.ingest_batch({table: [Put(rows({1: "x"})), Delete(keys(3))]})
    monkeypatch.setenv(VERIFY, "0")  # whose check searches again
    whole = [(1, "A", 1), (1, "a", -1), (2, "b", -1), (3, "c", 1)]
    assert count_lookups(store, lambda: read_weights(store, first, second, "id", "v")) == 1
    assert count_lookups(store, lambda: read_weights(store, first, second, "id", "v")) == 0
    assert read_weights(store, first, second, "v") == [
        row[1:] for row in sorted(whole, key=lambda r: repr(r[1:]))
    ]
    assert read_weights(store, first, second, "id", "v") == sorted(whole, key=repr)
    assert count_lookups(store, lambda: read_weights(store, first, third, "id", "v")) == 1
    assert read_weights(store, first, third, "id", "v") == [(1, "a", -1), (1, "x", 1), (2, "b", -1)]
    assert read_weights(store, second, third, "id", "v") == [(1, "A", -1), (1, "x", 1), (3, "c", -1)]
    store.reader.files.forget()
    assert count_lookups(store, lambda: read_weights(store, first, second, "id", "v")) == 1


def test_a_shared_search_that_found_other_rows_breaks_its_claim(
    store: Hummock, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = store.ingest_batch({table: [Put(rows({1: "a", 2: "b"}))]})
    second = store.ingest_batch({table: [Put(rows({1: "A", 2: "B"}))]})
    recent = store.reader.files.recent_answers
    monkeypatch.setattr(
        recent, "add", lambda asked, found, size: RecentAnswers.add(recent, "other", found, size)
    )
    read_weights(store, first, second, "v")
    wrong = replace(recent.find("other"), rows=None)
    monkeypatch.setattr(recent, "find", lambda asked: wrong)
    monkeypatch.setenv(VERIFY, "1")
    with pytest.raises(ClaimBroken, match="known places"):
        read_weights(store, first, second, "v")


def test_readers_at_other_moments_of_a_table_that_hides_rows_search_for_themselves(
    store: Hummock, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = store.create_table("t", SCHEMA, ["id"], ttl_seconds=10)
    first = store.ingest_batch({table: [Put(rows({1: "a", 2: "b"}))]})
    clock.added += 6
    second = store.ingest_batch({table: [Put(rows({2: "B", 3: "c"}))]})
    monkeypatch.setenv(VERIFY, "0")
    assert count_lookups(store, lambda: read_weights(store, first, second, "v")) == 1
    assert count_lookups(store, lambda: read_weights(store, first, second, "v")) == 1


def test_a_range_is_cut_at_both_ends(store: Hummock, table: Table) -> None:
    epochs = [store.ingest_batch({table: [Put(rows({1: v}))]}) for v in "abcd"]
    assert log(store, epochs[0], epochs[2]) == {1: ("update", "c", "a")}
    assert log(store, epochs[1], epochs[1]) == {}


def test_signed_rows_carry_old_and_new(store: Hummock, table: Table) -> None:
    start = store.ingest_batch({table: [Put(rows({1: "a", 2: "b"}))]})
    end = store.ingest_batch({table: [Put(rows({1: "A", 3: "c"})), Delete(keys(2))]})
    batches = list(store.reader.read_changes(store.version.tables["t"], start, end))
    found = sorted((r["id"], r["_w"], r["v"]) for b in batches for r in b.to_pylist())
    assert found == [(1, -1, "a"), (1, 1, "A"), (2, -1, "b"), (3, 1, "c")]


def test_signed_rows_show_only_what_the_columns_show(store: Hummock, table: Table) -> None:
    start = store.ingest_batch({table: [Put(rows({1: "a", 2: "b"}))]})
    end = store.ingest_batch({table: [Put(rows({1: "A", 3: "c"})), Delete(keys(2))]})
    version = store.version.tables["t"]
    by_id = [r for b in store.reader.read_changes(version, start, end, columns=["id"]) for r in b.to_pylist()]
    assert sorted((r["id"], r["_w"]) for r in by_id) == [(2, -1), (3, 1)]
    bare = pa.Table.from_batches(store.reader.read_changes(version, start, end, columns=[]))
    assert sorted(bare.column("_w").to_pylist()) == [-1, 1]


def test_hash_ranges_partition_a_change(store: Hummock) -> None:
    table = store.create_table("t", SCHEMA, ["id"], ["id"])
    start = store.ingest_batch({table: [Put(rows({i: "old" for i in range(200)}))]})
    end = store.ingest_batch({table: [Put(rows({i: "new" for i in range(100, 300)}))]})
    parts = [(-(1 << 63), -1), (0, (1 << 63) - 1)]
    version = store.version.tables["t"]
    found = [
        r["_w"]
        for p in parts
        for b in store.reader.read_changes(version, start, end, hash_range=p)
        for r in b.to_pylist()
    ]
    assert (found.count(-1), found.count(1)) == (100, 200)


def test_the_log_survives_compaction_within_the_retention(store: Hummock, table: Table) -> None:
    start = store.ingest_batch({table: [Put(rows({1: "a", 2: "b"}))]})
    store.ingest_batch({table: [Put(rows({1: "A"})), Delete(keys(2))]})
    before = log(store, start)
    store.compact(table)
    assert log(store, start) == before == {1: ("update", "A", "a"), 2: ("delete", None, "b")}
    assert content(store, epoch=start) == {1: "a", 2: "b"}
    assert content(store) == {1: "A"}


def test_below_the_retention_reads_and_log_expire(store: Hummock, table: Table, clock: MovableClock) -> None:
    start = store.ingest_batch({table: [Put(rows({1: "a"}))]})
    store.ingest_batch({table: [Put(rows({1: "b"}))]})
    clock.added += 3600
    store.compact(table)
    with pytest.raises(EpochExpired, match="oldest readable"):
        store.get(table, {"id": 1}, epoch=start)
    with pytest.raises(EpochExpired, match="change log begins"):
        store.iter_log(table, start)
    assert content(store) == {1: "b"}


def test_an_acknowledged_epoch_holds_history_until_the_consumer_moves_on(
    store: Hummock, table: Table, clock: MovableClock
) -> None:
    start = store.ingest_batch({table: [Put(rows({1: "a"}))]})
    store.commit(Commit(acks={"t": {"view": start}}))
    now = store.ingest_batch({table: [Put(rows({1: "b"}))]})
    clock.added += 3600
    store.compact(table)
    assert log(store, start) == {1: ("update", "b", "a")}
    store.commit(Commit(acks={"t": {"view": now}}))
    store.gc()
    with pytest.raises(EpochExpired):
        store.iter_log(table, start)
    assert log(store, now) == {}


def test_a_pin_holds_history_and_goes_when_removed(store: Hummock, table: Table, clock: MovableClock) -> None:
    start = store.ingest_batch({table: [Put(rows({1: "a"}))]})
    store.commit(Commit(pins={"t": {"backfill": start}}))
    store.ingest_batch({table: [Put(rows({1: "b"}))]})
    clock.added += 3600
    store.compact(table)
    assert content(store, epoch=start) == {1: "a"}
    store.commit(Commit(pins={"t": {"backfill": None}}))
    store.gc()
    assert store.version.tables["t"].safe_epoch > start


def test_reads_go_on_over_epochs_without_a_write(store: Hummock, table: Table, clock: MovableClock) -> None:
    written = store.ingest_batch({table: [Put(rows({1: "a"}))]})
    store.compact(table)
    clock.added += 3600
    store.claim("somebody")
    store.gc(grace_seconds=0)
    assert content(store, epoch=written) == content(store, epoch=store.version.epoch) == {1: "a"}
    assert log(store, written) == {}


def test_an_open_reader_is_not_disturbed_by_commits(
    store: Hummock, table: Table, open_store: Callable
) -> None:
    epoch = store.ingest_batch({table: [Put(rows({1: "a"}))]})
    held = store.version.tables["t"]
    store.ingest_batch({table: [Put(rows({1: "b"}))]})
    store.compact(table)
    batches = list(store.reader.scan(held, epoch))
    assert [row for batch in batches for row in batch.to_pylist()] == [{"id": 1, "v": "a"}]

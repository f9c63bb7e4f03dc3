"""Compaction changes files, never content, at no readable epoch."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import Conflict
from engine.hummock import Delete, Hummock, Put, Table
from engine.hummock.compaction import TIER_EVERY, Full, Tier, is_tier_due, run_task
from engine.hummock.version import Commit
from tests.hummock.conftest import SCHEMA, MovableClock, content, keys, rows


def test_a_full_compaction_leaves_one_run_without_deletions(store: Hummock, table: Table) -> None:
    store.ingest_batch({table: [Put(rows({i: "old" for i in range(100)}))]})
    store.ingest_batch({table: [Put(rows({i: "new" for i in range(50)})), Delete(keys(*range(90, 100)))]})
    before = content(store)
    report = store.compact(table)
    version = store.version.tables["t"]
    assert (report.done, report.runs_after, report.rows_after, version.row_count) == (True, 1, 90, 90)
    assert not any(sst.has_tombstones for sst in version.live_ssts)
    assert content(store) == before
    assert not store.compact(table).done


def test_everything_deleted_compacts_to_nothing(store: Hummock, table: Table) -> None:
    store.ingest_batch({table: [Put(rows({1: "a"}))]})
    store.ingest_batch({table: [Delete(keys(1))]})
    store.compact(table)
    assert (store.version.tables["t"].file_count, content(store)) == (0, {})


def test_a_tier_compaction_keeps_the_deletions_that_lower_runs_need(store: Hummock, table: Table) -> None:
    store.ingest_batch({table: [Put(rows({i: "base" for i in range(50_000)}))]})
    for step in range(6):
        store.ingest_batch({table: [Put(rows({step: "new"})), Delete(keys(100 + step))]})
    before = content(store)
    report = store.compact_l0(table)
    assert (report.runs_before, report.runs_after) == (7, 2)
    assert store.version.tables["t"].l0_count == 0
    assert content(store) == before
    assert 105 not in before


def test_many_small_commits_are_tiered_by_themselves(store: Hummock, table: Table) -> None:
    for step in range(3 * TIER_EVERY):
        store.ingest_batch({table: [Put(rows({step % 5: str(step), 1000 + step: "x"}))]})
    version = store.version.tables["t"]
    assert len(version.as_of(version.committed_epoch)) < TIER_EVERY
    assert content(store)[2] == str(3 * TIER_EVERY - 1)
    assert len(content(store)) == 5 + 3 * TIER_EVERY


def test_every_epoch_within_the_retention_reads_the_same_after_compactions(
    store: Hummock, table: Table
) -> None:
    seen = {}
    for step in range(12):
        epoch = store.ingest_batch({table: [Put(rows({step: "a", step + 1: "b"})), Delete(keys(step - 2))]})
        seen[epoch] = content(store)
        if step % 4 == 1:
            store.compact_l0(table)
        if step % 4 == 3:
            store.compact(table)
    assert {epoch: content(store, epoch=epoch) for epoch in seen} == seen


def test_an_epoch_above_the_last_change_stays_readable_after_compaction(
    store: Hummock, table: Table, clock: MovableClock
) -> None:
    store.ingest_batch({table: [Put(rows({1: "a"}))]})
    last = store.ingest_batch({table: [Put(rows({2: "b"}))]})
    store.claim("somebody")
    store.commit(Commit(epochs={"t": store.version.epoch}))
    clock.added += 3600
    store.compact(table)
    version = store.version.tables["t"]
    assert (version.safe_epoch, version.last_change) == (last, last)
    assert content(store, epoch=last) == {1: "a", 2: "b"}


def test_a_cut_off_change_is_still_told_of(store: Hummock, table: Table, clock: MovableClock) -> None:
    first = store.ingest_batch({table: [Put(rows({1: "a"}))]})
    last = store.ingest_batch({table: [Put(rows({1: "b"}))]})
    clock.added += 3600
    store.compact(table)
    assert store.version.tables["t"].find_first_change(first) == last
    assert store.version.tables["t"].find_first_change(last) is None


def test_two_compactions_of_the_same_files_do_not_both_commit(
    store: Hummock, table: Table, open_store: Callable
) -> None:
    store.ingest_batch({table: [Put(rows({1: "a"}))]})
    store.ingest_batch({table: [Put(rows({1: "b"}))]})
    task = Full().pick(store.version.tables["t"])
    assert task is not None
    late = run_task(store.reader, task)
    store.compact(table)
    with pytest.raises(Conflict, match="compacted by another"):
        store.commit(Commit(compactions={"t": late}))
    assert content(store) == {1: "b"}


def test_writes_that_arrive_during_a_compaction_stay(store: Hummock, table: Table) -> None:
    store.ingest_batch({table: [Put(rows({1: "a"}))]})
    store.ingest_batch({table: [Put(rows({2: "b"}))]})
    task = Full().pick(store.version.tables["t"])
    assert task is not None
    done = run_task(store.reader, task)
    store.ingest_batch({table: [Put(rows({1: "late"}))]})
    store.commit(Commit(compactions={"t": done}))
    assert content(store) == {1: "late", 2: "b"}


def test_a_large_run_is_not_rewritten_for_small_ones(store: Hummock) -> None:
    table = store.create_table("t", SCHEMA, ["id"], ["id"])
    store.ingest_batch({table: [Put(rows({i: "x" for i in range(30_000)}))]})
    store.ingest_batch({table: [Put(rows({1: "y"}))]})
    store.ingest_batch({table: [Put(rows({2: "y"}))]})
    task = Tier().pick(store.version.tables["t"])
    assert task is not None
    assert (len(task.merge), len(task.rest)) == (2, 1)


def test_a_compaction_of_many_rows_ends_files_between_hashes(store: Hummock, monkeypatch) -> None:
    monkeypatch.setattr("engine.hummock.reads.merge.MERGE_ROWS", 1000)
    monkeypatch.setattr("engine.hummock.compaction.merging.TARGET_ROWS", 3000)
    table = store.create_table("t", SCHEMA, ["id"], ["id"])
    for start in (0, 5000):
        store.ingest_batch({table: [Put(rows({i: str(i) for i in range(start, start + 6000)}))]})
    store.compact(table)
    ssts = store.version.tables["t"].live_ssts
    assert len(ssts) > 2
    assert all(a.max_hash < b.min_hash for a, b in itertools.pairwise(ssts))
    assert len(content(store)) == 11_000


def test_small_files_are_due_above_a_large_first_run_until_they_are_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.hummock.compaction.schedule.TIER_LARGE_BYTES", 10_000)
    with Hummock.open((tmp_path / "s").as_uri(), cache_dir=str(tmp_path / "c"), auto_compact="off") as store:
        store.create_table("t", SCHEMA, ["id"], ["id"])
        store.ingest_batch({"t": [Put(rows({i: f"base {i}" for i in range(50_000)}))]})
        due = {}
        for step in range(TIER_EVERY + 8):
            store.ingest_batch({"t": [Put(rows({step: "new"}))]})
            due[step + 1] = is_tier_due(store.version.tables["t"])
        assert [count for count, is_due in due.items() if is_due] == [19, 23]  # of 20 and 24 runs
        report = store.compact_l0("t")
        assert (report.runs_before, report.runs_after) == (TIER_EVERY + 9, 2)
        assert not is_tier_due(store.version.tables["t"])

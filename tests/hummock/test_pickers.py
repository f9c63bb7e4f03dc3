"""Each picker picks what it is for, and what it asks for changes files and never content."""

from __future__ import annotations

import itertools
import pickle

import pytest

from engine.hummock import Delete, Hummock, Put, Table
from engine.hummock.compaction import (
    Level,
    Picker,
    SpaceReclaim,
    Tier,
    ToBase,
    Tombstone,
    TrivialMove,
    VnodeAlignment,
    next_task,
    run_task,
    schedule,
)
from engine.hummock.compaction.pickers.vnode import find_group, list_group_bounds
from engine.hummock.compaction.task import count_run_rows, list_live_runs
from engine.hummock.version import Compaction
from tests.hummock.conftest import SCHEMA, content, keys, rows


def version(store: Hummock):
    return store.refresh().tables["t"]


def put(store: Hummock, table: Table, ids: range, text: str = "x") -> None:
    store.ingest_batch({table: [Put(rows({i: text for i in ids}))]})


@pytest.fixture
def spread(store: Hummock) -> Table:
    """A table that is distributed by its key."""
    return store.create_table("t", SCHEMA, ["id"], ["id"])


def do(store: Hummock, picker: Picker):
    """Do what a picker asks for, as another process would; return its task."""
    task = picker.pick(version(store))
    if task is not None:
        before = content(store)
        store.commit_compaction("t", run_task(store.reader, pickle.loads(pickle.dumps(task))))
        assert content(store) == before
    return task


def test_tier_takes_runs_of_like_size_and_leaves_a_large_one(store: Hummock, table: Table) -> None:
    put(store, table, range(50_000))
    for step in range(4):
        put(store, table, range(step * 10, step * 10 + 10), "new")
    task = do(store, Tier())
    assert task is not None and len(task.merge) == 4 and len(list_live_runs(version(store))) == 2
    assert Tier().pick(version(store)) is None


def test_to_base_waits_until_the_upper_runs_are_a_good_part_of_the_base(store: Hummock, table: Table) -> None:
    put(store, table, range(20_000))
    put(store, table, range(1000), "new")
    assert ToBase(0.25).pick(version(store)) is None
    put(store, table, range(9000), "newer")
    assert do(store, ToBase(0.25)) is not None
    assert [count_run_rows(run) for run in list_live_runs(version(store))] == [20_000]


def test_level_merges_the_cheapest_pair_in_the_middle(store: Hummock, table: Table) -> None:
    for size in (40_000, 3000, 2500, 100):
        put(store, table, range(size), str(size))
    task = do(store, Level())
    assert task is not None and [count_run_rows(run) for run in task.merge] == [2500, 3000]
    assert [count_run_rows(run) for run in list_live_runs(version(store))] == [100, 3000, 40_000]


def test_tombstones_end_at_the_base(store: Hummock, table: Table) -> None:
    put(store, table, range(20_000))
    store.ingest_batch({table: [Delete(keys(*range(5000)))]})
    put(store, table, range(30_000, 30_010))
    task = do(store, Tombstone())
    assert task is not None and len(task.above) == 1
    assert not any(sst.tombstones for sst in version(store).live_ssts)
    assert Tombstone().pick(version(store)) is None


def test_a_trivial_move_reads_nothing(store: Hummock, spread: Table) -> None:
    put(store, spread, range(3000))
    store.commit_compaction("t", run_task(store.reader, VnodeAlignment(2).pick(version(store))))  # type: ignore[arg-type]
    (run,) = list_live_runs(version(store))
    assert len(run) == 2
    low, high = run
    now = version(store)
    apart = Compaction(now.table_id, now.generations[-1], now.last_change, ((high,), (low,)))
    store.commit_compaction("t", apart)
    written = store.metrics().requests.get("put", 0)
    task = do(store, TrivialMove(least_rows=1000))
    assert task is not None and task.rows == 0 and store.metrics().requests.get("put", 0) == written
    assert [len(run) for run in list_live_runs(version(store))] == [2]


def test_vnode_alignment_cuts_files_at_the_bounds_of_the_groups(store: Hummock, spread: Table) -> None:
    put(store, spread, range(5000))
    assert do(store, VnodeAlignment(8)) is not None
    files = version(store).live_ssts
    assert len(files) == 8
    assert all(find_group(sst.min_hash, 8) == find_group(sst.max_hash, 8) for sst in files)
    assert VnodeAlignment(8).pick(version(store)) is None and VnodeAlignment(4).pick(version(store)) is None


def test_a_table_with_groups_of_vnodes_is_cut_at_their_bounds_by_itself(
    store: Hummock, spread: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "ALIGNED_ROWS", 1000)
    put(store, spread, range(3000))
    assert next_task(version(store)) is None
    store.alter_table("t", vnode_groups=3)
    while (task := next_task(version(store))) is not None:
        store.commit_compaction("t", run_task(store.reader, task))
    assert [find_group(sst.min_hash, 3) for sst in version(store).live_ssts] == [0, 1, 2]
    assert [find_group(sst.max_hash, 3) for sst in version(store).live_ssts] == [0, 1, 2]


def test_groups_cover_all_hashes_once() -> None:
    for groups in (1, 3, 8, 256):
        ranges = list_group_bounds(groups)
        assert ranges[0][0] == -(1 << 63) and ranges[-1][1] == (1 << 63) - 1
        assert all(a[1] + 1 == b[0] for a, b in itertools.pairwise(ranges))
        assert all(
            find_group(low, groups) == find_group(high, groups) == i for i, (low, high) in enumerate(ranges)
        )


def test_a_small_change_to_a_large_table_is_not_paid_with_the_table(store: Hummock, table: Table) -> None:
    put(store, table, range(50_000))
    for step in range(120):
        put(store, table, range(step * 20, step * 20 + 20), str(step))
        while (task := next_task(version(store))) is not None:
            store.commit_compaction("t", run_task(store.reader, task))
    assert store.metrics().compacted_rows < 3 * 50_000 and len(list_live_runs(version(store))) <= 8


@pytest.mark.parametrize("picker", [Tier(), ToBase(), Level(), Tombstone(), TrivialMove(), VnodeAlignment(4)])
def test_an_empty_table_needs_nothing(store: Hummock, table: Table, picker: Picker) -> None:
    assert picker.pick(version(store)) is None


def test_tier_looks_past_a_run_that_is_larger_than_those_above_it(store: Hummock, table: Table) -> None:
    for step in range(5):
        store.ingest_batch({table: [Put(rows({i: str(step) for i in range(15_000)}))]})
    store.ingest_batch({table: [Put(rows({1: "small"}))]})
    task = Tier().pick(store.version.tables["t"])
    assert task is not None
    assert len(task.merge) == 6


def test_space_reclaim_moves_what_keeps_a_dropped_tables_bundle_alive(store: Hummock, table: Table) -> None:
    large = store.create_table("a", SCHEMA, ["id"], ["id"])
    store.ingest_batch(
        {large: [Put(rows({i: f"{i * 7919}" for i in range(5_000)}))], table: [Put(rows({1: "x"}))]}
    )
    version = store.version
    assert SpaceReclaim(version).pick(version.tables["t"]) is None
    store.drop_table(large)
    version = store.version
    task = SpaceReclaim(version).pick(version.tables["t"])
    assert task is not None
    assert store.compact(table, SpaceReclaim(version)).done
    moved = store.version.tables["t"].live_ssts
    assert not {sst.path for sst in moved} & {sst.path for run in task.merge for sst in run}
    assert content(store) == {1: "x"}
    assert SpaceReclaim(store.version).pick(store.version.tables["t"]) is None

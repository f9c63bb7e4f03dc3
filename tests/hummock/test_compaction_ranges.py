"""A merge that is cut into ranges of hashes gives what the merge of all gives, by one commit."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from engine.errors import Conflict, CorruptObject
from engine.hummock import Hummock, Put
from engine.hummock.compaction import Full, Merge, Picker, Tier, run_task
from engine.hummock.compaction.merging import WHOLE, build_merge
from engine.hummock.compaction.pickers.vnode import VNODES, VnodeAlignment, find_group, list_group_bounds
from engine.hummock.compaction.ranges import split_merge
from engine.hummock.compaction.task import CompactionTask, list_live_runs
from engine.hummock.reads.merge import HashRange
from engine.hummock.version import Run, SstInfo
from tests.hummock.apart import Apart
from tests.hummock.random_tables import KINDS, copied, newest_run, random_table, readable
from tests.long_rest import mark_rest_long

STARTS = {low for low, _ in list_group_bounds(VNODES)}


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few thousand rows are many files."""
    monkeypatch.setattr("engine.hummock.reads.merge.MERGE_ROWS", 100)
    monkeypatch.setattr("engine.hummock.compaction.merging.TARGET_ROWS", 400)
    monkeypatch.setattr("engine.hummock.compaction.pickers.full.TARGET_ROWS", 400)


def task_of(store: Hummock, picker: Picker | None = None) -> CompactionTask:
    task = (picker or Full()).pick(store.refresh().tables["t"])
    assert task is not None
    return task


def of_run(rows: int, low: int, high: int, files: int = 1) -> Run:
    """Return a run of files that hold rows evenly between two hashes."""
    starts = [low + (high - low + 1) * n // files for n in range(files + 1)]
    return tuple(
        SstInfo(f"sst/{n}", 0, 10 * rows // files, rows // files, a, b - 1, 0, 0, 40 * rows // files)
        for n, (a, b) in enumerate(itertools.pairwise(starts))
    )


def merge(store: Hummock, *runs: Run) -> Merge:
    return build_merge(CompactionTask(store.version.tables["t"], runs, ()))


def rows_in(merge: Merge, hash_range: HashRange) -> float:
    low, high = hash_range
    return sum(
        sst.rows * max(0, min(sst.max_hash, high) - max(sst.min_hash, low) + 1) / (sst.max_hash - sst.min_hash + 1)
        for run in merge.runs
        for sst in run
    )  # fmt: skip


@pytest.fixture
def empty(tmp_path: Path) -> Hummock:
    store = Hummock.open((tmp_path / "empty").as_uri(), cache_dir=tmp_path / "cache", auto_compact="off")
    store.create_table("t", pa.schema([("id", pa.int64())]), ["id"], ["id"])
    return store


def test_ranges_are_whole_vnodes_that_follow_each_other_with_about_as_many_rows(empty: Hummock) -> None:
    low, high = WHOLE
    skewed = merge(empty, of_run(30_000_000, low, high, 15), of_run(10_000_000, low, low // 2, 5))
    ranges = split_merge(skewed, 6)
    assert len(ranges) == 12  # of 4 million rows at most, and six at once
    assert (ranges[0][0], ranges[-1][1]) == WHOLE
    assert all(a[1] + 1 == b[0] for a, b in itertools.pairwise(ranges))
    assert {low for low, _ in ranges} < STARTS
    rows = [rows_in(skewed, one) for one in ranges]
    assert max(rows) < 1.2 * min(rows)  # a vnode is some 3 % of one


def test_there_are_no_more_ranges_than_give_files_of_half_the_size(empty: Hummock) -> None:
    low, high = WHOLE
    runs = [of_run(3_000_000, low, high), *(of_run(100_000, low, high) for _ in range(20))]
    assert len(split_merge(merge(empty, *runs), 16)) == 3
    assert split_merge(merge(empty, of_run(900_000, low, high)), 16) == [WHOLE]


def test_rows_of_one_vnode_are_one_range(empty: Hummock) -> None:
    assert split_merge(merge(empty, of_run(30_000_000, 0, 0)), 8) == [WHOLE]
    few = merge(empty, of_run(30_000_000, 0, 0), of_run(3_000_000, *WHOLE))
    assert all(one == WHOLE or one[0] in STARTS for one in split_merge(few, 8))
    assert max(rows_in(few, one) for one in split_merge(few, 8)) >= 30_000_000  # that vnode is not cut


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "picker", mark_rest_long([Full(), Tier(), VnodeAlignment(3)]), ids=lambda one: type(one).__name__
)
def test_ranges_give_what_the_whole_gives(
    tmp_path: Path, small_files: None, kind: str, picker: Picker
) -> None:
    whole = random_table(tmp_path / "whole", f"{kind} {picker}", kind)
    apart = copied(whole, tmp_path / "apart")
    executor, number, before = Apart(apart), apart.version.number, readable(whole)
    done = [whole.compact("t", picker).done, apart.compact("t", picker, executor).done]
    assert done[0] == done[1] and apart.version.number == number + done[0]
    if isinstance(picker, Full):
        assert bool(executor.merged) == (kind != "ordered")  # that has one hash
    after, wanted = readable(apart), readable(whole)
    assert after.keys() == wanted.keys() and max(after) == max(before)
    for epoch, rows in after.items():
        assert rows.equals(wanted[epoch])
        assert epoch not in before or rows.equals(before[epoch])


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_ranges_are_as_those_of_the_whole(tmp_path: Path, small_files: None, kind: str) -> None:
    """One run in the order of its hashes, which says of its rows what it says where one process merges them."""
    whole = random_table(tmp_path / "whole", 70, kind)
    apart = copied(whole, tmp_path / "apart")
    task = task_of(apart, VnodeAlignment(3) if kind == "groups" else Full())
    for store, executor in ((whole, None), (apart, Apart(apart))):
        store.commit_compaction("t", run_task(store.reader, task, executor))
    runs = [list_live_runs(store.refresh().tables["t"])[-1] for store in (whole, apart)]
    for run in runs:
        assert all(a.max_hash < b.min_hash for a, b in itertools.pairwise(run))
        assert kind == "groups" or not any(sst.has_tombstones for sst in run)
    if kind == "groups":
        assert all(find_group(sst.min_hash, 3) == find_group(sst.max_hash, 3) for sst in runs[1])
    if kind not in ("crowded", "ordered"):
        assert max(sst.rows for sst in runs[1]) <= 400
    assert len({sum(sst.rows for sst in run) for run in runs}) == 1
    assert len({min((sst.oldest for sst in run if sst.oldest is not None), default=0) for run in runs}) == 1
    spreads = [[sst.spread for sst in run if sst.spread is not None] for run in runs]
    assert len({(min(spread), max(high for _, high in spread)) for spread in spreads if spread}) < 2
    assert all(bool(spread) == (kind == "watermark") for spread in spreads)


@pytest.mark.parametrize("by_ranges", [False, True])
def test_a_compacted_table_is_not_compacted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_ranges: bool
) -> None:
    """No file is so much smaller than others that merging them would help."""
    monkeypatch.setattr("engine.hummock.reads.merge.MERGE_ROWS", 5_000)
    for place in ("merging", "pickers.full"):
        monkeypatch.setattr(f"engine.hummock.compaction.{place}.TARGET_ROWS", 20_000)
    store = Hummock.open((tmp_path / "s").as_uri(), cache_dir=tmp_path / "c", auto_compact="off")
    store.create_table("t", pa.schema([("id", pa.int64())]), ["id"], ["id"])
    for start in (0, 61_000):
        store.ingest_batch({"t": [Put(pa.table({"id": np.arange(start, start + 82_000)}))]})
    executor = Apart(store) if by_ranges else None
    store.compact("t", executor=executor)
    rows = [sst.rows for sst in newest_run(store)]
    assert sum(rows) == 143_000 and min(rows) > 10_000 and max(rows) <= 20_000
    assert not store.compact("t", executor=executor).done


def test_a_range_reads_the_row_groups_within_it_by_two_requests_a_file(tmp_path: Path) -> None:
    store = Hummock.open((tmp_path / "s").as_uri(), cache_dir=tmp_path / "c", auto_compact="off")
    store.create_table("t", pa.schema([("id", pa.int64())]), ["id"], ["id"])
    store.ingest_batch({"t": [Put(pa.table({"id": np.arange(1_000_000)}))]})
    (sst,) = store.version.tables["t"].live_ssts
    store.reader.files.cache.drop(sst.sst_id)
    merge = build_merge(CompactionTask(store.version.tables["t"], ((sst,),), ()))
    before = store.metrics()
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("TIDELINE_VERIFY")
        (done,) = Apart(store).merge(merge, [list_group_bounds(8)[3]])
    cost = store.metrics().since(before)
    assert cost.requests["get_range"] == 2 and cost.bytes_in < sst.length / 4
    assert sum(one.rows for one in done) == pytest.approx(125_000, rel=0.02)
    assert not store.reader.files.is_open(sst)


def test_a_file_that_is_missing_or_damaged_is_told_as_where_one_process_merges(
    tmp_path: Path, small_files: None
) -> None:
    store = random_table(tmp_path / "s", 3, "plain")
    lost = task_of(store).merge[-1][0]
    (tmp_path / "s" / lost.path).unlink()
    store.reader.files.cache.drop(lost.sst_id)
    store.reader.files.forget()
    messages = []
    for executor in (None, Apart(store)):
        with pytest.raises(CorruptObject, match="is missing from the store") as error:
            run_task(store.reader, task_of(store), executor)
        messages.append(str(error.value))
    assert messages[0] == messages[1]


def test_ranges_of_files_that_were_replaced_meanwhile_are_not_committed(
    tmp_path: Path, small_files: None
) -> None:
    store = random_table(tmp_path / "s", 4, "plain")
    before = readable(store)

    class Overtaken(Apart):
        def merge(self, merge: Merge, ranges: Sequence[HashRange]) -> Sequence[Run]:
            done = super().merge(merge, ranges)
            other = Hummock.open(self.store.url, cache_dir=tmp_path / "other", auto_compact="off")
            other.compact("t")
            return done

    with pytest.raises(Conflict, match="compacted by another process"):
        store.compact("t", executor=Overtaken(store))
    after = readable(store)
    assert after[max(after)].equals(before[max(before)])

"""The executor: merges a task's files; a pure function of the task and the object store, in any process that reaches both."""

from __future__ import annotations

from engine.hummock.compaction.merging import Merge, build_merge, merge_range
from engine.hummock.compaction.ranges import RangeExecutor, split_merge
from engine.hummock.compaction.task import CompactionTask
from engine.hummock.monitoring.driver_traffic import track_traffic
from engine.hummock.reads.reader import Reader
from engine.hummock.reads.verify_assumptions import check_compaction_result
from engine.hummock.version import Compaction, Run
from engine.verification import should_verify


def run_task(reader: Reader, task: CompactionTask, executor: RangeExecutor | None = None) -> Compaction:
    """Do a task and return what a commit needs; the new files are durable, nothing is visible yet.

    Ranges of a large merge are the executor's, if there is one and it takes several at once.
    """
    table = task.table
    with track_traffic(reader.files.counters, f"compaction {table.name}"):
        merged = _move_files(task) if task.move else _merge_files(reader, build_merge(task), executor)
    runs = (*task.above, merged, *task.rest) if merged else (*task.above, *task.rest)
    done = Compaction(table.table_id, table.generations[-1], table.last_change, runs)
    if should_verify():
        before, at = (*task.above, *task.merge, *task.rest), max(table.last_change, task.hidden_at)
        check_compaction_result(reader.files, table, before, done, at, merged if task.move else None)
    return done


def _move_files(task: CompactionTask) -> Run:
    return tuple(sorted((sst for run in task.merge for sst in run), key=lambda sst: sst.min_hash))


def _merge_files(reader: Reader, merge: Merge, executor: RangeExecutor | None) -> Run:
    if executor is None or len(split_merge(merge, 2)) < 2:
        return merge_range(reader, merge)
    at_once = executor.at_once(merge)
    if at_once < 2:
        return merge_range(reader, merge)
    return tuple(sst for run in executor.merge(merge, split_merge(merge, at_once)) for sst in run)

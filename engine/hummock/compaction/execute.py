"""The executor: merges a task's files; a pure function of the task and the object store, in any process that reaches both."""

from __future__ import annotations

from engine.hummock.compaction.merging import Merge, merge_of, merge_range
from engine.hummock.compaction.ranges import RangeExecutor, ranges_of
from engine.hummock.compaction.task import CompactionTask
from engine.hummock.driver_traffic import traffic_of
from engine.hummock.reader import Reader
from engine.hummock.verified import check_result
from engine.hummock.version import Compaction, Run
from engine.verification import verifying


def run_task(reader: Reader, task: CompactionTask, executor: RangeExecutor | None = None) -> Compaction:
    """Do a task and return what a commit needs; the new files are durable, nothing is visible yet.

    Ranges of a large merge are the executor's, if there is one and it takes several at once.
    """
    table = task.table
    with traffic_of(reader.files.counters, f"compaction {table.name}"):
        merged = _moved(task) if task.move else _merged(reader, merge_of(task), executor)
    runs = (*task.above, merged, *task.rest) if merged else (*task.above, *task.rest)
    done = Compaction(table.table_id, table.generations[-1], table.last_change, runs)
    if verifying():
        before, at = (*task.above, *task.merge, *task.rest), max(table.last_change, task.hidden_at)
        check_result(reader.files, table, before, done, at, merged if task.move else None)
    return done


def _moved(task: CompactionTask) -> Run:
    return tuple(sorted((sst for run in task.merge for sst in run), key=lambda sst: sst.min_hash))


def _merged(reader: Reader, merge: Merge, executor: RangeExecutor | None) -> Run:
    if executor is None or len(ranges_of(merge, 2)) < 2:
        return merge_range(reader, merge)
    at_once = executor.at_once(merge)
    if at_once < 2:
        return merge_range(reader, merge)
    return tuple(sst for run in executor.merge(merge, ranges_of(merge, at_once)) for sst in run)

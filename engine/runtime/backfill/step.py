"""What one step of a snapshot backfill computes; of a view that is cut, without the partitions on which a row fails."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from engine.errors import RowFailed
from engine.operators.materialize import NetChange
from engine.runtime.executor import Executor, FragmentTask
from engine.runtime.partitions.poison_search import MOST_CANDIDATES, Poison, find_poison, name_rows
from engine.sql.incremental.partitions import Partitioning

StepChanges = tuple[NetChange, ...]


def compute_step(
    executor: Executor,
    task: FragmentTask,
    how: Partitioning | None,
    behind: Collection[str],
    check: Callable[[Sequence[NetChange]], None],
) -> tuple[StepChanges, Poison]:
    """Return what a step writes without the partitions `behind`, and those that it found to fail.

    What earlier steps have written of a partition that fails now goes: nobody is to see a part of it. `check` raises RowFailed
    for rows that must not be written. Raises RowFailed if the view is not cut.
    """

    def compute(part: FragmentTask) -> StepChanges:
        changes = executor.compute(part).changes
        check(changes)
        return changes

    try:
        return compute(_exclude_partitions(task, how, behind)), Poison()
    except RowFailed as failure:
        if how is None:
            raise

        def fails(keys: Collection[str]) -> RowFailed | None:
            fragment, mine = how.restrict(task.fragment, keys), how.build_own_predicate(task.table.name, keys)
            try:
                compute(replace(task, fragment=fragment, mine=mine))
            except RowFailed as error:
                return error.with_traceback(None)
            return None

        read = executor.partitions(task, how.list_sources(task.fragment), MOST_CANDIDATES)
        poison = find_poison(how.view, read, behind, fails, failure)
        if not poison.failures:
            raise
    poison.failures |= name_rows(poison.failures)
    gone = _delete_partitions(executor, task, how, poison.failures) if task.piece is not None else ()
    return (*gone, *compute(_exclude_partitions(task, how, {*behind, *poison.failures}))), poison


def _delete_partitions(
    executor: Executor, task: FragmentTask, how: Partitioning, keys: Collection[str]
) -> StepChanges:
    """Delete what a table holds of some partitions."""
    nothing, mine = how.restrict(task.fragment, ()), how.build_own_predicate(task.table.name, keys)
    return executor.compute(replace(task, fragment=nothing, piece=None, whole=True, mine=mine)).changes


def _exclude_partitions(
    task: FragmentTask, how: Partitioning | None, behind: Collection[str]
) -> FragmentTask:
    """Return the task for all partitions but those `behind`."""
    if how is None or not behind:
        return task
    fragment = how.restrict(task.fragment, behind, inside=False)
    return replace(
        task, fragment=fragment, mine=how.build_own_predicate(task.table.name, behind, inside=False)
    )

"""Fragments of several domains that one Spark action computes before their turn, and what becomes of their results.

Nothing else changes: each domain plans, checks, commits and fails by itself. Where it asks for a fragment's change it gets the
result that is there, if that was computed from the very rows that it reads; otherwise it computes the fragment in an action of
its own.
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from tempfile import NamedTemporaryFile, gettempdir
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from engine.errors import EpochExpired, RowsNotKept, StorageError
from engine.hummock import Hummock, SstInfo, Table, Version
from engine.operators.arrow.map_in_arrow import Body, make_task_frame, map_in_arrow
from engine.operators.dynamic_filter import list_dynamic_filters
from engine.operators.flow import Chain
from engine.operators.lookups.scan import ReadTable
from engine.operators.lookups.table_parameters import TableParameter
from engine.operators.materialize import NetChange, WriteTable, collect_changes
from engine.operators.shared_task import (
    NO_TIME,
    SHARED_SCHEMA,
    Bodies,
    SharedCall,
    SharedFragment,
    SharedTask,
    StagedFragments,
    decode_report,
    identify_reads,
    narrow_tables,
    pack_bodies,
)
from engine.runtime.epoch.prepared_frames import MOST_SHARED_ROWS, PreparedFrames
from engine.runtime.epoch.shared_schedule import ActionPlan, plan_actions
from engine.runtime.executor import FragmentTask, PlannedEpochs, PlannedFragment
from engine.runtime.spark.session import EngineSpark
from engine.spark_internals import attach_task_text, can_attach_text, prepare_run
from engine.sql.incremental.fragments import Fragment
from engine.sql.incremental.rules import IndexCopy
from engine.sql.plan import Scan

_LOG = logging.getLogger(__name__)
MOST_BODIES = 5_000
MOST_TASKS = 8
LEAST_FRAGMENTS = 2
"""Fewer are computed as fast by actions of their own."""
MOST_AHEAD_SECONDS = 30.0
"""No further action of a run is started after so long: domains begin, and compute by themselves what is left."""
LONG_SECONDS = 1.0
"""What took longer has an action of its own: a run waits for all that is computed ahead before its domains begin."""


@dataclass(frozen=True)
class SharedResult:
    """What a shared action has computed of a fragment for its table: which rows were read, files and counts, and the seconds."""

    fragment: Fragment
    table: Table
    reads: tuple[str, ...]
    identity: bytes
    changes: tuple[NetChange, ...]
    seconds: float

    @property
    def paths(self) -> set[str]:
        """The objects that its files lie in, maybe with those of others."""
        return {sst.path for change in self.changes for sst in change.ssts}

    def fits(self, task: FragmentTask) -> bool:
        """Tell whether it is what `task` asks for: the change that the same rows make to the same table."""
        assert task.old is not None
        same = self.fragment is task.fragment or self.fragment == task.fragment  # some leave out a partition
        if not same or self.table != task.table:
            return False
        tables = {name: task.tables[name] for name in self.reads if name in task.tables}
        if len(tables) < len(self.reads):
            return False
        try:
            return identify_reads(tables, task.old, task.new) == self.identity
        except (EpochExpired, RowsNotKept):
            return False


@dataclass
class SharedObject:
    """An object that results lie in: of how many it is open whether a task takes them, and whether one was taken."""

    waiting: int = 0
    is_taken: bool = False


@dataclass(frozen=True)
class SharedFrame:
    """A frame whose tasks run the fragments that a call names, by bodies that they hold."""

    frame: DataFrame

    @cached_property
    def rows(self) -> Any:
        """What runs the frame."""
        return prepare_run(self.frame)


class SharedActions:
    """Runs shared actions of one executor, and keeps their results until a task takes them."""

    def __init__(self, store: Hummock, prepared: PreparedFrames) -> None:
        self._store, self._prepared = store, prepared
        self._lock = threading.Lock()
        self._results: dict[str, SharedResult] = {}
        self._objects: dict[str, SharedObject] = {}
        """By their paths, those with a result of which it is open what becomes of it."""
        self._reasons: dict[str, str] = {}
        self._seconds: dict[str, float] = {}
        self._broken: set[str] = set()
        self._bodies: Bodies = {}
        self._frames: dict[int, SharedFrame] = {}

    def find_bodies(self, planned: PlannedEpochs) -> tuple[Bodies, list[SharedFragment]]:
        """Return the bodies that compute fragments of a run, and these fragments."""
        bodies: dict[tuple[str, tuple[str, ...]], Body] = {}
        fragments: list[SharedFragment] = []
        for one in planned.fragments:
            if one.fragment.table in self._broken:
                self._reasons[one.fragment.table] = "an action that it shared has failed as a whole"
                continue
            if (spent := self._seconds.get(one.fragment.table, 0.0)) > LONG_SECONDS:
                self._reasons[one.fragment.table] = f"it took {spent:.1f} s last time"
                continue
            table = planned.tables[one.fragment.table].table
            if isinstance(one.fragment.rule, IndexCopy):
                plan = one.fragment.plan
                assert isinstance(plan, Scan)
                bodies[one.fragment.table, (plan.table,)] = self._build_copy(plan, table)
                fragments.append(_describe_fragment(one, [(plan.table,)], [plan.table], MOST_SHARED_ROWS))
                continue
            frames = self._prepared.list_shareable(one.fragment, table, planned.tables)
            if frames:
                bodies |= {(one.fragment.table, frame.shape[1]): frame.body for frame in frames if frame.body}
                reads = itertools.chain.from_iterable(frame.parameters.tables for frame in frames)
                most = min(frame.most_rows for frame in frames)
                fragments.append(_describe_fragment(one, [frame.shape[1] for frame in frames], reads, most))
        return bodies, fragments

    def _build_copy(self, plan: Scan, table: Table) -> Body:
        url, options, source = self._store.url, dict(self._store.options), TableParameter(plan.table)
        return Chain(
            (
                ReadTable(url, options, source, plan.items, change=True, came=True),
                WriteTable(url, options, table),
            )
        )

    def run(self, spark: EngineSpark, planned: PlannedEpochs, tasks: int) -> int:
        """Compute what is known how to of a run's fragments by up to so many tasks at once; return how many results there are."""
        self.discard()
        bodies, shared = self.find_bodies(planned)
        if len(shared) < LEAST_FRAGMENTS:
            return 0
        ends, waiting = time.perf_counter() + MOST_AHEAD_SECONDS, shared
        tasks = min(tasks, MOST_TASKS)
        while waiting and time.perf_counter() < ends:
            is_local = spark.is_local and _can_keep_journals()
            actions = plan_actions(waiting, self._seconds, tasks, is_local=is_local)
            if not self._run_round(spark.session, planned, (shared, waiting), bodies, actions):
                break
            waiting = self._find_late(waiting)
        return len(self._results)

    def _run_round(
        self,
        spark: SparkSession,
        planned: PlannedEpochs,
        fragments: tuple[Sequence[SharedFragment], Sequence[SharedFragment]],
        bodies: Bodies,
        actions: Sequence[ActionPlan],
    ) -> bool:
        """Run the actions of those of a run's shared fragments that are waiting; False if that has brought no result."""
        shared, waiting = fragments
        staged, before = (
            self._stage_results(planned, shared, {one.table for one in waiting}),
            len(self._results),
        )
        for action in actions:
            tables = narrow_tables(staged.version.tables, action.fragments)
            with _open_journal(action) as journal:
                call = SharedCall(tables, planned.epoch, action.tasks, frozenset(staged.unknown), journal)
                if not self._run_action(spark, call, planned, bodies):
                    return False
            for fragment in action.fragments:
                if staged.is_due(fragment):
                    staged.add(fragment, self._find_files(fragment.table))
        return len(self._results) > before

    def _stage_results(
        self, planned: PlannedEpochs, shared: Sequence[SharedFragment], waiting: Collection[str]
    ) -> StagedFragments:
        """Return what has been computed so far; nobody knows what becomes of fragments that are neither done nor waiting."""
        others = {one.fragment.table for one in planned.fragments} - {one.table for one in shared}
        staged = StagedFragments(
            Version(epoch=planned.epoch, tables=planned.tables), planned.unknown | others
        )
        for fragment in shared:
            if fragment.table not in waiting and staged.is_due(fragment):
                staged.add(fragment, self._find_files(fragment.table))
        return staged

    def _find_late(self, fragments: Sequence[SharedFragment]) -> list[SharedFragment]:
        """Return those of some fragments for which an action had no time left, and what reads them."""
        late: dict[str, SharedFragment] = {}
        for one in fragments:
            reads_late = not late.keys().isdisjoint((*one.dependencies, *one.reads))
            done = one.table in self._results
            if not done and (reads_late or self._reasons.get(one.table) == NO_TIME):
                late[one.table] = one
        return list(late.values())

    def _run_action(
        self, spark: SparkSession, call: SharedCall, planned: PlannedEpochs, bodies: Bodies
    ) -> bool:
        """Run the tasks of one action, and keep their results; False if the call is too long to be sent with a job.

        Where they fail as a whole, as when a worker is killed, each of the fragments is computed by itself until that has worked.
        """
        tables = {one.table for task in call.tasks for one in task}
        self._broken |= tables
        sent = self._run_tasks(spark, call, planned, bodies)
        self._broken -= tables
        return sent

    def _run_tasks(
        self, spark: SparkSession, call: SharedCall, planned: PlannedEpochs, bodies: Bodies
    ) -> bool:
        text, reads = call.encode(), {one.table: one.reads for task in call.tasks for one in task}
        fragments = {one.fragment.table: one.fragment for one in planned.fragments}
        if not can_attach_text(spark, text):
            return False
        with attach_task_text(spark, text):
            frame = self._build_frame(spark, bodies, len(call.tasks))
            for (encoded,) in frame.rows():
                report = decode_report(bytes(encoded))
                self._store.counters.add_requests(report.requests)
                if report.left_out is not None:
                    self._reasons[report.table] = report.left_out
                    continue
                written = [] if report.result is None else [report.result]
                result = SharedResult(
                    fragments[report.table],
                    planned.tables[report.table].table,
                    reads[report.table],
                    report.identity,
                    tuple(collect_changes(written, self._store.counters)),
                    report.seconds,
                )
                self._seconds[report.table] = report.seconds
                self._add(result)
        return True

    def _find_files(self, table: str) -> tuple[SstInfo, ...] | None:
        """Return what a table's result has written, None if there is no result."""
        with self._lock:
            found = self._results.get(table)
        return None if found is None else tuple(sst for change in found.changes for sst in change.ssts)

    def _build_frame(self, spark: SparkSession, bodies: Bodies, tasks: int) -> SharedFrame:
        if not self._bodies.items() >= bodies.items():
            known = {} if len(self._bodies) > MOST_BODIES else self._bodies
            self._bodies = {**known, **bodies}  # runs take turns with what has changed
            self._frames.clear()
        if tasks not in self._frames:
            task = SharedTask(self._store.url, dict(self._store.options), pack_bodies(self._bodies))
            self._frames[tasks] = SharedFrame(
                map_in_arrow(make_task_frame(spark, tasks), task, SHARED_SCHEMA)
            )
        return self._frames[tasks]

    def take(self, task: FragmentTask) -> SharedResult | None:
        """Return the result that `task` asks for, None if there is none or if it does not fit."""
        with self._lock:
            found = self._results.pop(task.fragment.table, None)
        if found is None:
            return None
        plain = task.old is not None and not task.whole and task.piece is None and task.again is None
        fits = False
        try:
            fits = plain and found.fits(task)
        finally:
            self._settle([found], is_taken=fits)
        if fits:
            return found
        self._reasons[task.fragment.table] = "its tables were others at its turn than the run had planned"
        return None

    def explain(self, table: str) -> str:
        """Return why there was no result of a table's fragment that fits."""
        return self._reasons.get(table, "nothing else that Arrow computes alone was due in the run")

    def record_seconds(self, table: str, seconds: float) -> None:
        """Record what a fragment took by itself: one that has taken long may be fast again, and it has failed no action."""
        self._broken.discard(table)
        if self._seconds.get(table, 0.0) > LONG_SECONDS:
            self._seconds[table] = seconds

    def discard(self) -> None:
        """Forget the results that nobody has taken, and delete their objects."""
        with self._lock:
            left = list(self._results.values())
            self._results.clear()
        self._reasons = {}
        self._settle(left, is_taken=False)

    def _add(self, result: SharedResult) -> None:
        with self._lock:
            replaced = self._results.get(result.fragment.table)
            self._results[result.fragment.table] = result
            for path in result.paths:
                self._objects.setdefault(path, SharedObject()).waiting += 1
        if replaced is not None:
            self._settle([replaced], is_taken=False)

    def _settle(self, results: Sequence[SharedResult], *, is_taken: bool) -> None:
        """Record whether a task has taken results, and delete the objects of whose results none is open and none was taken.

        What the store does not delete now is left to the collector.
        """
        doomed = []
        with self._lock:
            for path in itertools.chain.from_iterable(one.paths for one in results):
                found = self._objects.get(path)
                if found is None:  # it was decided before
                    continue
                found.waiting -= 1
                found.is_taken |= is_taken
                if not found.waiting:
                    del self._objects[path]
                    doomed += [] if found.is_taken else [path]
        if not doomed:
            return
        try:
            self._store.objects.delete(sorted(doomed))
        except StorageError as refused:
            _LOG.warning("files that nobody needs are left to the collector: %s", refused)


def _can_keep_journals() -> bool:
    """Tell whether there is a folder for temporary files; without it the tasks of an action have fragments of their own."""
    try:
        return os.access(gettempdir(), os.W_OK | os.X_OK)
    except OSError:
        return False


@contextmanager
def _open_journal(action: ActionPlan) -> Iterator[str | None]:
    """Give the path of the file from which the tasks of a shared plan take their fragments, None for another one."""
    if action.is_shared:
        with NamedTemporaryFile(prefix="tideline-") as file:
            yield file.name
    else:
        yield None


def _describe_fragment(
    planned: PlannedFragment, shapes: Iterable[tuple[str, ...]], reads: Iterable[str], most_rows: int
) -> SharedFragment:
    """Return a fragment as a call names it.

    An input that none of its bodies reads counts as read: a result is of no use once it has changed, too.
    """
    fragment = planned.fragment
    known = tuple(dict.fromkeys((*fragment.inputs, *reads)))
    return SharedFragment(
        fragment.table,
        fragment.inputs,
        planned.dependencies,
        known,
        frozenset(shapes),
        planned.old,
        planned.new,
        most_rows,
        list_dynamic_filters(fragment.plan),
    )

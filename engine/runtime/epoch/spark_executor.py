"""The executor that runs fragments on Spark, each as one action."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.errors import PySparkException

from engine.arrow import as_rows
from engine.assumptions import COMPUTED_AHEAD, KEPT_FRAME, LET_GO
from engine.errors import RowFailed
from engine.hummock import Hummock, Version
from engine.hummock.monitoring.driver_traffic import track_traffic
from engine.hummock.rows.expiry import disable_expiry
from engine.hummock.version import Run
from engine.meta.epochs.time_boundary import is_timed
from engine.operators.arrow.expressions import MARK
from engine.operators.arrow.map_in_arrow import run_alone
from engine.operators.context import SPREAD_ROWS, EpochContext
from engine.operators.flow import Flow
from engine.operators.lookups.table_parameters import TableParameters
from engine.operators.materialize import NetChange, collect_changes, write_change, write_rows
from engine.operators.shared_task import BY_THE_CLOCK, FIRST_TIME
from engine.operators.skew import describe_skew
from engine.operators.spark_reasons import collect_reasons
from engine.runtime.epoch.assumption_checks import (
    check_recomputed,
    include_hidden_rows,
)
from engine.runtime.epoch.epoch_run import adapt_context, choose_rule, compute_fragment_change
from engine.runtime.epoch.failing_row import build_row_error, format_reason, is_row_error
from engine.runtime.epoch.first_content import is_batch_step
from engine.runtime.epoch.prepared_frames import PreparedFrame, PreparedFrames, build_shape, can_retain_frame
from engine.runtime.epoch.shared_action import LEAST_FRAGMENTS, MOST_AHEAD_SECONDS, SharedActions
from engine.runtime.executor import FragmentTask, Place, PlannedEpochs, TaskResult, Way
from engine.runtime.partitions.frames import append_partitions, count_rows_read, find_touched_partitions
from engine.runtime.source_rows import get_source_reader
from engine.runtime.spark.session import EngineSpark
from engine.spark_internals import activate, collect
from engine.sql.catalog import Relation
from engine.sql.expression.nodes import Expr
from engine.sql.incremental.emptiness import is_empty_over_nothing
from engine.sql.incremental.rules import FullRefresh, IndexCopy
from engine.sql.plan import Scan
from engine.verification import should_verify

_LOG = logging.getLogger(__name__)
COPIED_ROWS = 300_000
"""A change or the first rows of an index up to here are copied here: a Spark action would cost more than the copy."""


@dataclass(frozen=True)
class SparkAction:
    """A task's one action, planned: its frame, None where nothing changes, and what keeps that for later epochs, if it can be.

    A frame that is `known` has run before. `reasons` are expressions that Spark computes.
    """

    task: FragmentTask
    context: EpochContext
    flow: Flow | None
    prepared: PreparedFrame | None = None
    known: bool = False
    reasons: tuple[str, ...] = ()


class SparkExecutor:
    """Runs tasks in a Spark session that starts when it is first needed."""

    def __init__(
        self, store: Hummock, spark: Callable[[], EngineSpark], *, separate_large: bool = False
    ) -> None:
        self._store, self._spark, self._separate_large = store, spark, separate_large
        self._prepared = PreparedFrames()
        self._shared = SharedActions(store, self._prepared)
        self._mark = f"tideline-{uuid.uuid4()}"
        self._used: EngineSpark | None = None

    @property
    def parallelism(self) -> int:
        """How many Spark tasks run at the same time."""
        return self._spark().count_parallel_tasks()

    def _open_session(self, task: FragmentTask | None = None) -> EngineSpark:
        spark = self._used = self._spark()
        if self._separate_large:
            large = task is not None and task.is_large
            spark = spark.share() if large else spark  # it needs other settings than small ones
            spark.share_fairly("large" if large else "small")
        activate(spark.session)  # a run's tasks are planned in threads of its own
        spark.mark_jobs(self._mark)
        return spark

    def _choose_cores(self, task: FragmentTask, spark: EngineSpark) -> int:
        """Return on how many cores a task may run: a large one leaves one to the small ones that run meanwhile."""
        cores = spark.count_parallel_tasks()
        return max(1, cores - 1) if self._separate_large and task.is_large else cores

    def load(self, relation: Relation, version: Version, epoch: int) -> tuple[Run, ...]:
        """Write the rows of a source, as they were at an epoch, as files."""
        with track_traffic(self._store.counters, f"load {relation.name}"):
            return get_source_reader().runs(
                lambda: self._spark().session, self._store, relation, version, epoch
            )

    def compute_ahead(self, planned: PlannedEpochs) -> None:
        """Compute those of a run's epochs in one action that Arrow computes alone, by frames that are kept."""
        if len(planned.fragments) >= LEAST_FRAGMENTS:
            spark = self._open_session()
            self._prepare_frames(planned)
            self._shared.run(spark, planned, spark.count_parallel_tasks())

    def _prepare_frames(self, planned: PlannedEpochs) -> None:
        """Build those frames of a run's fragments that Arrow computes alone and that are not there yet."""
        ends = time.perf_counter() + MOST_AHEAD_SECONDS
        for one in planned.fragments:
            table = planned.tables[one.fragment.table].table
            if isinstance(one.fragment.rule, IndexCopy) or time.perf_counter() > ends:
                continue
            task = FragmentTask(one.fragment, table, planned.tables, one.old, one.new, rows=1)
            if self._prepared.list_shareable(one.fragment, table, planned.tables):
                continue
            if not self._prepared.may_serve_any_input(task):
                continue
            try:
                action = self._keep_pure(self._build_action(task, keep=True, any_input=True))
            except Exception as failure:  # the domain whose epoch it is meets it, too
                _LOG.debug("%s is not planned ahead: %s", one.fragment.table, failure)
                continue
            if action is not None and action.prepared is not None:
                self._prepared.give(action.prepared)

    def _keep_pure(self, action: SparkAction) -> SparkAction | None:
        """Return the action of a frame for all inputs, None if Spark has a part in it: in one for some it has less to do."""
        if action.prepared is not None and action.prepared.body is not None:
            return action
        self._prepared.mark_mixed(action.task.fragment)
        return None

    def discard_ahead(self) -> None:
        """Delete what was computed ahead and nobody has asked for."""
        self._shared.discard()

    def stop(self) -> None:
        """End the jobs of this executor, and no others of its session's."""
        if self._used is not None:
            self._used.stop_jobs(self._mark)

    def compute(self, task: FragmentTask) -> TaskResult:
        """Compute a task in one Spark action, in a second one if values overflow.

        A copy to an index needs none, nor does the first content of a table that has nothing to be computed from.
        """
        started = time.perf_counter()
        done = self._compute_here(task)
        if done is None:
            try:
                keep = can_retain_frame(task)
                action = self._take_action(task)
                if action is None and keep and self._prepared.may_serve_any_input(task):
                    action = self._keep_pure(self._build_action(task, keep=True, any_input=True))
                if action is None:
                    action = self._build_action(task, keep=keep)
                if action.prepared is not None and not action.prepared.can_pass_tables(
                    action.context.spark, task
                ):
                    action = self._build_action(task)
                done = self._run_action(action, started)
            except PySparkException as error:
                if MARK not in str(error):
                    raise
                started = time.perf_counter()
                done = self._run_action(self._build_action(task, exact=True), started)
        if "shared" not in done.seconds:
            alone = done.seconds.get("spark", done.seconds.get("write", 0.0))
            self._shared.record_seconds(task.fragment.table, alone)
        return self._report_load(task, done)

    def _compute_here(self, task: FragmentTask) -> TaskResult | None:
        """Return what was computed ahead, or compute what needs no Spark; None for what does."""
        started = time.perf_counter()
        shared = self._shared.take(task)
        if shared is not None:
            if should_verify():
                with self._recompute(task) as anew:
                    check_recomputed(self._store.reader, task, COMPUTED_AHEAD, shared.changes, anew)
            return TaskResult(shared.changes, {"shared": shared.seconds}, way=Way(Place.SHARED))
        if task.old is None and not task.rows and is_empty_over_nothing(task.fragment.plan):
            return TaskResult((), {"plan": time.perf_counter() - started}, way=Way(Place.NOWHERE))
        copied = task.piece is None and not task.whole and task.rows <= COPIED_ROWS
        if isinstance(task.fragment.rule, IndexCopy) and copied:
            changes = self._copy_index(task)
            return TaskResult(changes, {"write": time.perf_counter() - started}, way=Way(Place.DRIVER))
        return None

    def _report_load(self, task: FragmentTask, done: TaskResult) -> TaskResult:
        """Return what a task has done with the key that one of Spark's tasks worked for alone; what passed is counted."""
        passed = sum(change.driver_bytes for change in done.changes)
        self._store.counters.add_driver_bytes(f"epoch {task.fragment.table}", passed)
        skew = describe_skew(task.fragment.table, (change.load for change in done.changes))
        if skew is not None:
            _LOG.warning("%s", skew)
        return replace(done, skew=skew)

    def _take_action(self, task: FragmentTask) -> SparkAction | None:
        """Return the action of a kept frame, for the caller alone; None if there is none that fits."""
        prepared = self._prepared.take(task) if can_retain_frame(task) else None
        if prepared is None:
            return None
        context = self._build_context(task, TableParameters())
        if not EngineSpark.of(
            context.spark
        ).is_in_process:  # a server plans it anew, by the settings that it has then
            self._configure(task, context)
        return SparkAction(task, context, prepared.flow, prepared, known=True, reasons=prepared.reasons)

    def _build_action(
        self, task: FragmentTask, *, keep: bool = False, exact: bool = False, any_input: bool = False
    ) -> SparkAction:
        """Return a task's action by a new frame, for others to `keep`, also where other inputs of it change if `any_input`.

        With `exact` Spark computes every expression of it.
        """
        context = self._build_context(task, TableParameters() if keep else None, exact)
        context = replace(context, any_input=any_input)
        with self._explain_row_errors(task, context):
            self._configure(task, context)
            rule = choose_rule(task.fragment, context, whole=task.whole, mine=task.mine)
            with collect_reasons() as reasons:
                change = rule(context)
                if task.again is not None:
                    change = append_partitions(change, task.again, task.table, context)
                flow = None if change is None else write_rows(change, task.table, context)
        if flow is None or context.parameters is None:
            return SparkAction(task, context, flow, reasons=tuple(reasons))
        shape = build_shape(task, any_input=any_input)
        prepared = PreparedFrame(shape, task.fragment, task.table, flow, context.parameters, tuple(reasons))
        return SparkAction(task, context, flow, prepared, reasons=prepared.reasons)

    def _run_action(self, action: SparkAction, started: float) -> TaskResult:
        """Run a task's action, whose planning has `started` then."""
        task, prepared, counters = action.task, action.prepared, self._store.counters
        planned = time.perf_counter()
        with self._explain_row_errors(task, action.context):
            if action.flow is None:
                changes = []
            elif prepared is None:
                changes = collect_changes(collect(action.flow.frame), counters)
            else:
                changes = prepared.run(action.context.spark, task, counters)
                if action.known and should_verify():
                    with self._recompute(task) as anew:
                        check_recomputed(self._store.reader, task, KEPT_FRAME, changes, anew)
                if action.known or prepared.can_rerun():
                    self._prepared.give(prepared)
            if should_verify() and (over_all := include_hidden_rows(task)) is not None:
                with self._recompute(over_all) as anew:
                    check_recomputed(self._store.reader, task, LET_GO, changes, anew)
        seconds = {"plan": planned - started, "spark": time.perf_counter() - planned}
        read = count_rows_read(task.again, action.context) if task.again is not None else 0
        return TaskResult(tuple(changes), seconds, read, way=self._describe_way(action))

    def _describe_way(self, action: SparkAction) -> Way:
        """Return in which kind of action a task was computed, and why not in a cheaper one."""
        task, flow, prepared = action.task, action.flow, action.prepared
        if flow is None:
            return Way(Place.NOWHERE, "nothing has changed")
        if prepared is not None and prepared.body is not None:
            if is_timed(task.fragment):
                return Way(Place.ARROW, BY_THE_CLOCK)
            serves_all = prepared.shape == build_shape(task, any_input=True)
            known = action.known or serves_all
            return Way(Place.ARROW, self._shared.explain(task.fragment.table) if known else FIRST_TIME)
        if task.old is None or task.whole or isinstance(task.fragment.rule, FullRefresh):
            place = Place.SPARK if flow.body is None else Place.ARROW
            return Way(place, "the whole content is computed")
        if task.again is not None:
            return Way(Place.SPARK, "partitions are computed again")
        if task.piece is not None or task.is_large or task.rows >= SPREAD_ROWS:
            return Way(Place.SPARK, f"{task.rows:,} changed rows are spread over tasks")
        if action.reasons:
            return Way(Place.SPARK, "; ".join(action.reasons))
        return Way(Place.SPARK, "its rule has an operator that is Spark's")

    @contextmanager
    def _explain_row_errors(self, task: FragmentTask, context: EpochContext) -> Iterator[None]:
        """Raise RowFailed, which can tell the row, where an expression fails on a value."""
        try:
            yield
        except PySparkException as error:
            if not is_row_error(error):
                raise
            if task.again is not None:
                raise RowFailed(format_reason(error)) from error
            exact_context = replace(context, old=None if task.whole else context.old, exact=True)
            raise build_row_error(
                error, task.fragment, exact_context, self._store.reader, compute_fragment_change
            ) from error

    @contextmanager
    def _recompute(self, task: FragmentTask) -> Iterator[list[NetChange]]:
        """Compute a task by a new frame for a check; what that writes is nobody's, and goes again.

        No job is started for what one task computes on Arrow alone: this process does it.
        """
        flow = self._build_action(task).flow
        body = None if flow is None else flow.body
        if flow is None:
            anew = []
        elif body is None:
            anew = collect_changes(collect(flow.frame), self._store.counters)
        else:
            reports = (tuple(row.values()) for report in run_alone(body) for row in as_rows(report))
            anew = collect_changes(reports, self._store.counters)
        try:
            yield anew
        finally:
            self._store.objects.delete(sorted({sst.path for one in anew for sst in one.ssts}))

    def partitions(self, task: FragmentTask, keys: Sequence[tuple[Scan, Expr]], most: int) -> tuple[str, ...]:
        """Return the partitions, at most `most`, of the rows that change in a task, in one Spark job."""
        return find_touched_partitions(keys, self._open_context(task, self._open_session(), exact=True), most)

    def _build_context(
        self, task: FragmentTask, parameters: TableParameters | None, exact: bool = False
    ) -> EpochContext:
        """Return the context in which a task's rule runs: where it reads tables as wholes, of an epoch as large as these."""
        context = self._open_context(task, self._open_session(task), exact, parameters)
        context = adapt_context(task.fragment, context)
        if task.again is not None:
            context = context.for_whole_tables([task.again.fragment.table, *task.again.fragment.inputs])
        return context

    def _open_context(
        self,
        task: FragmentTask,
        spark: EngineSpark,
        exact: bool,
        parameters: TableParameters | None = None,
    ) -> EpochContext:
        return EpochContext(
            spark.session,
            self._store.url,
            self._store.options,
            task.tables,
            task.old,
            task.new,
            task.table.options.vnode_groups or self._choose_cores(task, spark),
            task.rows,
            piece=task.piece,
            parameters=parameters,
            exact=exact,
        )

    @staticmethod
    def _configure(task: FragmentTask, context: EpochContext) -> None:
        """Set what the plan of a task depends on."""
        whole = task.old is None or task.whole or isinstance(task.fragment.rule, FullRefresh)
        whole = whole or is_batch_step(task.fragment, context)
        adapts = whole and not context.is_small  # in one partition there is nothing to adapt
        spark = EngineSpark.of(context.spark)
        spark.configure("spark.sql.adaptive.enabled", "true" if adapts else "false")
        spark.configure("spark.sql.shuffle.partitions", str(context.partitions))

    def _copy_index(self, task: FragmentTask) -> tuple[NetChange, ...]:
        """Write the change of the indexed table, or its first rows, as the index's own."""
        assert isinstance(task.fragment.plan, Scan)
        source, reader = task.tables[task.fragment.plan.table], self._store.reader
        if task.old is not None:
            batches = list(reader.read_changes(disable_expiry(source), task.old, task.new))
        else:
            batches = list(reader.scan(source, task.new))
        if not batches:
            return ()
        rows = pa.Table.from_batches(batches)
        if task.old is None:
            rows = rows.append_column("_w", pa.repeat(pa.scalar(1, pa.int64()), len(rows)))
        return (replace(write_change(reader, task.table, rows), driver_bytes=rows.nbytes),)

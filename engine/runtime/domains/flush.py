"""What keeps running what is pending over a store: it chooses the domains of each run, and each commits and fails by itself.

What a run does with a domain is decided in `flush_planning.py` and done in `flush_run.py`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from engine import tracing
from engine.hummock import Hummock
from engine.hummock.epoch import Clock
from engine.meta.catalog.plan_upgrade import upgrade_plans
from engine.meta.catalog.stored_catalog import StoredCatalog, load_catalog
from engine.meta.domains.creation import find_computed_table
from engine.meta.epochs.content import Content
from engine.meta.epochs.flush_plan import DomainPlan, FlushPlan, FlushRequest, FlushStep
from engine.meta.epochs.idle_timeout import advance_time
from engine.meta.epochs.time_boundary import advance_version, load_present
from engine.runtime.backfill.eligibility import BACKFILL_ROWS
from engine.runtime.backfill.run import BackfillRun
from engine.runtime.domains.domain_outcome import DomainOutcome, build_reports, list_free_domains
from engine.runtime.domains.epochs_ahead import list_epochs_ahead
from engine.runtime.domains.failing_rows import name_failing_rows
from engine.runtime.domains.flush_planning import (
    choose_domains,
    find_wait_reason,
    forecast_steps,
    list_awaiting_successors,
    list_moving_tables,
    plan_flush,
)
from engine.runtime.domains.flush_run import FlushRun, SharedTarget
from engine.runtime.domains.lanes import Lanes
from engine.runtime.domains.log_expiry import expire_overdue_logs
from engine.runtime.epoch.report import FlushReport, ViewReport
from engine.runtime.executor import AheadExecutor, Executor, PlannedEpochs
from engine.runtime.spark.slots import Slots

_LOG = logging.getLogger(__name__)
LEAST_DOMAINS = 2
"""The epochs of fewer are not worth a forecast of their steps."""
MOST_ALIGNMENT_ROUNDS = 3
"""How often a run goes on where others have passed it by."""
BACKGROUND_SECONDS = 5.0
CATCHES_UP = "its next query comes up to it before it takes over"
MOST_THREADS = 16


class FlushRunner:
    """Runs what is pending over a store; holds the writer generations that this process has claimed, and slow domains' lanes."""

    def __init__(
        self,
        store: Hummock,
        executor: Executor,
        backfill_rows: int = BACKFILL_ROWS,
        threads: int = MOST_THREADS,
        clock: Clock | None = None,
        *,
        patient: bool = True,
    ) -> None:
        self.store, self.clock = store, clock or store.clock
        self.lanes = Lanes(threads, lambda: self.executor.stop(), patient=patient)
        self.executor = executor
        self.backfill = BackfillRun(store, executor, backfill_rows, self.clock)
        self.generations: dict[str, int] = {}
        self.slots = Slots(1)
        self.last: FlushRun | None = None
        self.executed: Mapping[str, tuple[FlushStep, ...]] = {}
        """The last run, and what it has done, by domain."""

    def build_request(
        self,
        views: Collection[str] | None = None,
        *,
        eager: bool = True,
        partitions: Mapping[str, Collection[str]] | None = None,
    ) -> FlushRequest:
        """Return what a run is asked for as a value, at this moment."""
        requested = {view: frozenset(keys) for view, keys in (partitions or {}).items()}
        named = None if views is None else tuple(views)
        return FlushRequest(self.clock(), self.backfill.least_rows, named, eager, requested)

    def plan(self, request: FlushRequest) -> FlushPlan:
        """Return what a run would do now; nothing is done."""
        version, _ = load_present(self.store, request.now)
        return plan_flush(version, request)

    def run(
        self,
        views: Collection[str] | None = None,
        *,
        eager: bool = True,
        background_seconds: float = BACKGROUND_SECONDS,
        partitions: Mapping[str, Collection[str]] | None = None,
    ) -> FlushReport:
        """Bring `views` (None: all), and what they are computed from, to the newest epoch; never raises for one view.

        All domains are brought to one target epoch, the store's newest when the run began or a newer one of another run, as far
        as their inputs have content there. Without `eager` a domain that has failed is left alone until its time to be tried
        again has come, and so is what reads it.
        Views that are created in the background are worked on for `background_seconds`. `partitions` are by view those to be
        computed again from the inputs, whatever they are; quarantined ones are tried again if their inputs have changed.
        """
        started = time.perf_counter()
        request = self.build_request(views, eager=eager, partitions=partitions)
        run = self.last = self._begin_run(request, background_seconds)
        plan = self._exclude_busy(choose_domains(run.version, run.request), run)
        if plan.due:
            run = self._assign_slots(run)
        earlier = self.lanes.collect_outcomes({one.name for one in plan.domains})
        due = plan.due
        with self._trace_run(run, plan, started) as span:
            run = replace(run, span=span)
            with self._compute_ahead(run, plan):
                done = self.lanes.run(due, run.run_domain, run.broken_off)
            for _ in range(MOST_ALIGNMENT_ROUNDS):
                due = self._choose_overtaken(run, plan, due, done)
                if not due:
                    break
                run = replace(run, target=SharedTarget(self.store.refresh().epoch))
                for name, outcome in self.lanes.run(due, run.run_domain, run.broken_off).items():
                    done[name] = done[name].merge(outcome)
            report = self._finish_run(run, plan, earlier | done, started)
            if span.is_recording:
                span.set_attributes(_describe_report(report))
        if plan.due:
            self.store.counters.count_run(report.seconds)
        return report

    @contextmanager
    def _trace_run(self, run: FlushRun, plan: FlushPlan, started: float) -> Iterator[tracing.Span]:
        """Let a run be a span, with the requests of the process meanwhile; a look that finds nothing to do is none."""
        if not plan.due or not tracing.is_on():
            yield tracing.NO_SPAN
            return
        before = self.store.counters.read_requests()
        attributes: tracing.Attributes = {
            "db.system.name": "tideline",
            "db.namespace": self.store.url,
            "tideline.epoch": run.version.epoch,
        }
        with tracing.start_span("flush", attributes, seconds_ago=time.perf_counter() - started) as span:
            yield span
            now = self.store.counters.read_requests()
            made = {kind: now[kind] - before[kind] for kind in now if now[kind] > before[kind]}
            span.set_attributes({f"tideline.run_requests.{kind}": number for kind, number in made.items()})

    def _begin_run(self, request: FlushRequest, background_seconds: float) -> FlushRun:
        """Return a run over the newest version, which knows what time it is."""
        version = upgrade_plans(self.store)
        stored = load_catalog(version)
        ahead = advance_version(version, stored, request.now)
        moving = list_moving_tables(ahead, stored, request) if ahead is not version else frozenset[str]()
        version = advance_time(self.store, version, stored, request.now, moving)
        return FlushRun(
            self.store,
            self.executor,
            self.backfill,
            self.slots,
            self.clock,
            self.generations,
            request,
            version,
            stored,
            SharedTarget(version.epoch),
            background_seconds,
        )

    def _assign_slots(self, run: FlushRun) -> FlushRun:
        """Return a run that has something to do, with the slots of its tasks."""
        if self.lanes.patient or not self.slots.separate_large:
            self.slots = Slots(self.executor.parallelism, separate_large=not self.lanes.patient)
        return replace(run, slots=self.slots)

    @contextmanager
    def _compute_ahead(self, run: FlushRun, plan: FlushPlan) -> Iterator[None]:
        """Have a run's small epochs computed together; what nobody has taken at the end is deleted.

        What fails is met again by the domain whose epoch it is, in an action of its own.
        """
        if not isinstance(self.executor, AheadExecutor) or len(plan.due) < LEAST_DOMAINS:
            yield
            return
        executor = self.executor
        try:
            try:
                foreseen = forecast_steps(plan, run.version, run.request)
                ahead = list_epochs_ahead(foreseen, run.version)
                with tracing.start_span("compute_ahead", parent=run.span) as span:
                    self.lanes.run_before(partial(_compute_ahead_in, span, executor, ahead))
            except Exception as failure:
                _LOG.warning("the epochs of a run are computed one by one: %s", failure)
            yield
        finally:
            executor.discard_ahead()

    def _exclude_busy(self, plan: FlushPlan, run: FlushRun) -> FlushPlan:
        """Leave the domains alone that an earlier run is at work on yet, and those of views whose next queries catch up in it."""
        busy = self.lanes.list_busy()
        if not busy:
            return plan
        reasons = {
            name: f"an epoch that began {seconds:.0f} s ago is under way" for name, seconds in busy.items()
        }
        reasons |= dict.fromkeys(list_awaiting_successors(run.version, run.stored, busy), CATCHES_UP)
        domains = (
            replace(d, due=False, hold_reason=reasons[d.name]) if d.name in reasons else d
            for d in plan.domains
        )
        return replace(plan, domains=tuple(domains))

    def _choose_overtaken(
        self,
        run: FlushRun,
        plan: FlushPlan,
        due: Sequence[DomainPlan],
        done: dict[str, DomainOutcome],
    ) -> tuple[DomainPlan, ...]:
        """Return which of the domains that were due go on, as other runs have passed this one by meanwhile.

        Those that have ended since are `done`, too.
        """
        busy = dict.fromkeys(self.lanes.list_busy(), DomainOutcome(waits_for="it is under way"))
        done |= self.lanes.collect_outcomes({one.name for one in plan.domains})
        free = list_free_domains((one.domain for one in plan.domains if one.hold_reason is None), done | busy)
        if free.isdisjoint(done) or self._are_aligned(free, plan, run.stored, run.version.epoch):
            return ()
        return tuple(replace(one, built=False) for one in due if one.name in free)

    def _are_aligned(
        self, names: Collection[str], plan: FlushPlan, stored: StoredCatalog, start_epoch: int
    ) -> bool:
        """Tell whether domains have content together at `begun` or a newer epoch: another run may have taken one past it."""
        version = self.store.version
        tables = [
            t
            for one in plan.domains
            if one.name in names
            for t in one.domain.tables
            if find_computed_table(version, t) is not None
        ]
        common = Content(version, stored.inputs).find_common(tables, version.epoch)
        return common is None or common >= start_epoch

    def _finish_run(
        self, run: FlushRun, plan: FlushPlan, done: Mapping[str, DomainOutcome], started: float
    ) -> FlushReport:
        """Return what a run has done, once failing rows have their names and logs their ends."""
        domains, stored = {one.name: one.domain for one in plan.domains}, run.stored
        failed_rows = {n: f for n, one in done.items() if (f := one.failing_row) is not None}
        with tracing.start_span("name_failing_rows") if failed_rows else tracing.NO_SPAN:
            for name, error in name_failing_rows(self.store, failed_rows, domains, stored).items():
                done[name].error = error
        expire_overdue_logs(self.store, list(domains.values()), stored, self.clock)
        self.executed = {name: outcome.steps for name, outcome in done.items()}
        reports = self._build_reports(plan, done, stored)
        visible = tuple(r for r in reports if stored.catalog.relations[r.view].kind != "index" or r.error)
        passed = sum(outcome.driver_bytes for outcome in done.values())
        return FlushReport(visible, time.perf_counter() - started, driver_bytes=passed)

    def _build_reports(
        self, plan: FlushPlan, done: Mapping[str, DomainOutcome], stored: StoredCatalog
    ) -> Iterable[ViewReport]:
        reasons: dict[str, str | None] = {one.name: one.hold_reason for one in plan.domains}
        reasons |= {name: outcome.error or outcome.waits_for for name, outcome in done.items()}
        for one in plan.domains:
            outcome = done.get(one.name) or DomainOutcome(waits_for=one.hold_reason)
            if one.name in done and not (outcome.fragments or outcome.error or outcome.waits_for):
                outcome.waits_for = reasons[one.name] = find_wait_reason(one.domain, reasons)
            yield from build_reports(one.domain, self.store.version, stored, outcome)


def _compute_ahead_in(span: tracing.Span, executor: AheadExecutor, planned: PlannedEpochs) -> None:
    """Compute epochs ahead in a thread of its own, whose requests count for a span."""
    with tracing.make_current(span):
        span.set_attributes({"tideline.fragments": len(planned.fragments)})
        executor.compute_ahead(planned)


def _describe_report(report: FlushReport) -> tracing.Attributes:
    """Return what the span of a run tells: numbers of views by how they ended."""
    return {
        "tideline.views.changed": sum(not one.skipped for one in report.views),
        "tideline.views.failed": len(report.failed),
        "tideline.views.quarantined": len(report.quarantined),
        "tideline.views.waiting": sum(one.waits_for is not None for one in report.views),
        "tideline.driver_bytes": report.driver_bytes,
    }

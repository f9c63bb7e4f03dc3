"""One run over every lagging domain: it makes its plan and carries it out; each domain commits, fails and is retried by itself.

What a domain does is decided in `flush_planning.py`; after each of its steps, and where another process was faster, the plan
of the domain is made anew from the newest version. Fencing decides races between processes.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from engine.errors import CheckFailed, Conflict, Fenced, GroundLost, RowFailed, TableExists
from engine.hummock import Commit, Hummock, Version
from engine.hummock.epoch import Clock, seconds_of
from engine.hummock.manifests.preconditions import require_all
from engine.meta.catalog.plan_upgrade import upgrade_plans
from engine.meta.catalog.stored_catalog import StoredCatalog, load_catalog, require_same_plans
from engine.meta.domains.creation import CREATED, find_computed_table
from engine.meta.domains.domain import Domain, find_rate_limit, is_in_background
from engine.meta.domains.mutation import read_control
from engine.meta.epochs.barrier import Barrier, close_barrier, find_recompute_epochs, record_barrier
from engine.meta.epochs.content import Content
from engine.meta.epochs.flush_plan import RECOMPUTE, DomainPlan, FlushPlan, FlushRequest, FlushStep, RunTarget
from engine.meta.epochs.idle_timeout import advance_time
from engine.meta.epochs.target_epoch import (
    record_target_epoch,
    require_aligned_inputs,
    require_same_target,
    require_unread,
)
from engine.meta.epochs.time_boundary import advance_version, load_present
from engine.runtime.backfill.eligibility import BACKFILL_ROWS
from engine.runtime.backfill.run import BackfillRun
from engine.runtime.domains.domain_outcome import DomainOutcome, build_reports, list_free_domains
from engine.runtime.domains.domain_run import DomainEpoch
from engine.runtime.domains.failing_rows import Told, name_failing_rows, record_domain_failure
from engine.runtime.domains.flush_planning import (
    begin_course,
    find_wait_reason,
    limit_steps,
    list_moving_tables,
    plan_flush,
    plan_next_step,
    plan_recomputation,
    plan_recompute_step,
)
from engine.runtime.domains.lanes import Lanes
from engine.runtime.domains.log_expiry import expire_overdue_logs
from engine.runtime.domains.partition_run import PartitionRun
from engine.runtime.epoch.mutation_run import apply_mutations
from engine.runtime.epoch.report import FlushReport, ViewReport
from engine.runtime.executor import Executor
from engine.runtime.source_rows import release_sources
from engine.runtime.spark.slots import Slots

MOST_ALIGNMENT_ROUNDS = 3
"""How often a run goes on where others have passed it by."""
BACKGROUND_SECONDS = 5.0
MOST_THREADS = 16


class FlushRun:
    """Runs what is pending over a store; holds the writer generations that this process has claimed."""

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
        self.planned = FlushPlan(0, ())
        self.executed: Mapping[str, tuple[FlushStep, ...]] = {}
        """What the last run was to do, and what it has done, by domain: no more, unless another process came between."""
        self.slots = Slots(1)
        self._background_seconds = BACKGROUND_SECONDS
        self._broken_off = threading.Event()
        self._request = self.build_request()
        self._aim, self._aim_lock = RunTarget(0), threading.Lock()

    def build_request(
        self,
        views: Collection[str] | None = None,
        *,
        eager: bool = True,
        partitions: Mapping[str, Collection[str]] | None = None,
    ) -> FlushRequest:
        """Return what a run is asked for as a value, at this moment."""
        asked = {view: frozenset(keys) for view, keys in (partitions or {}).items()}
        named = None if views is None else tuple(views)
        return FlushRequest(self.clock(), self.backfill.least_rows, named, eager, asked)

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

        All domains are brought to one cut, the store's newest epoch when the run began or a newer one of another run, as far as
        their inputs have content there. Without `eager` a domain that has failed is left alone until its time to be tried again
        has come, and so is what reads it.
        Views that are created in the background are worked on for `background_seconds`. `partitions` are by view those to be
        computed again from the inputs, whatever they are; quarantined ones are tried again if their inputs have changed.
        """
        started = time.perf_counter()
        version = upgrade_plans(self.store)
        stored, request = load_catalog(version), self.build_request(views, eager=eager, partitions=partitions)
        ahead = advance_version(version, stored, request.now)
        moving = list_moving_tables(ahead, stored, request) if ahead is not version else frozenset[str]()
        version = advance_time(self.store, version, stored, request.now, moving)
        this = copy.copy(self)  # a domain that outlasts its run goes on with what that was asked for
        this._request = request
        this._background_seconds, this._broken_off = background_seconds, threading.Event()
        plan = self.planned = self._exclude_busy(plan_flush(version, this._request))
        if plan.due and (self.lanes.patient or not self.slots.beside):
            self.slots = this.slots = Slots(self.executor.parallelism, beside=not self.lanes.patient)
        domains = [one.domain for one in plan.domains]
        everything = {domain.name: domain for domain in domains}
        done = self.lanes.collect_outcomes(everything) | this._execute_plan(plan, stored, version)
        failed_rows = {n: f for n, one in done.items() if (f := one.failing_row) is not None}
        for name, error in name_failing_rows(self.store, failed_rows, everything, stored).items():
            done[name].error = error
        expire_overdue_logs(self.store, domains, stored, self.clock)
        self.executed = {name: outcome.steps for name, outcome in done.items()}
        reports = self._build_reports(plan, done, stored)
        shown = tuple(r for r in reports if stored.catalog.relations[r.view].kind != "index" or r.error)
        passed = sum(outcome.driver_bytes for outcome in done.values())
        return FlushReport(shown, time.perf_counter() - started, driver_bytes=passed)

    def _exclude_busy(self, plan: FlushPlan) -> FlushPlan:
        """Leave the domains alone that an earlier run is at work on yet."""
        busy = self.lanes.list_busy()
        if not busy:
            return plan
        told = {
            name: f"an epoch that began {seconds:.0f} s ago is under way" for name, seconds in busy.items()
        }
        domains = (replace(d, due=False, held=told[d.name]) if d.name in told else d for d in plan.domains)
        return replace(plan, domains=tuple(domains))

    def _execute_plan(
        self, plan: FlushPlan, stored: StoredCatalog, version: Version
    ) -> dict[str, DomainOutcome]:
        """Do what is planned over a version, and once more where other runs have passed this one by meanwhile."""
        due = plan.due
        done = self._run_domains(due, stored, version)
        for _ in range(MOST_ALIGNMENT_ROUNDS):
            busy = dict.fromkeys(self.lanes.list_busy(), DomainOutcome(waits_for="it is under way"))
            done |= self.lanes.collect_outcomes({one.name for one in plan.domains})
            free = list_free_domains((one.domain for one in plan.domains if one.held is None), done | busy)
            if free.isdisjoint(done) or self._are_aligned(free, plan, stored, version.epoch):
                break
            due = tuple(replace(one, built=False) for one in due if one.name in free)
            for name, outcome in self._run_domains(due, stored, self.store.refresh()).items():
                done[name] = done[name].merge(outcome)
        return done

    def _run_domains(
        self, due: Sequence[DomainPlan], stored: StoredCatalog, version: Version
    ) -> dict[str, DomainOutcome]:
        """Bring domains to the newest epoch of `version`, those that are built step by step after the others."""
        self._aim = RunTarget(version.epoch)
        return self.lanes.run(due, lambda plan: self._run_domain_timed(plan.domain, stored), self._broken_off)

    def _are_aligned(
        self, names: Collection[str], plan: FlushPlan, stored: StoredCatalog, begun: int
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
        met = Content(version, stored.inputs).find_common(tables, version.epoch)
        return met is None or met >= begun

    def _run_domain_timed(self, domain: Domain, stored: StoredCatalog) -> DomainOutcome:
        started = time.perf_counter()
        outcome = self._run_domain(domain, stored)
        outcome.seconds = time.perf_counter() - started
        if outcome.error is not None and not self._broken_off.is_set():
            reason = None if outcome.failing_row is None else outcome.failing_row.reason
            told = Told(outcome.checks, reason, outcome.again)
            known = record_domain_failure(self.store, domain, stored, outcome.error, self.clock(), told)
            if known is not None and known.row is None:
                outcome.failing_row = None  # no row of those that it has read alone makes it fail
        return outcome

    def _run_domain(self, domain: Domain, stored: StoredCatalog) -> DomainOutcome:
        """Bring one domain to the cut of the run, following another process where it was faster."""
        outcome = DomainOutcome()
        try:
            self._run_steps(domain, stored, outcome)
            release_sources(self.store, stored, domain)
        except GroundLost as lost:  # no failure of the domain's
            outcome.waits_for = f"{lost}; the next run computes it anew"
        except Exception as failure:  # Spark's own, too: the domain stays at its epoch, the others go on
            outcome.fail(failure)
        return outcome

    def _run_steps(self, domain: Domain, stored: StoredCatalog, outcome: DomainOutcome) -> None:
        """Do one step after the other until there is none, each planned from the newest version."""
        course = begin_course(
            domain, version := self.store.version, stored, self._refresh_request(), self._aim
        )
        most = limit_steps(domain, version, stored)
        for attempt in range(most):
            if self._broken_off.is_set():
                return
            # no look for news: a commit finds those that matter
            began, version = self.clock.monotonic(), self.store.version
            course = replace(course, aim=self._update_target(version))
            step = plan_next_step(domain, version, stored, self._refresh_request(), course)
            if step.oldest_change is not None:
                waited = max(0.0, self.clock() - seconds_of(step.oldest_change))
                outcome.lag_seconds = max(outcome.lag_seconds, waited)
            outcome.again = step.minting == "again"
            try:
                if not self._execute_step(step, domain, stored, version, outcome):
                    return
                if step.barrier is not None:
                    course = replace(course, arrived=step.stop >= course.aim.epoch)
            except (RowFailed, CheckFailed):
                if course.straight or step.work == RECOMPUTE or step.stop >= course.aim.epoch:
                    raise
                # what it failed on at a stop on the way may be mended at the end of it
                course = replace(course, straight=True)
            except (Fenced, Conflict, TableExists) as refused:
                self.generations.pop(domain.writer, None)
                if attempt == most - 1 or isinstance(refused, GroundLost):
                    raise
                lost = self.clock.monotonic() - began
                if step.work == "backfill step":  # what it has done is kept, but for the last of many commits
                    lost = min(lost, self.backfill.get_pace(domain.name).seconds)
                self._back_off(domain, attempt, lost)

    def _execute_step(
        self, step: FlushStep, domain: Domain, stored: StoredCatalog, version: Version, outcome: DomainOutcome
    ) -> bool:
        """Carry out a step that was planned over a version; return whether the domain is to go on."""
        match step.work:
            case "nothing":
                outcome.waits_for = step.waits_for
                return False
            case "mutation":
                self._apply_mutations(domain, stored, step, outcome)
                return True
            case _ if step.work == RECOMPUTE:
                self._recompute_partitions(domain, stored, outcome)
            case "backfill step":
                generation = self._acquire_generation(domain)
                outcome.waits_for = self._continue_backfill(domain, step.stop, generation, stored)
            case _:
                barrier = self._mint_barrier(domain, stored, version, step)
                run = self._build_partition_run(domain, stored)
                outcome.add(run.run(self.store.version, barrier, self.generations[domain.writer]))
        outcome.steps += (step,)
        return step.work != RECOMPUTE and outcome.waits_for is None

    def _refresh_request(self) -> FlushRequest:
        """Return what the run was asked for, at this moment."""
        return replace(self._request, now=self.clock())

    def _back_off(self, domain: Domain, attempt: int, lost: float) -> None:
        """Wait until the process that was faster has brought the domain on; at most twice as long as the `lost` seconds.

        Two processes that took over from each other at once would each make the other's work worthless, again and again.
        """
        most = self.clock.jitter(0.05 * (attempt + 1)) + lost + self.clock.jitter(lost)
        until, before = self.clock.monotonic() + most, _list_labels(domain, self.store.version)
        while (left := until - self.clock.monotonic()) > 0 and _list_labels(
            domain, self.store.refresh()
        ) == before:
            self.clock.sleep(min(left, 0.05 + lost / 20))

    def _build_partition_run(self, domain: Domain, stored: StoredCatalog) -> PartitionRun:
        return PartitionRun(self.store, self.executor, self.slots, domain, stored, self.clock)

    def _recompute_partitions(self, domain: Domain, stored: StoredCatalog, outcome: DomainOutcome) -> None:
        """Compute partitions again: those that somebody asks for, and quarantined ones whose inputs have changed."""

        def mint(version: Version, reach: int) -> tuple[Barrier, int]:
            step = plan_recompute_step(domain, version, reach, self._refresh_request())
            return self._mint_barrier(domain, stored, version, step), self.generations[domain.writer]

        for view in domain.members:
            version = self.store.refresh()
            again = plan_recomputation(domain, version, stored, view, self._refresh_request())
            if again is not None:
                for done in self._build_partition_run(domain, stored).retry(version, again, mint):
                    outcome.add(done)
                    self._extend_target(done)
        self._close_abandoned_barrier(domain, stored)

    def _close_abandoned_barrier(self, domain: Domain, stored: StoredCatalog) -> None:
        """Close the barrier that a broken off recomputation has left open: what follows the domain would wait for its end."""
        if domain.tables[0] not in find_recompute_epochs(self.store.version):
            return
        generation = self._acquire_generation(domain)
        version = self.store.refresh()
        self.store.commit(
            Commit(
                catalog=close_barrier(version, domain.name),
                writer=domain.writer,
                generation=generation,
                precondition=require_same_plans(stored, domain.members),
            )
        )

    def _extend_target(self, done: DomainEpoch) -> None:
        """Let what reads a domain follow it where partitions that were computed again have taken it beyond the run's cut."""
        assert done.barrier is not None
        with self._aim_lock:
            self._aim = self._aim.extend_to(done.barrier.curr)

    def _acquire_generation(self, domain: Domain) -> int:
        """Return the generation under which this process writes a domain; it takes over if it has none."""
        if domain.writer not in self.generations:
            self.generations[domain.writer] = self.store.claim(domain.writer)
        return self.generations[domain.writer]

    def _apply_mutations(
        self, domain: Domain, stored: StoredCatalog, step: FlushStep, outcome: DomainOutcome
    ) -> None:
        """Put the mutations in force that are queued for a domain."""
        apply_mutations(self.store, domain, stored, self._acquire_generation(domain), self.clock)
        outcome.mutations += step.mutations
        outcome.steps += (step,)

    def _update_target(self, version: Version) -> RunTarget:
        """Return where this run goes: until it has told others of its cut, a newer one of another run takes its place."""
        with self._aim_lock:
            self._aim = self._aim.adopt_newer(version)
            return self._aim

    def _mint_barrier(
        self, domain: Domain, stored: StoredCatalog, version: Version, step: FlushStep
    ) -> Barrier:
        """Make the barrier of a step durable before its work, in one commit with the claim where there is none.

        Raises Conflict if another run has minted a cut since `version`, over which the step was planned, or the domain's inputs
        have no content there any more, or it is to recompute what others have read.
        """
        assert step.barrier is not None
        curr = step.epoch.curr
        checks = [require_same_plans(stored, domain.members), require_same_target(version, step.stop)]
        checks.append(require_aligned_inputs(domain, stored, version, curr))
        if step.minting == "recompute":
            checks.append(require_unread(domain, curr))

        generation = self.generations.get(domain.writer)
        catalog = record_barrier(domain.name, step.barrier) | record_target_epoch(version, step.stop)
        newest = self.store.version
        ours = generation is not None and newest.generations.get(domain.writer) == generation
        if ours and all(newest.catalog.get(key) == text for key, text in catalog.items()):
            require_all(*checks)(newest)  # it is open already
            return step.epoch
        commit = Commit(catalog=catalog, precondition=require_all(*checks))
        if generation is None:
            made = self.store.commit(replace(commit, claim=domain.writer))
            self.generations[domain.writer] = made.generations[domain.writer]
        else:
            self.store.hand_over(replace(commit, writer=domain.writer, generation=generation))
        with self._aim_lock:  # not before: a refused barrier has told no other run of this cut
            self._aim = self._aim.mark_minted(version, step.stop)
        return step.epoch

    def _continue_backfill(
        self, domain: Domain, reach: int, generation: int, stored: StoredCatalog
    ) -> str | None:
        """Go on with a domain's backfill; return why it is not whole yet, or None when it is."""
        background = is_in_background(domain, stored)
        until = self.clock.monotonic() + self._background_seconds

        def stop() -> bool:
            return self._broken_off.is_set() or (background and self.clock.monotonic() > until)

        creation = self.backfill.run(domain, stored, reach, generation, self.slots, stop)
        if creation is None:
            return "it was dropped"
        if creation.state == CREATED:
            return None
        control = read_control(self.store.version, domain.name)
        if control.paused:
            return f"{creation.text}; {control.reason}"
        return creation.text + (
            "; paused by backfill_rate_limit = 0" if find_rate_limit(domain, stored, control) == 0 else ""
        )

    def _build_reports(
        self, plan: FlushPlan, done: Mapping[str, DomainOutcome], stored: StoredCatalog
    ) -> Iterable[ViewReport]:
        reasons: dict[str, str | None] = {one.name: one.held for one in plan.domains}
        reasons |= {name: outcome.error or outcome.waits_for for name, outcome in done.items()}
        for one in plan.domains:
            outcome = done.get(one.name) or DomainOutcome(waits_for=one.held)
            if one.name in done and not (outcome.fragments or outcome.error or outcome.waits_for):
                outcome.waits_for = reasons[one.name] = find_wait_reason(one.domain, reasons)
            yield from build_reports(one.domain, self.store.version, stored, outcome)


def _list_labels(domain: Domain, version: Version) -> tuple[int | None, ...]:
    """The epochs at which the tables of a domain stand."""
    found = (version.tables.get(table) for table in domain.tables)
    return tuple(table.committed_epoch if table is not None else None for table in found)

"""One run as a value, and how it brings a domain on: step by step, each planned from the newest version.

What a domain does is decided in `flush_planning.py`. Fencing decides races between processes: where another one was faster, the
next step is planned over what that has committed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from engine import tracing
from engine.errors import CheckFailed, Conflict, Fenced, GroundLost, RowFailed, TableExists
from engine.hummock import Commit, Hummock, Version
from engine.hummock.epoch import Clock, seconds_of
from engine.hummock.manifests.preconditions import require_all
from engine.meta.catalog.stored_catalog import StoredCatalog, has_same_plans, require_same_plans
from engine.meta.domains.creation import CREATED
from engine.meta.domains.domain import Domain, find_rate_limit, is_in_background
from engine.meta.domains.mutation import read_control
from engine.meta.epochs.barrier import Barrier, close_barrier, find_recompute_epochs, record_barrier
from engine.meta.epochs.flush_plan import RECOMPUTE, DomainPlan, FlushRequest, FlushStep, RunTarget
from engine.meta.epochs.target_epoch import (
    record_target_epoch,
    require_aligned_inputs,
    require_same_target,
    require_unread,
)
from engine.runtime.backfill.run import BackfillRun
from engine.runtime.domains.domain_outcome import DomainOutcome
from engine.runtime.domains.failing_rows import FailureFindings, record_domain_failure
from engine.runtime.domains.flush_planning import (
    begin_course,
    limit_steps,
    plan_next_step,
    plan_recomputation,
    plan_recompute_step,
)
from engine.runtime.domains.partition_run import PartitionRun
from engine.runtime.epoch.mutation_run import apply_mutations
from engine.runtime.executor import Executor
from engine.runtime.source_rows import release_sources
from engine.runtime.spark.slots import Slots


class SharedTarget:
    """Where a run goes: the domains that it brings on at the same time see one target, and each may move it."""

    def __init__(self, epoch: int) -> None:
        self._target, self._lock = RunTarget(epoch), threading.Lock()

    def adopt_newer(self, version: Version) -> RunTarget:
        """Return the target: a newer one of another run takes its place until this run has announced its own."""
        with self._lock:
            self._target = self._target.adopt_newer(version)
            return self._target

    def mark_minted(self, version: Version, stop: int) -> None:
        """Keep the target from now on if a barrier to `stop`, minted over a version, has announced it to other runs."""
        with self._lock:
            self._target = self._target.mark_minted(version, stop)

    def extend_to(self, epoch: int) -> None:
        """Let what reads a domain follow it where partitions that were computed again have taken it beyond the target."""
        with self._lock:
            self._target = self._target.extend_to(epoch)


@dataclass(frozen=True)
class FlushRun:
    """One run: with what it works, what it was asked for over which version, and where it goes.

    A domain that outlasts its run holds on to it, so that it goes on with what that run was asked for. Background views get
    `background_seconds`. Nothing begins any more once the run is `broken_off`. The writer generations are those of the process.
    """

    store: Hummock
    executor: Executor
    backfill: BackfillRun
    slots: Slots
    clock: Clock
    generations: dict[str, int]
    request: FlushRequest
    version: Version
    stored: StoredCatalog
    target: SharedTarget
    background_seconds: float
    broken_off: threading.Event = field(default_factory=threading.Event)
    span: tracing.Span = tracing.NO_SPAN

    def run_domain(self, plan: DomainPlan) -> DomainOutcome:
        """Bring one domain to the target epoch of the run, following another process where it was faster."""
        domain, outcome = plan.domain, DomainOutcome()
        with self._trace_domain(domain, outcome), self._report_failure(domain, outcome):
            version, stored = self.store.version, self.stored
            course = begin_course(
                domain, version, stored, self._refresh_request(), self.target.adopt_newer(version)
            )
            most = limit_steps(domain, version, stored)
            for attempt in range(most):
                if self.broken_off.is_set():
                    break
                # no look for news: a commit finds those that matter
                began, version = self.clock.monotonic(), self.store.version
                course = replace(course, target=self.target.adopt_newer(version))
                step = plan_next_step(domain, version, stored, self._refresh_request(), course)
                self._note_step(step, outcome)
                try:
                    if step.barrier is None:
                        goes_on = self._execute_without_barrier(step, domain, outcome)
                    else:
                        barrier = self._mint_barrier(domain, version, step)
                        partitions = self._build_partition_run(domain)
                        with self._measure_epoch(domain, barrier):
                            generation = self.generations[domain.writer]
                            outcome.add(partitions.run(self.store.version, barrier, generation))
                        goes_on = outcome.waits_for is None
                        course = replace(course, arrived=step.stop >= course.target.epoch)
                    if step.work != "nothing":
                        outcome.steps += (step,)
                    if not goes_on:
                        break
                except (RowFailed, CheckFailed):
                    if course.straight or step.work == RECOMPUTE or step.stop >= course.target.epoch:
                        raise
                    # what it failed on at a stop on the way may be mended at the end of it
                    course = replace(course, straight=True)
                except (Fenced, Conflict, TableExists) as refused:
                    self.generations.pop(domain.writer, None)
                    if attempt == most - 1 or isinstance(refused, GroundLost):
                        raise
                    lost = self.clock.monotonic() - began
                    if (
                        step.work == "backfill step"
                    ):  # what it has done is kept, but for the last of many commits
                        lost = min(lost, self.backfill.get_pace(domain.name).seconds)
                    self._back_off(domain, attempt, lost)
        return outcome

    @contextmanager
    def _trace_domain(self, domain: Domain, outcome: DomainOutcome) -> Iterator[None]:
        """Let the work on a domain be a span of the run's, with how it ends."""
        attributes = {"tideline.domain": domain.name, "tideline.views": domain.members}
        with tracing.start_span("domain", attributes, parent=self.span) as span:
            yield
            span.set_attributes({"tideline.lag_seconds": outcome.lag_seconds})
            if outcome.error is not None:
                span.mark_failed(outcome.error_type)

    @contextmanager
    def _measure_epoch(self, domain: Domain, barrier: Barrier) -> Iterator[None]:
        """Let an epoch of a domain be a span, and count what it takes."""
        started, counters = time.perf_counter(), self.store.counters
        with tracing.start_span("epoch", {"tideline.domain": domain.name, "tideline.epoch": barrier.curr}):
            try:
                yield
            except Exception as error:
                if not isinstance(error, Fenced | Conflict):  # another process was faster
                    counters.count_epoch(domain.name, time.perf_counter() - started, failed=True)
                raise
            counters.count_epoch(domain.name, time.perf_counter() - started)

    @contextmanager
    def _report_failure(self, domain: Domain, outcome: DomainOutcome) -> Iterator[None]:
        """Take the time of the work on a domain, and let its failure be its outcome: the others go on."""
        started = time.perf_counter()
        try:
            yield
            release_sources(self.store, self.stored, domain)
        except GroundLost as lost:  # no failure of the domain's
            outcome.waits_for = f"{lost}; the next run computes it anew"
        except Exception as failure:  # Spark's own, too: the domain stays at its epoch
            if has_same_plans(self.store.version, self.stored, domain.members):
                outcome.fail(failure)
            else:  # what it reads or writes may be gone with it
                outcome.waits_for = "it was dropped or planned again at the same time"
        outcome.seconds = time.perf_counter() - started
        if outcome.error is not None and not self.broken_off.is_set():
            reason = None if outcome.failing_row is None else outcome.failing_row.reason
            findings = FailureFindings(outcome.checks, reason, outcome.again)
            known = record_domain_failure(
                self.store, domain, self.stored, outcome.error, self.clock(), findings
            )
            if known is not None and known.row is None:
                outcome.failing_row = None  # no row of those that it has read alone makes it fail

    def _note_step(self, step: FlushStep, outcome: DomainOutcome) -> None:
        """Note how long the oldest change of a step has waited, and whether it tries again what has failed."""
        if step.oldest_change is not None:
            waited = max(0.0, self.clock() - seconds_of(step.oldest_change))
            outcome.lag_seconds = max(outcome.lag_seconds, waited)
        outcome.again = step.minting == "again"

    def _execute_without_barrier(self, step: FlushStep, domain: Domain, outcome: DomainOutcome) -> bool:
        """Carry out a step that is no epoch of its own; return whether the domain is to go on."""
        match step.work:
            case "nothing":
                outcome.waits_for = step.waits_for
                return False
            case "mutation":
                apply_mutations(self.store, domain, self.stored, self._acquire_generation(domain), self.clock)
                outcome.mutations += step.mutations
                return True
            case "backfill step":
                outcome.waits_for = self._continue_backfill(
                    domain, step.stop, self._acquire_generation(domain)
                )
                return outcome.waits_for is None
        assert step.work == RECOMPUTE
        self._recompute_partitions(domain, outcome)
        return False

    def _refresh_request(self) -> FlushRequest:
        """Return what the run was asked for, at this moment."""
        return replace(self.request, now=self.clock())

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

    def _build_partition_run(self, domain: Domain) -> PartitionRun:
        return PartitionRun(self.store, self.executor, self.slots, domain, self.stored, self.clock)

    def _recompute_partitions(self, domain: Domain, outcome: DomainOutcome) -> None:
        """Compute partitions again: those that somebody asks for, and quarantined ones whose inputs have changed."""

        def mint(version: Version, reach: int) -> tuple[Barrier, int]:
            step = plan_recompute_step(domain, version, reach, self._refresh_request())
            return self._mint_barrier(domain, version, step), self.generations[domain.writer]

        for view in domain.members:
            version = self.store.refresh()
            again = plan_recomputation(domain, version, self.stored, view, self._refresh_request())
            if again is not None:
                for done in self._build_partition_run(domain).retry(version, again, mint):
                    outcome.add(done)
                    assert done.barrier is not None
                    self.target.extend_to(done.barrier.curr)
        self._close_abandoned_barrier(domain)

    def _close_abandoned_barrier(self, domain: Domain) -> None:
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
                precondition=require_same_plans(self.stored, domain.members),
            )
        )

    def _acquire_generation(self, domain: Domain) -> int:
        """Return the generation under which this process writes a domain; it takes over if it has none."""
        if domain.writer not in self.generations:
            self.generations[domain.writer] = self.store.claim(domain.writer)
        return self.generations[domain.writer]

    def _mint_barrier(self, domain: Domain, version: Version, step: FlushStep) -> Barrier:
        """Make the barrier of a step durable before its work, in one commit with the claim where there is none.

        Raises Conflict if another run has minted a cut since `version`, over which the step was planned, or the domain's inputs
        have no content there any more, or it is to recompute what others have read.
        """
        assert step.barrier is not None
        curr = step.epoch.curr
        checks = [require_same_plans(self.stored, domain.members), require_same_target(version, step.stop)]
        checks.append(require_aligned_inputs(domain, self.stored, version, curr))
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
        # not before: a refused barrier has shown no other run this target
        self.target.mark_minted(version, step.stop)
        return step.epoch

    def _continue_backfill(self, domain: Domain, reach: int, generation: int) -> str | None:
        """Go on with a domain's backfill; return why it is not complete yet, or None when it is."""
        background = is_in_background(domain, self.stored)
        until = self.clock.monotonic() + self.background_seconds

        def stop() -> bool:
            return self.broken_off.is_set() or (background and self.clock.monotonic() > until)

        creation = self.backfill.run(domain, self.stored, reach, generation, self.slots, stop)
        if creation is None:
            return "it was dropped"
        if creation.state == CREATED:
            return None
        control = read_control(self.store.version, domain.name)
        if control.paused:
            return f"{creation.text}; {control.reason}"
        return creation.text + (
            "; paused by backfill_rate_limit = 0"
            if find_rate_limit(domain, self.stored, control) == 0
            else ""
        )


def _list_labels(domain: Domain, version: Version) -> tuple[int | None, ...]:
    """The epochs at which the tables of a domain stand."""
    found = (version.tables.get(table) for table in domain.tables)
    return tuple(table.committed_epoch if table is not None else None for table in found)

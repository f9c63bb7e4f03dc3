"""One run over every lagging domain: each commits, fails and is retried by itself; fencing decides races between processes."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace

from engine.errors import Conflict, Fenced, RowFailed, TableExists, TidelineError
from engine.hummock import Commit, Hummock, Version
from engine.hummock.epoch import Clock, seconds_of
from engine.meta.barrier import Barrier, Minting, closed, minted, open_barrier, opened, recomputed_from
from engine.meta.catalog_store import StoredCatalog, is_planned, load, planned
from engine.meta.content import Content
from engine.meta.creation import CREATED, computed, creations
from engine.meta.cut import have_met, label_of, newest_cut, next_stop, noted, still_met, unmoved, unread
from engine.meta.domain import Domain, domains, in_background, rate_limit
from engine.meta.frontier import frontiers
from engine.meta.mutation import Control, control_of
from engine.meta.partitions import PREFIX, quarantined, retries, source_tables
from engine.meta.partitions import due as to_retry
from engine.meta.recovery import failing
from engine.meta.text_plans import refreshed
from engine.meta.waits import is_lagging, waits
from engine.runtime.backfill_run import BACKFILL_ROWS, BackfillRun
from engine.runtime.blame import name_failing_rows, remember
from engine.runtime.domain_run import DomainEpoch
from engine.runtime.epoch_run import FragmentEpoch
from engine.runtime.executor import Executor
from engine.runtime.lapse import lapse_overdue
from engine.runtime.mutation_run import take_mutations
from engine.runtime.partition_run import PartitionRun
from engine.runtime.report import FlushReport, ViewReport
from engine.runtime.slots import Slots

RACE_ATTEMPTS = 20
MEETINGS = 3
"""How often a run goes on where others have passed it by."""
BACKGROUND_SECONDS = 5.0
MOST_THREADS = 16


@dataclass
class DomainOutcome:
    """How a domain's part of a run ended."""

    fragments: dict[str, list[FragmentEpoch]] = field(default_factory=dict)
    commit_seconds: float = 0.0
    seconds: float = 0.0
    lag_seconds: float = 0.0
    error: str | None = None
    failing_row: RowFailed | None = None
    waits_for: str | None = None
    barrier: Barrier | None = None
    mutations: tuple[str, ...] = ()

    def followed_by(self, later: DomainOutcome) -> DomainOutcome:
        """Return both parts of a run as one."""
        fragments = {
            owner: [*self.fragments.get(owner, ()), *later.fragments.get(owner, ())]
            for owner in {**self.fragments, **later.fragments}
        }
        return replace(
            later,
            fragments=fragments,
            commit_seconds=self.commit_seconds + later.commit_seconds,
            seconds=self.seconds + later.seconds,
            lag_seconds=max(self.lag_seconds, later.lag_seconds),
            barrier=later.barrier or self.barrier,
            mutations=self.mutations + later.mutations,
        )

    def add(self, done: DomainEpoch) -> None:
        """Count one more epoch in."""
        self.barrier = done.barrier
        for owner, epochs in done.fragments.items():
            self.fragments[owner] = [*self.fragments.get(owner, ()), *epochs]
        self.commit_seconds += done.commit_seconds


class FlushRun:
    """Runs what is pending over a store; holds the writer generations that this process has claimed."""

    def __init__(
        self,
        store: Hummock,
        executor: Executor,
        backfill_rows: int = BACKFILL_ROWS,
        threads: int = MOST_THREADS,
        clock: Clock | None = None,
    ) -> None:
        self.store, self.threads, self.clock = store, threads, clock or store.clock
        self.executor = executor
        self.backfill = BackfillRun(store, executor, backfill_rows, self.clock)
        self.generations: dict[str, int] = {}
        self.slots = Slots(1)
        self._eager = True
        self._asked: dict[str, frozenset[str]] = {}
        self._cut, self._before, self._minted, self._cut_lock = 0, 0, False, threading.Lock()

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
        self._eager = eager
        self._asked = {view: frozenset(keys) for view, keys in (partitions or {}).items()}
        started = time.perf_counter()
        version = refreshed(self.store)
        stored = load(version)
        everything = domains(stored)
        names = list(everything) if views is None else _with_upstreams(everything, stored, views)
        known = frontiers(version, stored.order, stored.inputs)
        held = {} if eager else _held(version, stored, self.clock())
        again = {*self._asked, *retries(version, stored, self.clock(), eager=eager)}
        due = [
            name
            for name in names
            if (is_lagging(everything[name], known) and name not in held)
            or control_of(version, name).asked
            or (name not in held and not again.isdisjoint(everything[name].members))
        ]
        self.slots = Slots(self.executor.parallelism) if due else self.slots
        self._background_seconds = background_seconds
        building = self._building(due, everything, version, stored)
        due = [*(name for name in due if name not in building), *(name for name in due if name in building)]
        done = self._bring_all(due, building, everything, stored, version)
        for _ in range(MEETINGS):
            free = _free([name for name in names if name not in held], done, everything)
            if free.isdisjoint(done) or self._have_met(free, everything, stored, version.epoch):
                break
            due = [name for name in due if name in free]
            for name, outcome in self._bring_all(due, (), everything, stored, self.store.refresh()).items():
                done[name] = done[name].followed_by(outcome)
        failed_rows = {n: f for n, one in done.items() if (f := one.failing_row) is not None}
        for name, error in name_failing_rows(self.store, failed_rows, everything, stored).items():
            done[name].error = error
        lapse_overdue(self.store, [everything[name] for name in names], stored, self.clock)
        reports: list[ViewReport] = []
        for name in names:
            outcome = done.get(name) or DomainOutcome(waits_for=held.get(name))
            _say_what_it_waits_for(outcome, everything[name], done)
            reports += self._reports(everything[name], stored, outcome)
        shown = tuple(r for r in reports if stored.catalog.relations[r.view].kind != "index" or r.error)
        return FlushReport(shown, time.perf_counter() - started)

    def _bring_all(
        self,
        due: Sequence[str],
        building: Collection[str],
        everything: Mapping[str, Domain],
        stored: StoredCatalog,
        version: Version,
    ) -> dict[str, DomainOutcome]:
        """Bring domains to the newest epoch of `version`, those of `building` after the others."""
        self._cut, self._before, self._minted = version.epoch, 0, False
        running: dict[str, Future[DomainOutcome]] = {}
        with ThreadPoolExecutor(min(self.threads, max(1, len(due)))) as pool:
            for name in due:  # inputs first: a thread waits only for others that were started before it
                before = [running[upstream] for upstream in everything[name].upstreams if upstream in running]
                before += [running[other] for other in due if name in building and other not in building]
                running[name] = pool.submit(self._bring_after, before, everything[name], stored)
        return {name: one.result() for name, one in running.items()}

    def _have_met(
        self, names: Collection[str], everything: Mapping[str, Domain], stored: StoredCatalog, begun: int
    ) -> bool:
        """Tell whether domains have content together at `begun` or a newer epoch: another run may have taken one past it."""
        version = self.store.version
        tables = [t for name in names for t in everything[name].tables if computed(version, t) is not None]
        met = Content(version, stored.inputs).common(tables, version.epoch)
        return met is None or met >= begun

    def _building(
        self, due: Sequence[str], everything: Mapping[str, Domain], version: Version, stored: StoredCatalog
    ) -> set[str]:
        """Return the domains that are being built step by step, or read one: running views come before them."""
        found: set[str] = set()
        for name in due:
            domain = everything[name]
            if self.backfill.is_due(domain, version, stored) or found.intersection(domain.upstreams):
                found.add(name)
        return found

    def _bring_after(
        self, before: Collection[Future[DomainOutcome]], domain: Domain, stored: StoredCatalog
    ) -> DomainOutcome:
        wait(before)
        started = time.perf_counter()
        outcome = self._bring(domain, stored)
        outcome.seconds = time.perf_counter() - started
        if outcome.error is not None:
            remember(self.store, domain, stored, outcome.error, self.clock())
        return outcome

    def _bring(self, domain: Domain, stored: StoredCatalog) -> DomainOutcome:
        """Run one domain to the cut of the run, following another process where it was faster."""
        outcome = DomainOutcome()
        straight, arrived = failing(self.store.version, domain.name), False
        try:
            for attempt in range(RACE_ATTEMPTS):
                began, version = self.clock.monotonic(), self.store.refresh()
                if not is_planned(version, stored, domain.members):
                    outcome.waits_for = "it was dropped or planned anew meanwhile"
                    break
                control = control_of(version, domain.name)
                if control.asked and not arrived:  # what is asked for meanwhile is the next run's
                    self._take(domain, stored, control, outcome)
                    continue
                if control.paused:
                    outcome.waits_for = control.reason
                    break
                cut = self._cut_seen(version)
                reach = next_stop(domain, version, stored, cut, self._before, straight=straight)
                try:
                    if reach is None:
                        self._retry(domain, stored, outcome)
                        break
                    waited = _waiting_seconds(domain, version, reach, self.clock())
                    outcome.lag_seconds = max(outcome.lag_seconds, waited)
                    if self.backfill.is_due(domain, version, stored):
                        generation = self._generation(domain)
                        outcome.waits_for = self._backfill(domain, reach, generation, stored)
                        if outcome.waits_for is not None:
                            break
                        continue
                    label = label_of(domain, version, stored, reach)
                    how: Minting = "anew" if straight else "rerun"
                    barrier = self._mint(domain, stored, version, reach, label, how)
                    run = self._partition_run(domain, stored)
                    outcome.add(run.run(self.store.version, barrier, self.generations[domain.writer]))
                    arrived = reach >= cut
                except RowFailed:
                    if straight or reach is None or reach >= cut:
                        raise
                    straight = True  # what it failed on at a stop on the way may be mended at the end of it
                except (Fenced, Conflict, TableExists):
                    self.generations.pop(domain.writer, None)
                    if attempt == RACE_ATTEMPTS - 1:
                        raise
                    self._give_way(domain, attempt, self.clock.monotonic() - began)
        except RowFailed as failure:
            outcome.error, outcome.failing_row = str(failure), failure
        except TidelineError as failure:
            outcome.error = str(failure)
        except Exception as failure:  # Spark's own errors: the domain stays at its epoch, the others go on
            outcome.error = f"{type(failure).__name__}: {_first_lines(failure)}"
        return outcome

    def _give_way(self, domain: Domain, attempt: int, lost: float) -> None:
        """Wait until the process that was faster has brought the domain on; at most twice as long as the `lost` seconds.

        Two processes that took over from each other at once would each make the other's work worthless, again and again.
        """
        most = self.clock.jitter(0.05 * (attempt + 1)) + lost + self.clock.jitter(lost)
        until, before = self.clock.monotonic() + most, _labels(domain, self.store.version)
        while (left := until - self.clock.monotonic()) > 0 and _labels(
            domain, self.store.refresh()
        ) == before:
            self.clock.sleep(min(left, 0.05 + lost / 20))

    def _partition_run(self, domain: Domain, stored: StoredCatalog) -> PartitionRun:
        return PartitionRun(self.store, self.executor, self.slots, domain, stored, self.clock)

    def _retry(self, domain: Domain, stored: StoredCatalog, outcome: DomainOutcome) -> None:
        """Compute partitions again: those that somebody asks for, and quarantined ones whose inputs have changed."""

        def mint(version: Version, reach: int) -> tuple[Barrier, int]:
            barrier = self._mint(domain, stored, version, reach, reach, "recompute")
            return barrier, self.generations[domain.writer]

        for view in domain.members:
            version = self.store.version
            asked, waiting = self._asked.get(view, frozenset()), frozenset[str]()
            if PREFIX + view in version.catalog:
                inputs = source_tables(stored, view)
                waiting = to_retry(version, view, inputs, self.clock(), eager=self._eager)
            if asked or waiting:
                for done in self._partition_run(domain, stored).retry(view, asked, waiting, mint):
                    outcome.add(done)
                    self._go_on_to(done)
        self._close_left(domain, stored)

    def _close_left(self, domain: Domain, stored: StoredCatalog) -> None:
        """Close the barrier that a broken off recomputation has left open: what follows the domain would wait for its end."""
        if domain.tables[0] not in recomputed_from(self.store.version):
            return
        generation = self._generation(domain)
        version = self.store.refresh()
        self.store.commit(
            Commit(
                catalog=closed(version.catalog, domain.name),
                writer=domain.writer,
                generation=generation,
                precondition=planned(stored, domain.members),
            )
        )

    def _go_on_to(self, done: DomainEpoch) -> None:
        """Let what reads a domain follow it where partitions that were computed again have taken it beyond the run's cut."""
        assert done.barrier is not None
        with self._cut_lock:
            self._cut = max(self._cut, done.barrier.curr)

    def _generation(self, domain: Domain) -> int:
        """Return the generation under which this process writes a domain; it takes over if it has none."""
        if domain.writer not in self.generations:
            self.generations[domain.writer] = self.store.claim(domain.writer)
        return self.generations[domain.writer]

    def _take(self, domain: Domain, stored: StoredCatalog, control: Control, outcome: DomainOutcome) -> None:
        """Put the mutations in force that are queued for a domain."""
        try:
            take_mutations(self.store, domain, stored, self._generation(domain), self.clock)
        except (Fenced, Conflict):
            self.generations.pop(domain.writer, None)
            return
        outcome.mutations += tuple(asked.text for asked in control.asked)

    def _cut_seen(self, version: Version) -> int:
        """Return the cut of this run: until it has brought a domain there, a newer one of another run takes its place."""
        with self._cut_lock:
            if not self._minted:
                self._cut = max(self._cut, newest_cut(version))
            return self._cut

    def _mint(
        self,
        domain: Domain,
        stored: StoredCatalog,
        version: Version,
        stop: int,
        label: int,
        how: Minting = "rerun",
    ) -> Barrier:
        """Make the barrier of a domain's next epoch durable before its work, in one commit with the claim where there is none.

        The epoch reflects its inputs at `stop` and is labelled `label`. Raises Conflict if another run has minted a cut since
        `version`, or its inputs have no content there any more, or it is to recompute what others have read.
        """
        left = open_barrier(version, domain.name)
        if how == "rerun" and left is not None and not have_met(domain, version, stored, left.barrier.curr):
            how = "anew"
        barrier = minted(version, domain.name, domain.tables, label, self.clock(), domain.inputs, how)
        catalog, generation = opened(domain.name, barrier), self.generations.get(domain.writer)
        curr = barrier.barrier.curr
        checks = [planned(stored, domain.members), unmoved(version, stop)]
        checks.append(still_met(domain, stored, version, curr))
        if how == "recompute":
            checks.append(unread(domain, curr))

        def standing(base: Version) -> None:
            for check in checks:
                check(base)

        catalog |= noted(version, stop)
        if generation is None:
            made = self.store.commit(Commit(claim=domain.writer, catalog=catalog, precondition=standing))
            self.generations[domain.writer] = made.generations[domain.writer]
        else:
            self.store.commit(
                Commit(catalog=catalog, writer=domain.writer, generation=generation, precondition=standing)
            )
        with self._cut_lock:  # not before: a refused barrier has told no other run of this cut
            if stop == self._cut and not self._minted:
                self._minted, self._before = True, newest_cut(version)
        return barrier.barrier

    def _backfill(self, domain: Domain, reach: int, generation: int, stored: StoredCatalog) -> str | None:
        """Go on with a domain's backfill; return why it is not whole yet, or None when it is."""
        background = in_background(domain, stored)
        until = self.clock.monotonic() + self._background_seconds

        def stop() -> bool:
            return background and self.clock.monotonic() > until

        creation = self.backfill.run(domain, stored, reach, generation, self.slots, stop)
        if creation is None:
            return "it was dropped"
        if creation.state == CREATED:
            return None
        control = control_of(self.store.version, domain.name)
        if control.paused:
            return f"{creation.text}; {control.reason}"
        return creation.text + (
            "; paused by backfill_rate_limit = 0" if rate_limit(domain, stored, control) == 0 else ""
        )

    def _reports(self, domain: Domain, stored: StoredCatalog, outcome: DomainOutcome) -> Iterable[ViewReport]:
        version = self.store.version
        creation = creations(version).get(domain.name)
        for owner in domain.members:
            plan = stored.plans[owner]
            table = computed(version, owner)
            tables = [version.tables[f.table] for f in plan.fragments if f.table in version.tables]
            done = outcome.fragments.get(owner, [])
            own = [epoch for epoch in done if epoch.table == owner]
            last = done[-1] if done else None
            stages: dict[str, float] = {}
            for epoch in done:
                for stage, spent in epoch.seconds.items():
                    stages[stage] = stages.get(stage, 0.0) + spent
            if done:
                stages["commit"] = outcome.commit_seconds
            committed = table.committed_epoch if table is not None else None
            yield ViewReport(
                owner,
                committed,
                last.previous if last else committed,
                sum(epoch.rows_in for epoch in done),
                sum(epoch.inserted for epoch in own),
                sum(epoch.updated for epoch in own),
                sum(epoch.deleted for epoch in own),
                outcome.seconds,
                stages,
                sum(t.size_bytes for t in tables),
                {u: committed for u in stored.catalog.relations[owner].depends_on if committed},
                outcome.lag_seconds,
                plan.fragments[-1].rule,
                outcome.error,
                not done and outcome.error is None,
                outcome.waits_for,
                outcome.barrier.text if outcome.barrier is not None else None,
                outcome.mutations,
                next((epoch.rebuilt for epoch in done if epoch.rebuilt is not None), None),
                creation.phase if creation is not None else None,
                creation.consumed if creation is not None else {},
                {key: one.text for key, one in quarantined(version, owner).items()},
                sum(epoch.rows_read_again for epoch in done),
                sum(epoch.rows_written_again for epoch in own),
            )


def _labels(domain: Domain, version: Version) -> tuple[int | None, ...]:
    """The epochs at which the tables of a domain stand."""
    found = (version.tables.get(table) for table in domain.tables)
    return tuple(table.committed_epoch if table is not None else None for table in found)


def _free(
    names: Iterable[str], done: Mapping[str, DomainOutcome], everything: Mapping[str, Domain]
) -> set[str]:
    """Return those of `names`, inputs first, that neither wait nor have failed, nor read what does."""
    free: set[str] = set()
    for name in names:
        ended = done.get(name) or DomainOutcome()
        if ended.error is None and ended.waits_for is None and free.issuperset(everything[name].upstreams):
            free.add(name)
    return free


def _say_what_it_waits_for(outcome: DomainOutcome, domain: Domain, done: Mapping[str, DomainOutcome]) -> None:
    """A domain that could not go on because of what it reads says so."""
    if outcome.fragments or outcome.error or outcome.waits_for or domain.name not in done:
        return
    for upstream in domain.upstreams:
        other = done.get(upstream) or DomainOutcome()
        reason = other.error or other.waits_for
        if reason:
            outcome.waits_for = f"waits for {upstream}: {reason}"
            return


def _waiting_seconds(domain: Domain, version: Version, reach: int, now: float) -> float:
    """For how long the oldest change that a domain lacks has been waiting."""
    oldest: int | None = None
    for _, fragment in domain.fragments:
        own = computed(version, fragment.table)
        for name in domain.dependencies[fragment.table]:
            if own is not None and name in version.tables:
                change = version.tables[name].first_change(own.committed_epoch)
                if change is not None and change <= reach:
                    oldest = change if oldest is None else min(oldest, change)
    return 0.0 if oldest is None else max(0.0, now - seconds_of(oldest))


def _held(version: Version, stored: StoredCatalog, now: float) -> dict[str, str]:
    """Return why each domain that is not due waits."""
    return {w.domain: w.reason for w in waits(version, stored, now) if not w.goes_on}


def _with_upstreams(
    everything: Mapping[str, Domain], stored: StoredCatalog, views: Collection[str]
) -> list[str]:
    """Return the domains of `views` and all that they read, inputs first."""
    of = {owner: name for name, domain in everything.items() for owner in domain.members}
    wanted: set[str] = set()
    queue = [of[name] for name in (stored.catalog.get(view).name for view in views) if name in of]
    while queue:
        name = queue.pop()
        if name not in wanted:
            wanted.add(name)
            queue += everything[name].upstreams
    return [name for name in everything if name in wanted]


def _first_lines(failure: Exception) -> str:
    """Return the beginning of an error; of one in a Spark worker what it says, without the places in the code."""
    lines = [line for line in str(failure).splitlines() if line.strip()]
    if any(line.startswith("Traceback ") for line in lines):
        lines = [line for line in lines if not line.startswith(("Traceback ", "  ", "\t"))]
    return "\n".join(lines[:12])

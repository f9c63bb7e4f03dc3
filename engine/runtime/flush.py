"""One run over every lagging view: each commits, fails and is retried by itself; fencing decides races between processes."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager

from pyspark.sql import SparkSession

from engine.errors import Conflict, Fenced, TableExists, TidelineError
from engine.hummock import Hummock, Version
from engine.hummock.epoch import seconds_of
from engine.meta.catalog_store import StoredCatalog, load
from engine.meta.frontier import Frontier, frontiers
from engine.operators.context import SMALL_CHANGE_ROWS
from engine.runtime.epoch_run import FragmentEpoch, rows_in, run_fragment
from engine.runtime.report import FlushReport, ViewReport
from engine.runtime.spark import parallelism
from engine.sql.fragments import Fragment, IncrementalPlan

RACE_ATTEMPTS = 20
MOST_THREADS = 16


class Slots:
    """Room for `count` small epochs at the same time, or for one large one: settings of a Spark session are shared."""

    def __init__(self, count: int) -> None:
        self.count = max(1, count)
        self._free = threading.Semaphore(self.count)
        self._turn = threading.Lock()

    @contextmanager
    def taken(self, alone: bool) -> Iterator[None]:
        """Hold one slot, or all of them."""
        need = self.count if alone else 1
        with self._turn:  # who waits for all slots is not overtaken
            for _ in range(need):
                self._free.acquire()
        try:
            yield
        finally:
            for _ in range(need):
                self._free.release()


class FlushRun:
    """Runs what is pending over a store; holds the writer generations that this process has claimed."""

    def __init__(self, store: Hummock, spark: Callable[[], SparkSession]) -> None:
        self.store = store
        self.spark = spark
        self.generations: dict[str, int] = {}
        self.slots = Slots(1)

    def run(self, views: Collection[str] | None = None) -> FlushReport:
        """Bring `views` (None: all), and what they are computed from, to the newest epoch; never raises for one view.

        A view reaches the least frontier of its inputs as they stood when the run began, or later.
        """
        started = time.perf_counter()
        version = self.store.refresh()
        stored = load(version)
        wanted = None if views is None else _with_upstreams(stored, views)
        owners = [name for name in _owners_in_order(stored) if wanted is None or name in wanted]
        known = frontiers(version, stored.order, stored.inputs)
        lagging = [n for n in owners if any(known[f.table].lagging for f in stored.plans[n].fragments)]
        self.slots = Slots(parallelism(self.spark())) if lagging else self.slots
        done: dict[str, Future[ViewReport]] = {}
        with ThreadPoolExecutor(min(MOST_THREADS, max(1, len(lagging)))) as pool:
            for (
                name
            ) in lagging:  # inputs first, so that a thread waits only for threads that were started before it
                upstreams = [done[u] for u in _upstream_owners(stored, name) if u in done]
                done[name] = pool.submit(self._bring_after, upstreams, name, stored)
        reports = [
            done[n].result() if n in done else self._report(n, stored, [], 0.0, 0.0, None) for n in owners
        ]
        shown = tuple(r for r in reports if stored.catalog.relations[r.view].kind != "index" or r.error)
        return FlushReport(shown, time.perf_counter() - started)

    def _bring_after(
        self, upstreams: Collection[Future[ViewReport]], name: str, stored: StoredCatalog
    ) -> ViewReport:
        wait(upstreams)
        return self._bring(name, stored)

    def _bring(self, name: str, stored: StoredCatalog) -> ViewReport:
        """Run the fragments of one view or index, inputs first, following another process where it was faster."""
        plan = stored.plans[name]
        done: list[FragmentEpoch] = []
        started = time.perf_counter()
        error: str | None = None
        first_lag = 0.0
        try:
            for fragment in plan.fragments:
                for attempt in range(RACE_ATTEMPTS):
                    version = self.store.refresh()
                    state = frontiers(version, stored.order, stored.inputs)[fragment.table]
                    if not state.pending or state.reach is None:
                        break
                    first_lag = max(first_lag, _waiting_seconds(state))
                    if name not in self.generations:
                        self.generations[name] = self.store.claim(name)
                        version = self.store.version
                    try:
                        done.append(self._run(version, fragment, plan, state.reach))
                        break
                    except (Fenced, Conflict, TableExists):
                        self.generations.pop(name, None)
                        if attempt == RACE_ATTEMPTS - 1:
                            raise
                        time.sleep(random.uniform(0, 0.05 * (attempt + 1)))
        except TidelineError as failure:
            error = str(failure)
        except Exception as failure:  # Spark's own errors: the view stays at its epoch, the others go on
            error = f"{type(failure).__name__}: {_first_lines(failure)}"
        return self._report(name, stored, done, time.perf_counter() - started, first_lag, error)

    def _run(self, version: Version, fragment: Fragment, plan: IncrementalPlan, reach: int) -> FragmentEpoch:
        """Run one epoch of a fragment when there is room: small epochs beside each other, a large one alone."""
        own = version.tables.get(fragment.table)
        rows = rows_in(version, fragment, own.committed_epoch if own is not None else None, reach)
        with self.slots.taken(alone=own is None or rows > SMALL_CHANGE_ROWS):
            return run_fragment(
                self.store,
                version,
                self.spark(),
                fragment,
                plan.dependencies(fragment),
                reach,
                plan.view,
                self.generations[plan.view],
            )

    def _report(
        self,
        name: str,
        stored: StoredCatalog,
        done: list[FragmentEpoch],
        seconds: float,
        lag: float,
        error: str | None,
    ) -> ViewReport:
        version = self.store.version
        plan = stored.plans[name]
        table = version.tables.get(name)
        tables = [version.tables[f.table] for f in plan.fragments if f.table in version.tables]
        last = done[-1] if done else None
        stages: dict[str, float] = {}
        for epoch in done:
            for stage, spent in epoch.seconds.items():
                stages[stage] = stages.get(stage, 0.0) + spent
        committed = table.committed_epoch if table is not None else None
        return ViewReport(
            name,
            committed,
            last.previous if last else committed,
            sum(epoch.rows_in for epoch in done),
            last.inserted if last else 0,
            last.updated if last else 0,
            last.deleted if last else 0,
            seconds,
            stages,
            sum(t.size_bytes for t in tables),
            {upstream: committed for upstream in stored.catalog.relations[name].depends_on if committed},
            lag,
            plan.fragments[-1].rule,
            error,
            not done and error is None,
        )


def _waiting_seconds(state: Frontier) -> float:
    """For how long the oldest change that a table lacks has been waiting."""
    return 0.0 if state.oldest_change is None else max(0.0, time.time() - seconds_of(state.oldest_change))


def _owners_in_order(stored: StoredCatalog) -> list[str]:
    owners = stored.owners
    return list(dict.fromkeys(owners[table] for table in stored.order if table in owners))


def _upstream_owners(stored: StoredCatalog, name: str) -> set[str]:
    plan = stored.plans[name]
    tables = {table for fragment in plan.fragments for table in plan.dependencies(fragment)}
    return {stored.owners[table] for table in tables if table in stored.owners} - {name}


def _with_upstreams(stored: StoredCatalog, views: Collection[str]) -> set[str]:
    wanted: set[str] = set()

    def visit(table: str) -> None:
        owner = stored.owners.get(table)
        if owner is not None and owner not in wanted:
            wanted.add(owner)
            plan = stored.plans[owner]
            for fragment in plan.fragments:
                for upstream in plan.dependencies(fragment):
                    visit(upstream)

    for view in views:
        visit(stored.catalog.get(view).name)
    return wanted


def _first_lines(failure: Exception) -> str:
    lines = [line for line in str(failure).splitlines() if line.strip()]
    return "\n".join(lines[:12])

"""A compactor: looks at every table, claims one that needs work, merges, commits; any number of them, safe to kill."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from engine.errors import Fenced, UnknownTable
from engine.hummock.compaction.execute import run_task
from engine.hummock.compaction.lease import LEASE_SECONDS, grant_lease, is_free, release_lease, require_free
from engine.hummock.compaction.ranges import RangeExecutor
from engine.hummock.compaction.report import CompactionReport, build_report
from engine.hummock.compaction.task import CompactionTask
from engine.hummock.store import Hummock
from engine.hummock.transact import commit_once
from engine.hummock.version import Commit, Version

HEARTBEAT_SECONDS = LEASE_SECONDS / 3


class CompactionWorker:
    """One compactor over an open store; `name` is its claim's, `executor` does its large merges."""

    def __init__(
        self, store: Hummock, name: str | None = None, executor: RangeExecutor | None = None
    ) -> None:
        self.store, self.name = store, name or f"worker-{uuid.uuid4().hex[:12]}"
        self.executor = executor

    def run_once(self, tables: Collection[str] | None = None) -> list[CompactionReport]:
        """Do what every table (or each of `tables`) needs, until none needs anything that is free to take."""
        reports: list[CompactionReport] = []
        while True:
            done = self._run_round(tables)
            reports += done
            if not done:
                return reports

    def run_forever(
        self, stop: threading.Event, idle_seconds: float, tell: Callable[[CompactionReport], None]
    ) -> None:
        """Go on until `stop` is set; look again after `read_idle_timeout` where there was nothing to do."""
        while not stop.is_set():
            done = self._run_round(None)
            for report in done:
                tell(report)
            if not done:
                stop.wait(idle_seconds)

    def _run_round(self, tables: Collection[str] | None) -> list[CompactionReport]:
        version = self.store.refresh()
        names = sorted(version.tables if tables is None else set(tables) & set(version.tables))
        reports = []
        for name in names:
            task = self.store.next_task(name)
            if task is not None and is_free(self.store.version, name, self.name, self.store.clock()):
                report = self._run_task(name, task)
                if report is not None:
                    reports.append(report)
        return reports

    def _run_task(self, name: str, task: CompactionTask) -> CompactionReport | None:
        """Do a task; returns None if another one was faster, or the table is gone."""
        return commit_once(self.store, lambda: self._compact(name, task), Fenced, UnknownTable)

    def _compact(self, name: str, task: CompactionTask) -> CompactionReport:
        started = time.perf_counter()
        if task.move:
            done = run_task(self.store.reader, task)
            self.store.commit_compaction(name, done)
            return build_report(task.table, done, started)
        self._take_lease(name)
        with self._hold_lease(name):
            done = run_task(self.store.reader, task, self.executor)
        self.store.commit_compaction(name, done, release_lease(name))
        return build_report(task.table, done, started)

    def _take_lease(self, name: str) -> Version:
        """Take or renew the claim on a table; raises Conflict if another worker has it."""
        now = self.store.clock()
        free = require_free(name, self.name, now)
        return self.store.commit(Commit(catalog=grant_lease(name, self.name, now), precondition=free))

    @contextmanager
    def _hold_lease(self, name: str) -> Iterator[None]:
        """Renew the claim while the work goes on."""
        over = threading.Event()

        def renew() -> None:
            while not over.wait(HEARTBEAT_SECONDS):
                if commit_once(self.store, lambda: self._take_lease(name)) is None:
                    return

        thread = threading.Thread(target=renew, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

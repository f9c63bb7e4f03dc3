"""A compactor: looks at every table, claims one that needs work, merges, commits; any number of them, safe to kill."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from engine.errors import Conflict, Fenced, UnknownTable
from engine.hummock.compaction.execute import run_task
from engine.hummock.compaction.lease import LEASE_SECONDS, grant_lease, is_free, release_lease, require_free
from engine.hummock.compaction.ranges import RangeExecutor
from engine.hummock.compaction.report import CompactionReport, build_report
from engine.hummock.compaction.task import CompactionTask
from engine.hummock.store import Hummock
from engine.hummock.version import Commit

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
        started, now = time.perf_counter(), self.store.clock()
        try:
            if task.move:
                done = run_task(self.store.reader, task)
                self.store.commit_compaction(name, done)
                return build_report(task.table, done, started)
            precondition = require_free(name, self.name, now)
            self.store.commit(Commit(catalog=grant_lease(name, self.name, now), precondition=precondition))
            with self._hold_lease(name):
                done = run_task(self.store.reader, task, self.executor)
            self.store.commit_compaction(name, done, release_lease(name))
        except (Conflict, Fenced, UnknownTable):
            return None  # another one was faster, or the table is gone
        return build_report(task.table, done, started)

    @contextmanager
    def _hold_lease(self, name: str) -> Iterator[None]:
        """Renew the claim while the work goes on."""
        over = threading.Event()

        def renew() -> None:
            while not over.wait(HEARTBEAT_SECONDS):
                now = self.store.clock()
                try:
                    self.store.commit(
                        Commit(
                            catalog=grant_lease(name, self.name, now),
                            precondition=require_free(name, self.name, now),
                        )
                    )
                except Conflict:
                    return

        thread = threading.Thread(target=renew, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

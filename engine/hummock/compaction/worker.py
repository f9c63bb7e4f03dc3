"""A compactor: looks at every table, claims one that needs work, merges, commits; any number of them, safe to kill."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from engine.errors import Conflict, Fenced, UnknownTable
from engine.hummock.compaction.claim import CLAIM_SECONDS, held, is_free, released, still_free
from engine.hummock.compaction.execute import run_task
from engine.hummock.compaction.ranges import RangeExecutor
from engine.hummock.compaction.report import CompactionReport, report_of
from engine.hummock.compaction.task import CompactionTask
from engine.hummock.store import Hummock
from engine.hummock.version import Commit

HEARTBEAT_SECONDS = CLAIM_SECONDS / 3


class CompactionWorker:
    """One compactor over an open store; `name` is its claim's, `executor` does its large merges."""

    def __init__(
        self, store: Hummock, name: str | None = None, executor: RangeExecutor | None = None
    ) -> None:
        self.store, self.name = store, name or f"worker-{uuid.uuid4().hex[:12]}"
        self.executor = executor

    def once(self, tables: Collection[str] | None = None) -> list[CompactionReport]:
        """Do what every table (or each of `tables`) needs, until none needs anything that is free to take."""
        reports: list[CompactionReport] = []
        while True:
            done = self._round(tables)
            reports += done
            if not done:
                return reports

    def forever(
        self, stop: threading.Event, idle_seconds: float, tell: Callable[[CompactionReport], None]
    ) -> None:
        """Go on until `stop` is set; look again after `idle_seconds` where there was nothing to do."""
        while not stop.is_set():
            done = self._round(None)
            for report in done:
                tell(report)
            if not done:
                stop.wait(idle_seconds)

    def _round(self, tables: Collection[str] | None) -> list[CompactionReport]:
        version = self.store.refresh()
        names = sorted(version.tables if tables is None else set(tables) & set(version.tables))
        reports = []
        for name in names:
            task = self.store.next_task(name)
            if task is not None and is_free(self.store.version, name, self.name, self.store.clock()):
                report = self._do(name, task)
                if report is not None:
                    reports.append(report)
        return reports

    def _do(self, name: str, task: CompactionTask) -> CompactionReport | None:
        started, now = time.perf_counter(), self.store.clock()
        try:
            if task.move:
                done = run_task(self.store.reader, task)
                self.store.commit_compaction(name, done)
                return report_of(task.table, done, started)
            precondition = still_free(name, self.name, now)
            self.store.commit(Commit(catalog=held(name, self.name, now), precondition=precondition))
            with self._heartbeat(name):
                done = run_task(self.store.reader, task, self.executor)
            self.store.commit_compaction(name, done, released(name))
        except (Conflict, Fenced, UnknownTable):
            return None  # another one was faster, or the table is gone
        return report_of(task.table, done, started)

    @contextmanager
    def _heartbeat(self, name: str) -> Iterator[None]:
        """Renew the claim while the work goes on."""
        over = threading.Event()

        def beat() -> None:
            while not over.wait(HEARTBEAT_SECONDS):
                now = self.store.clock()
                try:
                    self.store.commit(
                        Commit(
                            catalog=held(name, self.name, now), precondition=still_free(name, self.name, now)
                        )
                    )
                except Conflict:
                    return

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

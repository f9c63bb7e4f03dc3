"""Work that a store does beside its callers, on one thread: the next piece of a kind waits for the one before."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

LOG = logging.getLogger("tideline.hummock")


class Background:
    """One thread for jobs that nobody waits for; a name that is queued already is not queued again."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._queued: set[str] = set()
        self._last: Future[None] | None = None

    def offer(self, job: str, work: Callable[[], object]) -> None:
        """Run `work` soon unless a job of this name is waiting; what it raises is logged, nobody else would see it."""
        with self._lock:
            if job in self._queued:
                return
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, thread_name_prefix=self._name)
            self._queued.add(job)
            self._last = self._pool.submit(self._run, job, work)

    def drain(self) -> None:
        """Wait for what was offered so far."""
        with self._lock:
            last = self._last
        if last is not None:
            last.result()

    def close(self) -> None:
        """Wait for the job that runs, give up the others, and end the thread."""
        with self._lock:
            pool, self._pool, self._last = self._pool, None, None
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)
            self._queued.clear()

    def run(self, job: str, work: Callable[[], None]) -> None:
        """Run `work` now, in the caller's thread; as of any job, a failure is logged and is not the caller's."""
        self._run(job, work)

    def _run(self, job: str, work: Callable[[], object]) -> None:
        with self._lock:
            self._queued.discard(job)
        try:
            work()
        except Exception as error:
            LOG.warning("%s failed and is tried again when it is due again: %s", job, error)
            LOG.debug("%s", job, exc_info=True)

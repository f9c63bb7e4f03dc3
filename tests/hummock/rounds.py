"""An object store that answers in rounds, so that a test can count how many requests a piece of work waits for in turn."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from engine.hummock.object_store import ObjectStore
from tests.hummock.counting import CountingStore

QUIET_SECONDS = 0.25
"""When so long no request has come, those that wait are answered: nobody sends another one before that."""


class RoundsStore(CountingStore):
    """Counts requests, and within `counted` the rounds in which they come: those of a round wait for none of it."""

    def __init__(self, inner: ObjectStore, quiet_seconds: float = QUIET_SECONDS) -> None:
        super().__init__(inner)
        self.rounds = 0
        self._quiet_seconds, self._holds, self._newest = quiet_seconds, False, 0.0
        self._round = threading.Condition()
        self._waiting: set[int] = set()
        self._working: set[int] = set()

    def now(self) -> float | None:
        return self.inner.now()

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count what is asked for within the block alone."""
        self.reset()
        self.rounds, self._holds = 0, True
        try:
            yield
        finally:
            self._holds = False

    @contextmanager
    def working(self) -> Iterator[None]:
        """End no round within the block, unless that waits for it."""
        me = threading.get_ident()
        with self._round:
            self._working.add(me)
        try:
            yield
        finally:
            with self._round:
                self._working.discard(me)
                self._newest = time.monotonic()

    def _count(self, kind: str, path: str) -> None:
        with self._round:
            super()._count(kind, path)
            if not self._holds:
                return
            mine, self._newest = self.rounds, time.monotonic()
            self._waiting.add(threading.get_ident())
            while self.rounds == mine:
                left = self._newest + self._quiet_seconds - time.monotonic()
                if left > 0 or not self._working <= self._waiting:
                    self._round.wait(max(left, 0.01))
                else:
                    self.rounds += 1
                    self._waiting.clear()
                    self._round.notify_all()

"""Room for epochs in one Spark session: several small ones beside each other, and a large one alone or beside them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext


class Slots:
    """Room for `count` small epochs at the same time, or for one large one: settings of a Spark session are shared.

    With `beside` a large one, which has a session of its own then, takes no more room than a small one.
    """

    def __init__(self, count: int, *, separate_large: bool = False) -> None:
        self.count = max(1, count)
        self.separate_large, self._large = separate_large, threading.Lock()
        self._free = threading.Semaphore(self.count)
        self._lock = threading.Lock()
        self._in_use = 0

    @property
    def busy(self) -> bool:
        """Whether an epoch of a running view holds a slot or waits for one."""
        return self._in_use > 0

    @contextmanager
    def hold(self, alone: bool, building: bool = False) -> Iterator[None]:
        """Hold one slot, or all of them; a step of a backfill, which is `building`, is in nobody's way."""
        need = self.count if alone and not self.separate_large else 1
        self._in_use += not building
        with self._large if alone and self.separate_large else nullcontext():
            with self._lock:  # who waits for all slots is not overtaken
                for _ in range(need):
                    self._free.acquire()
            try:
                yield
            finally:
                self._in_use -= not building
                for _ in range(need):
                    self._free.release()

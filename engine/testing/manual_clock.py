"""A clock that a test moves, so that what waits takes no time and a failure replays from its seed."""

from __future__ import annotations

import random
import threading

from engine.hummock.clock import Clock


class ManualClock(Clock):
    """A clock that moves when it is told to: sleeping takes no time, and its jitter comes from a seed."""

    def __init__(self, seed: int = 0, start: float = 1_800_000_000.0) -> None:
        self._now, self._random = start, random.Random(seed)
        self._lock = threading.Lock()

    def __call__(self) -> float:
        """Return the seconds since 1970 that this clock shows."""
        return self._now

    def monotonic(self) -> float:
        """Return the same."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Move on by `seconds` at once."""
        with self._lock:
            self._now += max(0.0, seconds)

    def jitter(self, most: float) -> float:
        """Return the next random number of seconds of the seed."""
        with self._lock:
            return self._random.uniform(0, most)

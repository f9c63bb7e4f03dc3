"""Time and chance as the engine sees them, so that a test can replace both and a failure replays from its seed."""

from __future__ import annotations

import random
import time


class Clock:
    """The machine's wall clock, a timer that never goes back, sleep, and jitter."""

    def __call__(self) -> float:
        """Return the seconds since 1970."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds that only grow, those in which the machine slept included where it can tell them."""
        return time.clock_gettime(time.CLOCK_BOOTTIME) if _BOOT_TIME else time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def jitter(self, most: float) -> float:
        """Return a random number of seconds from 0 to `most`."""
        return random.uniform(0, most)


_BOOT_TIME = hasattr(time, "CLOCK_BOOTTIME")
system_clock = Clock()

"""When to try again what has failed: the one rule of all retries, from how often it failed and when, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BackOff:
    """Waits of `first` seconds that double with each failure in a row, up to `longest`."""

    first: float
    longest: float

    def find_wait(self, attempts: int) -> float:
        """Return the seconds to wait after so many failures; none after none."""
        return 0.0 if attempts <= 0 else min(self.longest, self.first * 2.0 ** min(attempts - 1, 64))

    def find_retry_time(self, attempts: int, last: float) -> float:
        """Return when to try again what has failed so often, the last time at `last`."""
        return last + self.find_wait(attempts)

    def is_waiting(self, retry_at: float, now: float) -> bool:
        """Tell whether the time to try again is yet to come; one that is farther off than any wait came from a wrong clock."""
        return 0 < retry_at - now <= self.longest

"""When to try again what has failed: one rule, from how often it failed and when, and the memory that goes with it."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class BackOff:
    """Waits of `first` seconds that double with each failure in a row, up to `longest`; `free` failures cost no wait."""

    first: float
    longest: float
    free: int = 0

    def find_wait(self, attempts: int) -> float:
        """Return the seconds to wait after so many failures; none after none."""
        counted = attempts - self.free
        return 0.0 if counted <= 0 else min(self.longest, self.first * 2.0 ** min(counted - 1, 64))

    def scale(self, share: float) -> BackOff:
        """Return the rule with this share of each wait: what failed together does not come back together."""
        return replace(self, first=self.first * share, longest=self.longest * share)


@dataclass(frozen=True)
class Attempts:
    """How often something was tried in vain, the last time at `last`, and hence when it is tried again."""

    rule: BackOff
    count: int = 0
    last: float = 0.0

    @property
    def retry_at(self) -> float:
        """When it is to be tried again."""
        return self.last + self.rule.find_wait(self.count)

    @property
    def text(self) -> str:
        """How often it was tried, in words."""
        return "once" if self.count == 1 else f"{self.count} times"

    def find_wait(self, now: float) -> float:
        """Return the seconds until it is tried again; none where they are more than any wait: a clock was wrong."""
        is_believed = self.last - now <= self.rule.longest - self.rule.find_wait(self.count)
        return max(0.0, self.retry_at - now) if is_believed else 0.0

    def is_waiting(self, now: float) -> bool:
        """Tell whether the time to try again is yet to come."""
        return self.find_wait(now) > 0

    def add(self, now: float) -> Attempts:
        """Return the attempts with one more."""
        return replace(self, count=self.count + 1, last=now)

    def forget(self) -> Attempts:
        """Return no attempts, of which the next begins anew."""
        return Attempts(self.rule)


class AttemptLog:
    """Remembers the attempts at one piece of work; another digest of it is other work, which waits for nothing."""

    def __init__(self, rule: BackOff) -> None:
        self._work, self._attempts = "", Attempts(rule)

    def is_due(self, work: str, now: float) -> bool:
        """Tell whether work is to be tried: it is other work than the last time, or its wait is over."""
        return work != self._work or not self._attempts.is_waiting(now)

    def record(self, work: str, now: float) -> None:
        """Note that work was tried."""
        known = self._attempts if work == self._work else self._attempts.forget()
        self._work, self._attempts = work, known.add(now)

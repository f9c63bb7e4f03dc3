"""How large the next step of a backfill is, and how long to rest before it: by the time steps take, and by the rate limit."""

from __future__ import annotations

from dataclasses import dataclass

from engine.hummock.reads.merge import HASHES

SMALLEST_STEP, LARGEST_STEP = 5_000, 500_000
STEP_SECONDS = 1.0
AWAITED_STEP, LARGEST_AWAITED_STEP = 4_000_000, 8_000_000
AWAITED_SECONDS = 20.0
"""Of a build that somebody waits for: each step reads the other inputs and groups again, so few large ones cost least."""
LEFT_OVER = 0.75
"""What a step leaves over goes with it, if it is less than this share of the step."""
MOST_STEPS = 10_000
HALVING_HELPS = 0.75
"""A step of half the rows helped if it took less than this share of the time."""


@dataclass
class Pace:
    """The step size of one running backfill; `most` caps it while running views want the machine."""

    rows: int = 50_000
    largest: int = LARGEST_STEP
    seconds: float = STEP_SECONDS
    is_awaited: bool = False
    _before_halving: float | None = None

    @classmethod
    def for_waiting_user(cls) -> Pace:
        """Return the pace of a build that somebody waits for."""
        return cls(AWAITED_STEP, LARGEST_AWAITED_STEP, AWAITED_SECONDS, True)

    def choose_next_rows(self, total: int, most: int, limit: int | None) -> int:
        """Return the rows of the next step, given the table's rows and the rate limit in rows a second."""
        rows = min(self.rows, most)
        if limit is not None:
            rows = min(rows, max(1, limit))
        return max(rows, total // MOST_STEPS, 1)

    def compute_span(self, rows: int, total: int, left: int) -> int:
        """Return how many of the `left` hashes the next `rows` of a table's `total` are; all, if little would be left over."""
        span = max(1, HASHES * rows // max(total, 1))
        unbound = self.is_awaited and rows == self.rows
        if span >= left or (unbound and left - span < span * LEFT_OVER):
            return left
        return span

    def adjust(self, rows: int, seconds: float) -> None:
        """Learn from a step: larger ones where it was quick, smaller ones where it held the machine for long.

        Where half the rows took as long, it is not the rows that take the time (a busy machine, a large state): larger again.
        """
        before, self._before_halving = self._before_halving, None
        if seconds < self.seconds / 2 and rows >= self.rows // 2:
            self.rows = min(self.largest, self.rows * 2)
        elif seconds > self.seconds * 2 and before is not None and seconds > before * HALVING_HELPS:
            self.rows = min(self.largest, self.rows * 4)
        elif seconds > self.seconds * 2 and self.rows > SMALLEST_STEP:
            self.rows, self._before_halving = max(SMALLEST_STEP, self.rows // 2), seconds


def limit_step_rows(total: int) -> int:
    """Return the rows of a step at most where nobody waits for the end: a crash then costs a hundredth of what is to be read."""
    return min(LARGEST_STEP, max(100_000, total // 100))


def compute_rest(rows: int, seconds: float, limit: int | None) -> float:
    """Return how long to rest after a step of `rows` that took `seconds`, so that no more than `limit` rows a second are read."""
    return 0.0 if limit is None or limit <= 0 else max(0.0, rows / limit - seconds)

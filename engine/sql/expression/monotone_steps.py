"""Steps from one number to another that never turn an order round: what is done to a time between a column and a window.

Numbers are microseconds of timestamps, days of dates, and whole numbers themselves, all since 1970 where they are times.

>>> hour = MonotoneStep("floor", 3_600_000_000)
>>> apply_steps((MonotoneStep("shift", -60_000_000), hour), 7_230_000_000)
3600000000
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np

_DAY = 86_400_000_000


class MonotoneStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step: `shift` adds `by`, `times` multiplies by it, `floor` goes down to a multiple of it beside `origin`.

    `divide` goes down to a whole number of it, and `month` to the first of as many months, of a time in microseconds.
    """

    kind: Literal["shift", "times", "floor", "divide", "month"]
    by: int
    origin: int = 0

    def apply(self, number: int) -> int:
        """Return what a number becomes."""
        match self.kind:
            case "shift":
                return number + self.by
            case "times":
                return number * self.by
            case "floor":
                return number - (number - self.origin) % self.by
            case "divide":
                return number // self.by
            case "month":
                return _truncate_to_months(number, self.by)


def apply_steps(steps: Sequence[MonotoneStep], number: int) -> int:
    """Return what a number becomes by steps, one after the other."""
    for step in steps:
        number = step.apply(number)
    return number


def measure_coarseness(steps: Sequence[MonotoneStep]) -> int:
    """Return about how far steps go down, for comparing those of one column: none are the finest."""
    lengths = {"floor": 1, "divide": 1, "month": 31 * 86_400_000_000}
    return sum(step.by * lengths.get(step.kind, 0) for step in steps)


def _truncate_to_months(micros: int, months: int) -> int:
    """Return the first moment of a time's month, or of the months that are counted from year 0; of any year."""
    since = int(np.datetime64(micros // _DAY, "D").astype("datetime64[M]").astype(np.int64)) + 1970 * 12
    first = np.datetime64(since // months * months - 1970 * 12, "M")
    return int(first.astype("datetime64[D]").astype(np.int64)) * _DAY

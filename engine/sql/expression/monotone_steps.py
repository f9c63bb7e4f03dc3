"""Steps from one number to another that never turn an order round: what is done to a time between a column and a window.

Numbers are microseconds of timestamps, days of dates, and whole numbers themselves, all since 1970 where they are times. What is
no whole number, a decimal or a DOUBLE, becomes one by the first step.

>>> hour = MonotoneStep("floor", 3_600_000_000)
>>> apply_steps((MonotoneStep("shift", -60_000_000), hour), 7_230_000_000)
3600000000
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Literal

import msgspec
import numpy as np

_DAY = 86_400_000_000
LEAST, GREATEST = -(1 << 63), (1 << 63) - 1
Number = int | float | Decimal


class MonotoneStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step: `shift` adds `by`, `times` multiplies by it, `floor` goes down to a multiple of it beside `origin`.

    `divide` goes down to a whole number of it, and `month` to the first of as many months, of a time in microseconds. `down` and
    `up` give the whole number of units of 10^-`by` that is next to any number and not above or below it.
    """

    kind: Literal["shift", "times", "floor", "divide", "month", "down", "up"]
    by: int
    origin: int = 0

    @property
    def rounds(self) -> bool:
        """Whether it makes a whole number of any number."""
        return self.kind in ("down", "up")

    def apply(self, number: Number) -> int:
        """Return what a number becomes."""
        if self.rounds:
            return _round_number(number, self.by, up=self.kind == "up")
        assert isinstance(number, int), f"{number!r} is no whole number"
        match self.kind:
            case "shift":
                return number + self.by
            case "times":
                return number * self.by
            case "floor":
                return number - (number - self.origin) % self.by
            case "divide":
                return number // self.by
            case _:
                return _truncate_to_months(number, self.by)


def apply_steps(steps: Sequence[MonotoneStep], number: Number) -> int:
    """Return what a number becomes by steps, one after the other."""
    for step in steps:
        number = step.apply(number)
    assert isinstance(number, int), f"{number!r} is no whole number"
    return number


def _round_number(number: Number, scale: int, *, up: bool) -> int:
    """Return the least number of units that is not below a number, or the greatest that is not above it.

    It is one of 64 bits, or the one beyond these. A DOUBLE is compared with a number of units as Spark does, as a DOUBLE; NaN is
    greater than all others.
    """
    if isinstance(number, float):
        if math.isnan(number):
            return GREATEST + 1 if up else GREATEST
        if up:
            return _find_least(lambda units: _as_double(units, scale) >= number)
        return _find_least(lambda units: _as_double(units, scale) > number) - 1
    exact = Fraction(number) * 10**scale
    units: int = math.ceil(exact) if up else math.floor(exact)
    return max(LEAST, min(units, GREATEST + 1)) if up else max(LEAST - 1, min(units, GREATEST))


def _as_double(units: int, scale: int) -> float:
    return float(units) if not scale else float(Decimal(units).scaleb(-scale))


def _find_least(holds: Callable[[int], bool]) -> int:
    """Return the least number of 64 bits for which something holds that goes on to hold, the one beyond them if there is none."""
    low, high = LEAST, GREATEST + 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def measure_coarseness(steps: Sequence[MonotoneStep]) -> int:
    """Return about how far steps go down, for comparing those of one column: none are the finest."""
    lengths = {"floor": 1, "divide": 1, "month": 31 * 86_400_000_000}
    return sum(step.by * lengths.get(step.kind, 0) for step in steps)


def _truncate_to_months(micros: int, months: int) -> int:
    """Return the first moment of a time's month, or of the months that are counted from year 0; of any year."""
    since = int(np.datetime64(micros // _DAY, "D").astype("datetime64[M]").astype(np.int64)) + 1970 * 12
    first = np.datetime64(since // months * months - 1970 * 12, "M")
    return int(first.astype("datetime64[D]").astype(np.int64)) * _DAY

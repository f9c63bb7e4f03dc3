"""Steps between numbers hold for times of all years that a type has."""

from __future__ import annotations

import datetime
import random

import pytest

from engine.sql.expression.monotone_steps import MonotoneStep, apply_steps

EPOCH = datetime.datetime(1970, 1, 1)
MICROSECOND = datetime.timedelta(microseconds=1)


@pytest.mark.parametrize("months", [1, 3, 12])
def test_months_of_pythons_years_begin_where_python_says(months: int) -> None:
    chance = random.Random(months)
    least, most = (
        (at - EPOCH) // MICROSECOND for at in (datetime.datetime(1, 12, 31), datetime.datetime.max)
    )
    for _ in range(500):
        number = chance.randint(least, most)
        at = EPOCH + number * MICROSECOND
        first = at.year * 12 + at.month - 1
        first -= first % months
        begins = datetime.datetime(max(1, first // 12), first % 12 + 1, 1)
        assert apply_steps([MonotoneStep("month", months)], number) == (begins - EPOCH) // MICROSECOND


@pytest.mark.parametrize("months", [1, 3, 12])
def test_months_of_any_year_rise_and_are_not_above(months: int) -> None:
    step, span = MonotoneStep("month", months), months * 31 * 86_400_000_000
    for number in (-(2**63), -62_135_596_800_000_001, 253_402_300_800_000_000, 2**63 - 1):
        begins = step.apply(number)
        assert number - span < begins <= number and step.apply(begins) == begins
        assert step.apply(begins - 1) < begins

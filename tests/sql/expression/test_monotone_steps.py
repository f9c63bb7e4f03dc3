"""Steps between numbers hold for times of all years that a type has, and for numbers of all types."""

from __future__ import annotations

import datetime
import math
import random
from decimal import Decimal
from fractions import Fraction

import pytest

from engine.sql.expression.monotone_steps import GREATEST, LEAST, MonotoneStep, Number, apply_steps

EPOCH = datetime.datetime(1970, 1, 1)
MICROSECOND = datetime.timedelta(microseconds=1)
ENDS = (LEAST, LEAST + 1, -(2**53) - 1, -1, 0, 1, 2**53 + 1, GREATEST - 1, GREATEST)


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


def is_below(units: int, scale: int, number: Number) -> bool:
    """Tell whether so many units are below a number, to Spark."""
    if isinstance(number, float):
        return math.isnan(number) or float(Decimal(units).scaleb(-scale)) < number
    return Fraction(units, 10**scale) < Fraction(number)


def is_equal(units: int, scale: int, number: Number) -> bool:
    if isinstance(number, float):
        return float(Decimal(units).scaleb(-scale)) == number
    return Fraction(units, 10**scale) == Fraction(number)


def draw_number(chance: random.Random) -> Number:
    match chance.randrange(5):
        case 0:
            return chance.choice(ENDS) + chance.randrange(-3, 4)
        case 1:
            return Decimal(chance.randrange(-(10**38), 10**38)).scaleb(-chance.randrange(39))
        case 2:
            return Decimal(chance.randrange(-1000, 1000)).scaleb(-3)
        case 3:
            return float(chance.choice(ENDS)) + chance.choice([0.0, 0.5, -0.5, 1024.0])
        case _:
            return chance.choice(
                [math.nan, math.inf, -math.inf, -0.0, 1e300, -1e300, 5e-324, chance.uniform(-9, 9)]
            )


@pytest.mark.parametrize("scale", [0, 2, 18])
def test_units_next_to_a_number_part_what_is_below_it_from_what_is_above(scale: int) -> None:
    chance = random.Random(scale)
    for _ in range(400):
        number = draw_number(chance)
        down, up = (MonotoneStep(kind, scale).apply(number) for kind in ("down", "up"))
        assert LEAST - 1 <= down <= GREATEST and LEAST <= up <= GREATEST + 1
        for units in {*ENDS, *range(down - 2, down + 3), *range(up - 2, up + 3)}:
            if LEAST <= units <= GREATEST:
                below, equal = is_below(units, scale, number), is_equal(units, scale, number)
                assert (units <= down) == (below or equal), (units, number)
                assert (units < up) == below, (units, number)


def test_other_steps_take_whole_numbers_alone() -> None:
    with pytest.raises(AssertionError, match="no whole number"):
        MonotoneStep("shift", 1).apply(1.5)

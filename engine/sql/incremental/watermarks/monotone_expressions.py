"""Expressions that rise with one of their columns, read as steps: the bounds of windows, date_trunc, casts and sums.

`ts - INTERVAL '1' HOUR` -> (ts, micros, shift -3,600,000,000). What is not known to rise is None, which is always right.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import msgspec

from engine.sql.expression.monotone_steps import MonotoneStep
from engine.sql.expression.nodes import Arithmetic, Call, Cast, Column, Expr, Interval, Unary, map_children
from engine.sql.expression.nodes import Literal as Constant
from engine.sql.expression.null_on_error import OPERATORS
from engine.sql.typing.intervals import parse_interval
from engine.sql.typing.whole_numbers import INTEGRAL

Unit = Literal["micros", "days", "ones"]
"""What the numbers of a column are: microseconds of a timestamp, days of a date, or whole numbers."""
DAY = 86_400_000_000
_UNITS: Mapping[str, MonotoneStep] = {
    "MICROSECOND": MonotoneStep("floor", 1),
    "MILLISECOND": MonotoneStep("floor", 1_000),
    "SECOND": MonotoneStep("floor", 1_000_000),
    "MINUTE": MonotoneStep("floor", 60_000_000),
    "HOUR": MonotoneStep("floor", 3_600_000_000),
    "DAY": MonotoneStep("floor", DAY),
    "WEEK": MonotoneStep("floor", 7 * DAY, 4 * DAY),
    "MONTH": MonotoneStep("month", 1),
    "QUARTER": MonotoneStep("month", 3),
    "YEAR": MonotoneStep("month", 12),
}
_TRIED = {function: operator for operator, function in OPERATORS.items()}


class RisingValue(NamedTuple):
    """A value that never falls as `column` rises: the steps from the column's number to its own, and the unit of that."""

    column: str
    unit: Unit
    steps: tuple[MonotoneStep, ...] = ()

    def add_steps(self, *steps: MonotoneStep, unit: Unit | None = None) -> RisingValue:
        """Return the value after further steps."""
        return RisingValue(self.column, unit or self.unit, (*self.steps, *steps))


def find_unit(kind: str) -> Unit | None:
    """Return the unit of a Spark type's numbers, None for a type that has none."""
    if kind.startswith("timestamp"):
        return "micros"
    return "days" if kind == "date" else "ones" if kind in INTEGRAL else None


def match_rising(expr: Expr, units: Mapping[str, Unit]) -> RisingValue | None:
    """Return the steps by which an expression rises with one of the columns in `units`, or None."""
    return _match_rising(_strip_try(expr), units)


def _strip_try(expr: Expr) -> Expr:
    """Return an expression with plain operators for those that give null where they fail."""
    expr = map_children(expr, _strip_try)
    if isinstance(expr, Call) and expr.function in _TRIED and len(expr.arguments) == 2:
        return Arithmetic(_TRIED[expr.function], expr.arguments)
    if isinstance(expr, Call) and expr.function == "try_to_date":
        return msgspec.structs.replace(expr, function="to_date")
    return expr


def _match_rising(expr: Expr, units: Mapping[str, Unit]) -> RisingValue | None:
    match expr:
        case Column(name=name):
            return RisingValue(name, units[name]) if name in units else None
        case Cast(value=value, to=kind):
            below = _match_rising(value, units)
            return None if below is None else _cast_value(below, find_unit(kind))
        case Call(function="unix_micros", arguments=(value,)):
            found = _as_micros(_match_rising(value, units))
            return None if found is None else found.add_steps(unit="ones")
        case Call(function="unix_date", arguments=(value,)):
            below = _match_rising(value, units)
            return below.add_steps(unit="ones") if below is not None and below.unit == "days" else None
        case Call(function="to_date" | "date", arguments=(value,)):
            below = _match_rising(value, units)
            return None if below is None else _cast_value(below, "days")
        case Call(function="date_trunc", arguments=(Constant(text=unit), value)) if unit.upper() in _UNITS:
            found = _as_micros(_match_rising(value, units))
            return None if found is None else found.add_steps(_UNITS[unit.upper()])
        case Call(function="date_add" | "date_sub" as name, arguments=(value, days)):
            return _shift_value(
                _match_rising(value, units), _parse_number(days), 1 if name == "date_add" else -1, "days"
            )
        case Arithmetic(operator="-", operands=(value, Arithmetic(operator="*", operands=(span, past)))):
            return _match_window_start(value, span, past, units)
        case Arithmetic(operator="+" | "-" as sign, operands=(value, *others)):
            found = _match_rising(value, units)
            for other in others:
                found = _add_constant(found, other, 1 if sign == "+" else -1)
            return found
    return None


def match_first_item(array: Expr, units: Mapping[str, Unit]) -> RisingValue | None:
    """Return the least element of an array of times, which are those of windows, or None."""
    if isinstance(array, Call) and array.function == "sequence" and len(array.arguments) == 3:
        return match_rising(array.arguments[0], units)
    return None


def _cast_value(value: RisingValue, unit: Unit | None) -> RisingValue | None:
    if unit == value.unit:
        return value
    if unit == "micros" and value.unit == "days":
        return _as_micros(value)
    if unit == "days" and value.unit == "micros":
        return value.add_steps(MonotoneStep("divide", DAY), unit="days")
    return None


def _as_micros(value: RisingValue | None) -> RisingValue | None:
    if value is None or value.unit == "ones":
        return None
    return value if value.unit == "micros" else value.add_steps(MonotoneStep("times", DAY), unit="micros")


def _shift_value(value: RisingValue | None, by: int | None, sign: int, unit: Unit) -> RisingValue | None:
    if value is None or by is None or value.unit != unit:
        return None
    return value.add_steps(MonotoneStep("shift", sign * by))


def _add_constant(value: RisingValue | None, other: Expr, sign: int) -> RisingValue | None:
    """Return a value with a constant added; a date and an interval are not taken, as Spark's type follows the interval."""
    if value is None or value.unit == "micros":
        return _shift_value(value, _parse_micros(other), sign, "micros")
    return _shift_value(value, _parse_number(other), sign, value.unit)


def _match_window_start(value: Expr, span: Expr, past: Expr, units: Mapping[str, Unit]) -> RisingValue | None:
    """`ts - µs * pmod(unix_micros(ts) - offset, slide)` -> floor; a constant beside pmod is a shift."""
    found, less = _as_micros(_match_rising(value, units)), 0
    if found is None or _parse_micros(span) != 1:
        return None
    if isinstance(past, Arithmetic) and past.operator == "+" and len(past.operands) == 2:
        shift = _parse_number(past.operands[1])
        if shift is None:
            return None
        past, less = past.operands[0], shift
    if not isinstance(past, Call) or past.function != "pmod" or len(past.arguments) != 2:
        return None
    inner, slide = _match_rising(past.arguments[0], units), _parse_number(past.arguments[1])
    if inner is None or slide is None or slide < 1 or inner.column != found.column:
        return None
    moved = inner.steps[len(found.steps) :]
    if inner.steps[: len(found.steps)] != found.steps or any(step.kind != "shift" for step in moved):
        return None
    floor = MonotoneStep("floor", slide, -sum(step.by for step in moved))
    return found.add_steps(floor, *((MonotoneStep("shift", -less),) if less else ()))


def _parse_micros(expr: Expr) -> int | None:
    """Return the length of an interval of days and less, written as such."""
    if not isinstance(expr, Interval) or not isinstance(expr.amount, Constant):
        return None
    unit = expr.unit.upper()
    standard = unit == "DAY TO SECOND"
    text = expr.amount.text if standard or not unit else f"{expr.amount.text} {unit}"
    span = parse_interval(text, standard=standard)
    return None if span is None else (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds


def _parse_number(expr: Expr) -> int | None:
    match expr:
        case Constant(text=text, kind=kind) if kind != "string" and text.isdigit():
            return int(text)
        case Unary(operator="-", value=value):
            inner = _parse_number(value)
            return None if inner is None else -inner
        case Arithmetic(operator="*", operands=(left, right)):
            one, other = _parse_number(left), _parse_number(right)
            return None if one is None or other is None else one * other
    return None

"""Intervals with months: no fixed length, but exact beside dates and timestamps, by Spark's own arithmetic of months.

Months are added first and end with their month, then days, then what is shorter: in PostgreSQL and in Spark alike.
"""

from __future__ import annotations

from datetime import timedelta

import sqlglot.expressions as exp

from engine.sql.dialects.postgres.strings.patterns import Untranslatable
from engine.sql.dialects.postgres.terms import build_call
from engine.sql.typing.intervals import (
    build_day_time_literal,
    evaluate_interval,
    is_interval,
    parse_calendar_interval,
)

_UNITS = ("YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
_PARTS = ("year", "month", "week", "day", "hour", "minute", "second")


def translate_interval(node: exp.Expr) -> exp.Expr | None:
    """Return an interval that is written out as Spark says it, None for any other expression.

    `INTERVAL '02:00'` -> `INTERVAL '0 02:00:00.000000' DAY TO SECOND`; `INTERVAL '1 month 2 days'` ->
    `make_interval(0, 1, 0, 2, 0, 0, 0)`. Raises NotSaid for a text that is no interval.
    """
    if isinstance(node, exp.MakeInterval):
        return _translate_make_interval(node)
    plain = isinstance(node, exp.Interval) and node.args.get("unit") is None
    if isinstance(node, exp.Interval) and not plain:
        return _translate_unit(node)
    if not plain and not (isinstance(node, exp.Cast) and is_interval(node.to)):
        return None
    span = evaluate_interval(node)
    if span is not None:
        return build_day_time_literal(span)
    if not isinstance(node.this, exp.Literal) or not node.this.is_string:
        return None
    return parse_interval(node.this.name)


def _translate_unit(node: exp.Interval) -> exp.Expr | None:
    """Return an interval of one unit that Spark has no word for, or of a fraction; None for one that it reads."""
    amount, unit = node.this, node.args["unit"]
    if not isinstance(unit, exp.Var) or not isinstance(amount, exp.Literal):
        return None
    if unit.name.upper().removesuffix("S") in _UNITS and "." not in amount.name:
        return None
    return parse_interval(f"{amount.name} {unit.name}")


def parse_interval(text: str) -> exp.Expr:
    """Return the interval that a text says, as Spark has it; raises NotSaid for a text that is none."""
    found = parse_calendar_interval(text)
    if found is None:
        raise Untranslatable(f"the interval '{text}'", "write it as '1 month 2 days 03:04:05'")
    months, rest = found
    if not months:
        return build_day_time_literal(rest)
    if not rest:
        return exp.Interval(this=exp.Literal.string(str(months)), unit=exp.Var(this="MONTH"))
    sign = -1 if rest < timedelta() else 1
    seconds, micros = divmod(abs(rest) // timedelta(microseconds=1), 1_000_000)
    days, seconds = divmod(seconds, 86_400)
    literal: exp.Expr = exp.Literal.number(f"{seconds}.{micros:06}")
    literal = exp.Neg(this=literal) if sign < 0 else literal
    return build_call("make_interval", 0, months, 0, sign * days, 0, 0, literal)


def _translate_make_interval(node: exp.MakeInterval) -> exp.Expr:
    """`make_interval(months => i)` -> `make_interval(0, i, 0, 0, 0, 0, 0)`"""
    parts: dict[str, exp.Expr] = {}
    for name in _PARTS:
        part = node.args.get(name)
        if isinstance(part, exp.Kwarg):
            unit = part.this.name.lower().rstrip("s").replace("min", "minute").replace("sec", "second")
            parts[unit.replace("minuteute", "minute").replace("secondond", "second")] = part.expression
        elif part is not None:
            parts[name] = part
    return build_call("make_interval", *(parts.get(name, 0) for name in _PARTS))

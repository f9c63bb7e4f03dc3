"""Conditions on now(): each becomes a bound of the moment, which a row passes once and never again.

`ts > now() - INTERVAL '1' HOUR` -> `moment < unix_micros(ts + INTERVAL '1' HOUR)`. What is done to now() has to be monotone; it
is undone on the other side, step by step, from the outside to now() itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import sqlglot.expressions as exp

from engine.errors import UnsupportedSql
from engine.sql.expression.clock import CLOCK_CALLS, DATE_CALLS, MOMENT
from engine.sql.expression.nodes import Call, Cast, Comparison, Expr, Interval, annotate, walk
from engine.sql.expression.template import combine_conditions, fill_template
from engine.sql.functions import find_function_name
from engine.sql.parsing.comparisons import FLIPPED, NEGATED
from engine.sql.typing.expression_types import get_expr_type
from engine.sql.typing.whole_numbers import INTEGRAL

Bind = Callable[[exp.Expr], Expr]
Refuse = Callable[[str, exp.Expr | None, str], UnsupportedSql]

ONE_SIDE = "write now() on one side of <, <=, >, >= or BETWEEN, in a condition of its own: ts > now() - INTERVAL '1' HOUR"
_BOUNDS = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.EQ)
_STEPS = {
    "MICROSECOND": "INTERVAL '1' MICROSECOND",
    "MILLISECOND": "INTERVAL '1' MILLISECOND",
    "SECOND": "INTERVAL '1' SECOND",
    "MINUTE": "INTERVAL '1' MINUTE",
    "HOUR": "INTERVAL '1' HOUR",
    "DAY": "INTERVAL '1' DAY",
    "WEEK": "INTERVAL '7' DAY",
    "MONTH": "INTERVAL '1' MONTH",
    "QUARTER": "INTERVAL '3' MONTH",
    "YEAR": "INTERVAL '1' YEAR",
}
"""The units of date_trunc, each with its length; those from MONTH on are of whole months."""
_OF_MONTHS = ("MONTH", "QUARTER", "YEAR")
_MADE = ("make_interval", "make_ym_interval")
_SHORT = {"D": "DAY", "DD": "DAY", "MON": "MONTH", "MM": "MONTH", "YYYY": "YEAR", "YY": "YEAR"}
_MOMENTS = (exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPLTZ, exp.DataType.Type.TIMESTAMPTZ)
_PLAIN = (exp.DataType.Type.TIMESTAMPNTZ, exp.DataType.Type.DATETIME)
_COMPARABLE = ("timestamp", "timestamp_ntz", "date")


class ClockConditionBinder:
    """Binds the conditions of one clause that compare a row's time with now(); `bind` binds what has no now() in it."""

    def __init__(self, bind: Bind, refuse: Refuse, types: Mapping[str, str]) -> None:
        self._bind, self._refuse, self._types = bind, refuse, types

    def bind_condition(self, node: exp.Expr) -> Expr | None:
        """Return a condition as bounds of the moment, None if it is no comparison with now().

        Raises UnsupportedSql, with the place, for a comparison whose side with now() is not monotone.
        """
        node = node.unnest()
        if isinstance(node, exp.Not) and type(node.this.unnest()) in _BOUNDS[:4] and has_clock(node):
            turned = node.this.unnest()
            return self._bind_comparison(NEGATED[type(turned)], turned.this, turned.expression, node)
        if isinstance(node, exp.Between) and not node.args.get("symmetric"):
            if not has_clock(node):
                return None
            low = self._bind_comparison(exp.GTE, node.this, node.args["low"], node)
            high = self._bind_comparison(exp.LTE, node.this, node.args["high"], node)
            return combine_conditions(low, high)
        if type(node) not in _BOUNDS or not has_clock(node):
            return None
        return self._bind_comparison(type(node), node.this, node.expression, node)

    def _bind_comparison(self, kind: type[exp.Expr], left: exp.Expr, right: exp.Expr, node: exp.Expr) -> Expr:
        """Return a comparison as a bound, as what it is where now() stands on no side of it."""
        if has_clock(left) and has_clock(right):
            raise self._refuse(f"{node.sql()} with now() on both sides", node, ONE_SIDE)
        if not has_clock(left) and not has_clock(right):
            return self._bind(kind(this=left.copy(), expression=right.copy()))
        if has_clock(right):
            left, right, kind = right, left, FLIPPED[kind]
        value, clock = self._bind(right), left.unnest()
        if isinstance(clock, exp.Sub) and has_clock(clock.expression) and not has_clock(clock.this):
            # c - f < x  ->  f > c - x
            value = fill_template(":c - :x", c=self._bind(clock.this), x=value)
            clock, kind = clock.expression.unnest(), FLIPPED[kind]
        else:
            self._check_kind(right, value, clock)
        at = value.position

        def build_bound(operator: str, after: bool) -> Expr:
            reached = self._find_first_moment(clock, value, after)
            return annotate(Comparison(operator, MOMENT, reached), type="boolean", position=at)

        if kind is exp.EQ:
            return combine_conditions(build_bound(">=", False), build_bound("<", True))
        if kind in (exp.GT, exp.GTE):
            return build_bound(">=", kind is exp.GT)
        return build_bound("<", kind is exp.LTE)

    def _check_kind(self, node: exp.Expr, value: Expr, clock: exp.Expr) -> None:
        kind = get_expr_type(value, self._types)
        is_difference = isinstance(clock, exp.Sub) and not _is_span(clock.expression)
        if kind is None or kind in _COMPARABLE or is_difference:
            return
        hint = "compare a timestamp or a date: timestamp_millis(n), to_timestamp(text) or CAST make one"
        raise self._refuse(f"now() beside {node.sql()}, which is {kind},", node, hint)

    def _find_first_moment(self, node: exp.Expr, value: Expr, after: bool) -> Expr:
        """Return the first moment, in microseconds, at which `node` is at least `value`, or with `after` greater."""
        node = node.unnest()
        if (name := find_function_name(node)) in CLOCK_CALLS | DATE_CALLS and not _has_arguments(node):
            if name in DATE_CALLS:
                value, after = _round_up(value, "DAY", after), False
            micros = fill_template("unix_micros(CAST(:x AS TIMESTAMP))", x=value)
            return fill_template(":x + 1L", x=micros) if after else micros
        match node:
            case exp.Cast() if node.to.this == exp.DataType.Type.DATE:
                return self._find_first_moment(node.this, _round_up(value, "DAY", after), False)
            case exp.TsOrDsToDate() if node.args.get("format") is None:
                return self._find_first_moment(node.this, _round_up(value, "DAY", after), False)
            case exp.Cast() if node.to.this in (*_MOMENTS, *_PLAIN):
                return self._find_first_moment(node.this, value, after)
            case exp.TimestampTrunc() | exp.DateTrunc() if node.args.get("zone") is None:
                unit = self._require_unit(node)
                return self._find_first_moment(node.this, _round_up(value, unit, after), False)
            case exp.Add() | exp.Sub():
                return self._invert_shift(node, value, after)
            case exp.TsOrDsAdd() if str(node.args.get("unit") or "DAY").upper() == "DAY":
                days = fill_template("make_dt_interval(CAST(:n AS INT))", n=self._bind(node.expression))
                moved = fill_template("CAST(:x AS TIMESTAMP) - :c", x=value, c=days)
                if not _is_date(node.this):
                    moved, after = _round_up(moved, "DAY", after), False
                return self._find_first_moment(node.this, moved, after)
        what = f"{node.sql()}, from which now() cannot be freed,"
        hint = "use now() plus or less an interval, date_trunc of it, or CAST it as DATE, and compare a column with that"
        raise self._refuse(what, node, hint)

    def _invert_shift(self, node: exp.Expr, value: Expr, after: bool) -> Expr:
        """Undo the sum of now() and something that has no now() in it."""
        plus, (moment, other) = isinstance(node, exp.Add), (node.this, node.expression)
        if plus and has_clock(other):
            moment, other = other, moment
        if has_clock(other):
            raise self._refuse(f"{node.sql()} with now() twice", node, ONE_SIDE)
        span = self._bind(other)
        kind = get_expr_type(span, self._types)
        if kind in INTEGRAL or isinstance(other.unnest(), exp.Literal):
            if not _is_date(moment):
                hint = "add an interval: INTERVAL '1' DAY"
                raise self._refuse(f"{node.sql()}, a number beside a moment,", node, hint)
            span = fill_template("make_dt_interval(CAST(:n AS INT))", n=span)
            value = fill_template("CAST(:x AS TIMESTAMP)", x=value)
        elif kind == "date" and get_expr_type(value, self._types) in INTEGRAL:
            return self._find_first_moment(
                moment, fill_template("date_add(:c, CAST(:x AS INT))", c=span, x=value), after
            )
        elif _has_months(span):
            if not (_is_months(span) and self._is_month_start(moment)):
                what = f"{node.sql()}, as months differ in length,"
                hint = "write days, or add the months to the column: now() < ts + INTERVAL '1' MONTH"
                raise self._refuse(what, node, hint)
            value, after = _round_up(value, "MONTH", after), False
        text = ":x - :c" if plus else ":x + :c"
        return self._find_first_moment(moment, fill_template(text, x=value, c=span), after)

    def _is_month_start(self, node: exp.Expr) -> bool:
        """Tell whether an expression of now() is the beginning of a month, whatever the moment."""
        node = node.unnest()
        if isinstance(node, exp.Add | exp.Sub) and not has_clock(node.expression):
            return _is_months(self._bind(node.expression)) and self._is_month_start(node.this)
        return _find_unit(node) in _OF_MONTHS

    def _require_unit(self, node: exp.Expr) -> str:
        unit = _find_unit(node)
        if unit is None:
            what = f"date_trunc of now() to {node.args['unit'].name.lower()}"
            raise self._refuse(what, node, f"the units are {', '.join(_STEPS).lower()}")
        return unit


def is_comparison(node: exp.Expr) -> bool:
    """Tell whether a condition compares something with now()."""
    node = node.unnest()
    node = node.this.unnest() if isinstance(node, exp.Not) else node
    return isinstance(node, exp.Between | exp.LT | exp.LTE | exp.GT | exp.GTE | exp.EQ) and has_clock(node)


def has_clock(node: exp.Expr) -> bool:
    """Tell whether now() or one of its like stands in an expression, outside of its subqueries."""
    parts = node.walk(prune=lambda part: isinstance(part, exp.Query))
    return any(find_function_name(part) in CLOCK_CALLS | DATE_CALLS for part in parts)


def _round_up(value: Expr, unit: str, after: bool) -> Expr:
    """Return the first whole `unit` at or after a value, or with `after` the first that is greater."""
    start, step = fill_template(f"date_trunc('{unit}', :x)", x=value), fill_template(_STEPS[unit])
    following = fill_template(":start + :step", start=start, step=step)
    if after:
        return following
    moment = fill_template("CAST(:x AS TIMESTAMP)", x=value)
    return fill_template("if(:start = :x, :x, :after)", start=start, x=moment, after=following)


def _has_arguments(node: exp.Expr) -> bool:
    return any(isinstance(part, exp.Expr) for part in node.iter_expressions())


def _find_unit(node: exp.Expr) -> str | None:
    """Return the unit that a call of date_trunc cuts to, None for anything else."""
    node = node.unnest()
    if isinstance(node, exp.Cast) and node.to.this in (*_MOMENTS, *_PLAIN, exp.DataType.Type.DATE):
        return _find_unit(node.this)
    if not isinstance(node, exp.TimestampTrunc | exp.DateTrunc):
        return None
    word = node.args["unit"].name.upper()
    unit = _SHORT.get(word, word)
    unit = unit if unit in _STEPS else unit.removesuffix("S")
    return unit if unit in _STEPS else None


def _is_date(node: exp.Expr) -> bool:
    node = node.unnest()
    if find_function_name(node) in DATE_CALLS or isinstance(node, exp.TsOrDsToDate | exp.TsOrDsAdd):
        return True
    if isinstance(node, exp.Add | exp.Sub):
        return _is_date(node.this) and isinstance(node.expression.unnest(), exp.Literal)
    return isinstance(node, exp.Cast) and node.to.this == exp.DataType.Type.DATE


def _is_span(node: exp.Expr) -> bool:
    node = node.unnest()
    return isinstance(node, exp.Literal | exp.Interval) or node.find(exp.Interval) is not None


def _has_months(span: Expr) -> bool:
    """Tell whether months may be in a span: such an interval stands in it, or a call that makes one of any kind."""
    return any(
        (isinstance(part, Interval) and part.unit.upper().startswith(_OF_MONTHS))
        or (isinstance(part, Call) and part.function.removeprefix("try_") in _MADE)
        or (isinstance(part, Cast) and part.to.startswith(("interval year", "interval month")))
        or (part.type or "").startswith(("interval year", "interval month"))
        for part in walk(span)
    )


def _is_months(span: Expr) -> bool:
    """Tell whether a span is an interval of nothing but months."""
    return isinstance(span, Interval) and span.unit.upper().startswith(_OF_MONTHS)

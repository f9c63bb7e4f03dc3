"""Expressions that are another way to write ones that Arrow computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from engine.sql.expression.nodes import (
    NULL,
    And,
    Arithmetic,
    Between,
    Call,
    Case,
    Cast,
    Comparison,
    Expr,
    IsNull,
    IsTruth,
    Literal,
    Not,
    Word,
)

_PARTS = {
    **dict.fromkeys(("YEAR", "Y", "YEARS", "YR", "YRS"), "year"),
    **dict.fromkeys(("QUARTER", "QTR"), "quarter"),
    **dict.fromkeys(("MONTH", "MON", "MONS", "MONTHS"), "month"),
    **dict.fromkeys(("WEEK", "W", "WEEKS"), "weekofyear"),
    **dict.fromkeys(("DAY", "D", "DAYS"), "day"),
    **dict.fromkeys(("DAYOFWEEK", "DOW"), "dayofweek"),
    "DOY": "dayofyear",
    "YEAROFWEEK": "yearofweek",
    **dict.fromkeys(("HOUR", "H", "HOURS", "HR", "HRS"), "hour"),
    **dict.fromkeys(("MINUTE", "M", "MIN", "MINS", "MINUTES"), "minute"),
}
"""By a word of EXTRACT, the function of the same; that of SECOND is a decimal, and so is missing."""
_TYPES = ("boolean", "tinyint", "smallint", "int", "bigint", "double", "string", "date", "timestamp")
_CALLS: Mapping[tuple[str, int], Callable[..., Expr]] = {
    ("nullif", 2): lambda value, other: Case(((Comparison("=", value, other), NULL),), value),
    **dict.fromkeys((("ifnull", 2), ("nvl", 2)), lambda value, other: Call("coalesce", (value, other))),
    ("nvl2", 3): lambda value, known, absent: Case(((IsNull(value), absent),), known),
    ("isnull", 1): IsNull,
    ("isnotnull", 1): lambda value: Not(IsNull(value)),
    ("equal_null", 2): lambda left, right: Comparison("<=>", left, right),
    **{(kind, 1): lambda value, kind=kind: Cast(value, kind) for kind in _TYPES},
    ("try_divide", 2): lambda left, right: Case(
        ((Comparison("=", right, Literal("0")), NULL),), Arithmetic("/", (left, right))
    ),
    ("mod", 2): lambda left, right: Arithmetic("%", (left, right)),
}


def rewrite_spelling(expr: Expr) -> Expr | None:
    """Return an expression of the same value that is made of fewer kinds of nodes, None if this one is of them."""
    match expr:
        case Between():
            return And((Comparison(">=", expr.value, expr.low), Comparison("<=", expr.value, expr.high)))
        case IsTruth():
            return Comparison("<=>", expr.value, Literal("TRUE" if expr.truth else "FALSE", "boolean"))
        case Case(subject=subject) if subject is not None:
            branches = tuple((Comparison("=", subject, test), result) for test, result in expr.branches)
            return Case(branches, expr.otherwise)
        case Call(function="extract", arguments=(Word(text=part), value)):
            return _rewrite_part(part, value)
        case Call(function="date_part" | "datepart", arguments=(Literal(text=part, kind="string"), value)):
            return _rewrite_part(part.upper(), value)
        case Call() if (expr.function, len(expr.arguments)) in _CALLS:
            return _CALLS[expr.function, len(expr.arguments)](*expr.arguments)
    return None


def _rewrite_part(part: str, value: Expr) -> Expr | None:
    if part in ("DAYOFWEEK_ISO", "DOW_ISO"):
        return Arithmetic("+", (Call("weekday", (value,)), Literal("1")))
    return Call(_PARTS[part], (value,)) if part in _PARTS else None

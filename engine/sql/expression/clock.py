"""The moment of an epoch in expressions: what `now()` of a maintained view is, in microseconds since 1970."""

from __future__ import annotations

from engine.sql.expression.nodes import And, Call, Comparison, Expr, walk

MOMENT: Expr = Call("unix_micros", (Call("now"),))
"""The moment as an expression that Spark can type; it never gets to Spark in an epoch, which knows its own moment."""
CLOCK_CALLS = frozenset(
    ("now", "current_timestamp", "localtimestamp", "transaction_timestamp", "statement_timestamp")
)
DATE_CALLS = frozenset(("current_date", "curdate"))
"""Functions that give the moment, and its day, as PostgreSQL and Spark name them."""

TIME_PART, TIME_AT, TIME_IN = "_time_part", "_time_at", "_time_in"
TIME_PARTS = 16
FOREVER = (1 << 63) - 1
"""Columns of the states of filters that ask for the moment, how many parts there are, and the bound that is never met."""


def reads_clock(expr: Expr) -> bool:
    """Tell whether the moment stands anywhere in an expression."""
    return any(isinstance(part, Call) and part.function in CLOCK_CALLS | DATE_CALLS for part in walk(expr))


def split_predicate(predicate: Expr) -> tuple[Expr, ...]:
    """Return the conditions that a predicate joins by AND."""
    if isinstance(predicate, And):
        return tuple(each for part in predicate.parts for each in split_predicate(part))
    return (predicate,)


def match_moment_bound(condition: Expr) -> tuple[str, Expr] | None:
    """Return (operator, bound) of a condition `moment >= bound` or `moment < bound`, None for any other."""
    if not isinstance(condition, Comparison) or condition.left != MOMENT:
        return None
    if condition.operator not in (">=", "<") or reads_clock(condition.right):
        return None
    return condition.operator, condition.right

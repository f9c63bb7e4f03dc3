"""Why Spark computes a part of a frame and Arrow does not: recorded where an operator hands its rows to Spark.

A reason is a clause that stands behind "own action with Spark".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from engine.sql.expression.nodes import Call, Case, Cast, Expr, children
from engine.sql.expression.spark_sql import render_spark_sql

MOST_REASONS = 3
MOST_LETTERS = 120
_REASONS: ContextVar[list[str] | None] = ContextVar("spark_reasons", default=None)


@contextmanager
def collect_reasons() -> Iterator[list[str]]:
    """Collect, in this thread, what operators leave to Spark, each reason once, and of expressions the first few."""
    reasons: list[str] = []
    token = _REASONS.set(reasons)
    try:
        yield reasons
    finally:
        _REASONS.reset(token)


def record_operator(reason: str) -> None:
    """Record a reason that lies in an operator, which no expression changes; nothing if nobody collects."""
    reasons = _REASONS.get()
    if reasons is not None and reason not in reasons:
        reasons.append(reason)


def record_reason(exprs: Sequence[Expr], compiles: Callable[[Expr], bool]) -> None:
    """Record the least part of the first of some expressions that does not compile; nothing if nobody collects."""
    reasons = _REASONS.get()
    if reasons is None or len(reasons) == MOST_REASONS:
        return
    refused = next((expr for expr in exprs if not compiles(expr)), None)
    if refused is None:
        return
    text = render_spark_sql(_find_least(refused, compiles))
    text = text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…"
    record_operator(f"it computes {text}")


def _find_least(refused: Expr, compiles: Callable[[Expr], bool]) -> Expr:
    """Return the innermost function, cast or CASE of an expression that is refused by itself."""
    for child in children(refused):
        if not compiles(child):
            inner = _find_least(child, compiles)
            if isinstance(inner, Call | Cast | Case):
                return inner
    return refused

"""Filter and projection: linear operators, whose change is the same operator on the change; they keep no state."""

from __future__ import annotations

from engine.operators.flow import Rows
from engine.sql.plan import Filter, Project, quote


def filter_rows(node: Filter, frame: Rows) -> Rows:
    """Return the rows of `frame` for which the predicate is true."""
    return frame.where(node.predicate.sql)


def project(node: Project, frame: Rows, *carried: str) -> Rows:
    """Return the projection's items over `frame`, and after them the `carried` expressions."""
    items = [f"{expr.sql} AS {quote(name)}" for name, expr in node.items]
    return frame.selectExpr(*items, *carried)

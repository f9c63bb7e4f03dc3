"""Filter and projection: linear operators, whose change is the same operator on the change; they keep no state."""

from __future__ import annotations

from engine.operators.flow import Rows
from engine.sql.expression.spark_sql import quote, spark_sql
from engine.sql.plan import Filter, Project


def filter_rows(node: Filter, frame: Rows) -> Rows:
    """Return the rows of `frame` for which the predicate is true."""
    return frame.where(spark_sql(node.predicate))


def project(node: Project, frame: Rows, *carried: str) -> Rows:
    """Return the projection's items over `frame`, and after them the `carried` expressions."""
    items = [f"{spark_sql(expr)} AS {quote(name)}" for name, expr in node.items]
    return frame.selectExpr(*items, *carried)

"""Filter and projection: linear operators, whose change is the same operator on the change; they keep no state.

>>> change("SELECT id, price * 2 AS double FROM bid WHERE price < 40")
+ id=4 double=20
"""

from __future__ import annotations

from engine.operators.flow import Rows, compute, keep
from engine.operators.inlined_size import list_large_items
from engine.sql.expression.template import as_columns
from engine.sql.plan import Filter, Project


def filter_rows(node: Filter, frame: Rows) -> Rows:
    """Return the rows of `frame` for which the predicate is true."""
    return keep(frame, node.predicate)


def project(node: Project, frame: Rows, *carried: str) -> Rows:
    """Return the projection's items over `frame`, and after them the `carried` columns."""
    return compute(frame, [*node.items, *as_columns(carried)], list_large_items(node))

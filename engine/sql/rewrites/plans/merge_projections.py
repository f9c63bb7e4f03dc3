"""A projection over a projection becomes one, in which the upper one's columns are put for the lower one's.

Applies unless something would be computed twice, an expression would grow large, or a column of the key would be lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set

import msgspec

from engine.sql.expression.nodes import Column, walk
from engine.sql.expression.substitute import substitute_small
from engine.sql.plan import Join, Node, Project, Recompute, Scan, UnionAll, Values
from engine.sql.rewrites.contract import PlanExample

EXAMPLE = PlanExample(
    sql="SELECT q.p + 1 AS p FROM (SELECT id, price * 2 AS p FROM bid) q",
    before="""
Project [out:p#2 = `out:p` + 1, `out:id`] key (out:id) retracting
  Project [out:id = `bid:id`, out:p = `bid:price` * 2] key (out:id) retracting
    Scan bid [id, price] key (bid:id) retracting
""",
    after="""
Project [out:p#2 = `bid:price` * 2 + 1, out:id = `bid:id`] key (out:id) retracting
  Scan bid [id, price] key (bid:id) retracting
""",
)


def merge_projections(node: Node, needed: Set[str]) -> Node:
    """Return the plan with each projection over a projection merged, unless something would be computed twice."""
    match node:
        case Scan() | Values():
            return node
        case Join():
            return msgspec.structs.replace(
                node, left=merge_projections(node.left, needed), right=merge_projections(node.right, needed)
            )
        case UnionAll():
            return UnionAll(tuple(merge_projections(child, needed) for child in node.inputs), node.names)
        case Recompute():
            raise AssertionError("a query that is computed as a whole is not rewritten")
    node = msgspec.structs.replace(node, input=merge_projections(node.input, needed))
    if not isinstance(node, Project) or not isinstance(node.input, Project):
        return node
    below = dict(node.input.items)
    uses = Counter(part.name for _, expr in node.items for part in walk(expr) if isinstance(part, Column))
    if any(below[column].column is None and count > 1 for column, count in uses.items()):
        return node
    items = [(name, substitute_small(expr, below)) for name, expr in node.items]
    substituted = tuple((name, expr) for name, expr in items if expr is not None)
    if len(substituted) < len(items):
        return node
    merged = Project(node.input.input, substituted)
    return merged if merged.columns == node.columns else node

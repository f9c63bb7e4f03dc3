"""Rewrites of bound plans: stacked projections become one, columns that nobody reads are dropped."""

from __future__ import annotations

from collections import Counter

import msgspec

from engine.sql.plan import Aggregate, Filter, Join, Node, Project, Scan, UnionAll
from engine.sql.pushdown import substitute


def merge_projections(node: Node) -> Node:
    """Return the plan with each projection over a projection merged, unless something would be computed twice."""
    match node:
        case Scan():
            return node
        case Join():
            return msgspec.structs.replace(
                node, left=merge_projections(node.left), right=merge_projections(node.right)
            )
        case UnionAll():
            return UnionAll(tuple(merge_projections(child) for child in node.inputs), node.names)
    node = msgspec.structs.replace(node, input=merge_projections(node.input))
    if not isinstance(node, Project) or not isinstance(node.input, Project):
        return node
    below = dict(node.input.items)
    uses = Counter(column for _, expr in node.items for column in expr.columns)
    if any(below[column].column is None and count > 1 for column, count in uses.items()):
        return node
    merged = Project(node.input.input, tuple((name, substitute(expr, below)) for name, expr in node.items))
    return merged if merged.columns == node.columns else node


def prune(node: Node, needed: set[str]) -> Node:
    """Return the node without the columns that neither `needed` nor the plan itself reads."""
    match node:
        case Scan():
            keep = needed | set(node.key)
            return msgspec.structs.replace(node, items=tuple(item for item in node.items if item[0] in keep))
        case Filter():
            return Filter(prune(node.input, needed | set(node.predicate.columns)), node.predicate)
        case Project():
            key = set(node.key)
            items = tuple((name, expr) for name, expr in node.items if name in needed or name in key)
            used = {column for _, expr in items for column in expr.columns}
            return Project(prune(node.input, used), items)
        case Aggregate():
            calls = tuple(call for call in node.calls if call.name in needed)
            if not node.keys:  # without keys and calls the one row would be gone
                calls = calls or node.calls[:1]
            used = {column for _, expr in node.keys for column in expr.columns}
            for call in calls:
                used |= {column for argument in call.arguments for column in argument.columns}
                used |= set(call.where.columns) if call.where else set()
            return Aggregate(prune(node.input, used), node.keys, calls)
        case Join():
            used = needed | {column for pair in node.on for column in pair}
            used |= set(node.residual.columns) if node.residual else set()
            return msgspec.structs.replace(node, left=prune(node.left, used), right=prune(node.right, used))
        case UnionAll():
            width = len(node.names)
            return UnionAll(
                tuple(prune(child, set(child.columns[:width])) for child in node.inputs), node.names
            )

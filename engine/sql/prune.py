"""Rewrites of bound plans: filters move towards the scans, columns that nobody reads are dropped."""

from __future__ import annotations

import msgspec

from engine.sql.plan import Aggregate, Expr, Filter, Join, Node, Project, Scan, UnionAll


def push_filter(node: Node, predicate: Expr) -> Node:
    """Return the node filtered by `predicate`, as near to the scans as is safe.

    A filter passes to the left of a left join, to either side of an inner one, and never to the side that may be null.
    """
    columns = set(predicate.columns)
    if isinstance(node, Join) and columns:
        if columns <= set(node.left.columns):
            return msgspec.structs.replace(node, left=push_filter(node.left, predicate))
        if node.kind == "inner" and columns <= set(node.right.columns):
            return msgspec.structs.replace(node, right=push_filter(node.right, predicate))
    return Filter(node, predicate)


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

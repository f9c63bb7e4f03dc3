"""Computed columns of a plan pushed down to where what they are computed of comes from."""

from __future__ import annotations

import msgspec

from engine.sql.expression.nodes import Column, Expr
from engine.sql.expression.substitute import substitute
from engine.sql.expression.template import as_columns
from engine.sql.plan import (
    Aggregate,
    DynamicFilter,
    Filter,
    Join,
    Node,
    Over,
    Project,
    TemporalFilter,
    TopN,
    Unnest,
)


def push_column(node: Node, name: str, expr: Expr) -> Node | None:
    """Return a node with one more column, computed of its columns, which is there below it already; None if it can't be."""
    read = set(expr.columns)
    match node:
        case Project():
            below = _add_column(node.input, name, substitute(expr, dict(node.items)))
            return Project(below, (*node.items, (name, Column(name))))
        case Aggregate() if read and read <= {key for key, _ in node.keys}:
            below = _add_column(node.input, name, substitute(expr, dict(node.keys)))
            return Aggregate(below, (*node.keys, (name, Column(name))), node.calls)
        case Join():
            if read <= set(node.left.columns):
                return msgspec.structs.replace(node, left=_add_column(node.left, name, expr))
            if node.kind == "inner" and read <= set(node.right.columns):
                return msgspec.structs.replace(node, right=_add_column(node.right, name, expr))
        case Filter() | DynamicFilter() | TemporalFilter() | Unnest() | Over() | TopN():
            if read <= set(node.input.columns):
                return msgspec.structs.replace(node, input=_add_column(node.input, name, expr))
    return None


def _add_column(node: Node, name: str, expr: Expr) -> Node:
    """Return a node with one more column, computed as far down as it can be."""
    return push_column(node, name, expr) or Project(node, (*as_columns(node.columns), (name, expr)))

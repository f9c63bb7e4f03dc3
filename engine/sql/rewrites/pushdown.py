"""Filters move towards the scans, as far as that changes no row."""

from __future__ import annotations

import msgspec

from engine.sql.expression.nodes import Column, Expr
from engine.sql.expression.substitute import substitute
from engine.sql.expression.template import both
from engine.sql.plan import Aggregate, Filter, Join, Node, Project, TopN, UnionAll, Unnest


def push_filter(node: Node, predicate: Expr) -> Node:
    """Return the node filtered by `predicate`, as near to the scans as is safe.

    A filter passes through projections, to the left of a left join, to either side of an inner one, and below an aggregate
    if it reads nothing but keys; never to the side of a join that may be null.
    """
    columns = set(predicate.columns)
    if not columns <= set(
        node.columns
    ):  # it reads columns of an outer query: its place is where it was written
        return Filter(node, predicate)
    match node:
        case Filter():
            below = push_filter(node.input, predicate)
            plain = set(node.predicate.columns) <= set(node.columns)
            if plain and isinstance(below, Filter) and below.input is node.input:
                return Filter(node.input, both(node.predicate, predicate))
            return Filter(below, node.predicate)
        case Project():
            return msgspec.structs.replace(
                node, input=push_filter(node.input, substitute(predicate, dict(node.items)))
            )
        case Aggregate() if columns and columns <= set(node.key):
            return msgspec.structs.replace(
                node, input=push_filter(node.input, substitute(predicate, dict(node.keys)))
            )
        case Join() if columns and columns <= set(node.left.columns):
            return msgspec.structs.replace(node, left=push_filter(node.left, predicate))
        case Join(kind="inner") if columns and columns <= set(node.right.columns):
            return msgspec.structs.replace(node, right=push_filter(node.right, predicate))
        case UnionAll() if columns and columns <= set(node.names):
            inputs = []
            for branch in node.inputs:
                by = {name: Column(below) for name, below in zip(node.names, branch.columns, strict=False)}
                inputs.append(push_filter(branch, substitute(predicate, by)))
            return UnionAll(tuple(inputs), node.names)
        case Unnest(outer=False) if columns and columns <= set(node.input.columns):
            return msgspec.structs.replace(node, input=push_filter(node.input, predicate))
        case TopN() if columns and columns <= set(node.partition):
            return msgspec.structs.replace(node, input=push_filter(node.input, predicate))
    return Filter(node, predicate)

"""Temporal joins in a plan: rows of a left side, each joined with what the right sides were when it came."""

from __future__ import annotations

import msgspec

from engine.sql.incremental.temporal import has_bounds
from engine.sql.plan import Filter, Join, Node, Project


def is_arrival(node: Node) -> bool:
    """Tell whether a node is a temporal join, or nothing but filters and projections of one."""
    match node:
        case Join():
            return node.at_arrival
        case Filter() | Project():
            return not has_bounds(node) and is_arrival(node.input)
    return False


def arriving(node: Node) -> Node:
    """Return the left side of the first of the temporal joins that a plan consists of: what comes, and is joined."""
    while is_arrival(node):
        assert isinstance(node, Join | Filter | Project)
        node = node.left if isinstance(node, Join) else node.input
    return node


def with_arriving(node: Node, below: Node) -> Node:
    """Return a plan of temporal joins over another left side."""
    if not is_arrival(node):
        return below
    assert isinstance(node, Join | Filter | Project)
    if isinstance(node, Join):
        return msgspec.structs.replace(node, left=with_arriving(node.left, below))
    return msgspec.structs.replace(node, input=with_arriving(node.input, below))

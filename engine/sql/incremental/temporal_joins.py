"""Temporal joins in a plan: rows of a left side, each joined with what the right sides were when it came."""

from __future__ import annotations

import msgspec

from engine.sql.incremental.temporal_filters import has_moment_bounds
from engine.sql.plan import Filter, Join, Node, Project


def is_temporal_join(node: Node) -> bool:
    """Tell whether a node is a temporal join, or nothing but filters and projections of one."""
    match node:
        case Join():
            return node.at_arrival
        case Filter() | Project():
            return not has_moment_bounds(node) and is_temporal_join(node.input)
    return False


def find_arriving_side(node: Node) -> Node:
    """Return the left side of the first of the temporal joins that a plan consists of: what comes, and is joined."""
    while is_temporal_join(node):
        assert isinstance(node, Join | Filter | Project)
        node = node.left if isinstance(node, Join) else node.input
    return node


def replace_arriving_side(node: Node, below: Node) -> Node:
    """Return a plan of temporal joins over another left side."""
    if not is_temporal_join(node):
        return below
    assert isinstance(node, Join | Filter | Project)
    if isinstance(node, Join):
        return msgspec.structs.replace(node, left=replace_arriving_side(node.left, below))
    return msgspec.structs.replace(node, input=replace_arriving_side(node.input, below))

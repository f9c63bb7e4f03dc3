"""How large expressions become where Spark writes them out: it puts what computes a column for the column in a filter above it.

It does so through any number of projections (PushPredicateThroughNonJoin), without a bound: in a chain of steps each of which
names the column of the one before three times a filter would have three to the power of the steps of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from engine.sql.expression.nodes import Column, Expr, count_nodes, measure_depth, walk
from engine.sql.expression.substitute import MOST_LEVELS, MOST_NODES
from engine.sql.plan import Aggregate, Node, Project, UnionAll, list_children


class _Size(NamedTuple):
    nodes: int
    levels: int


_COLUMN = _Size(1, 1)


def list_large_items(node: Project) -> Collection[str]:
    """Return the items of a projection that would grow large if they were written out with what is below them."""
    below = _measure_columns(node.input)
    return [name for name, expr in node.items if _is_large(expr, below)] if below else ()


def _is_large(expr: Expr, below: Mapping[str, _Size]) -> bool:
    whole = _measure(expr, below)
    is_grown = whole.nodes > count_nodes(expr) and not isinstance(expr, Column)
    return is_grown and (whole.nodes > MOST_NODES or whole.levels > max(MOST_LEVELS, measure_depth(expr)))


def _measure(expr: Expr, below: Mapping[str, _Size]) -> _Size:
    if isinstance(expr, Column):
        return below.get(expr.name, _COLUMN)
    named = [below[part.name] for part in walk(expr) if isinstance(part, Column) and part.name in below]
    nodes = count_nodes(expr) + sum(each.nodes - 1 for each in named)
    return _Size(nodes, measure_depth(expr) + max((each.levels - 1 for each in named), default=0))


def _measure_columns(node: Node) -> dict[str, _Size]:
    """Return how large the columns of a node are that something computes, with what is below it written out."""
    if isinstance(node, UnionAll):
        found: dict[str, _Size] = {}
        for branch in node.inputs:
            sizes = _measure_columns(branch)
            for name, own in zip(node.names, branch.columns, strict=False):
                mine, before = sizes.get(own, _COLUMN), found.get(name, _COLUMN)
                found[name] = _Size(max(mine.nodes, before.nodes), max(mine.levels, before.levels))
        return _select_computed(found)
    below = {name: of for child in list_children(node) for name, of in _measure_columns(child).items()}
    if isinstance(node, Project | Aggregate):
        items = node.items if isinstance(node, Project) else node.keys
        return _select_computed(
            {name: _COLUMN if _is_large(expr, below) else _measure(expr, below) for name, expr in items}
        )
    return below


def _select_computed(sizes: Mapping[str, _Size]) -> dict[str, _Size]:
    return {name: of for name, of in sizes.items() if of != _COLUMN}

"""Columns of plans as columns of tables: their names there, and the hidden ones that a table needs beside them."""

from __future__ import annotations

import re

from engine.sql.expression.nodes import Column
from engine.sql.expression.template import as_columns
from engine.sql.plan import Node, Project, list_scans


def reads_expiring(node: Node) -> bool:
    """Tell whether a node reads a table whose rows hide by their age."""
    return any(scan.expires for scan in list_scans(node))


def reads_pass_through(node: Node) -> bool:
    """Tell whether a node reads a source whose rows are not kept."""
    return any(scan.passes for scan in list_scans(node))


def sanitize_names(names: tuple[str, ...], reserved: tuple[str, ...] = ()) -> dict[str, str]:
    """Return for each column of a plan the name that it has in a table: without dots and the like, each once, none `reserved`."""
    sanitized: dict[str, str] = {}
    for name in names:
        base = re.sub(r"\W", "_", name)
        candidate, n = base, 1
        while candidate in sanitized.values() or candidate in reserved:
            n += 1
            candidate = f"{base}_{n}"
        sanitized[name] = candidate
    return sanitized


def rename_columns(node: Node) -> Project:
    """Return a node under the names that its columns have in a table."""
    names = sanitize_names(node.columns)
    return Project(node, tuple((names[column], Column(column)) for column in node.columns))


def add_hidden_columns(top: Project, below: Node, needed: tuple[str, ...]) -> Project:
    """Return a projection over another node, whose `needed` columns it carries: those that it lacks as hidden ones."""
    carried = {expr.column for _, expr in top.items}
    lacking = [column for column in dict.fromkeys(needed) if column not in carried]
    hidden = sanitize_names((*top.columns, *(f"_key_{column.lstrip('_')}" for column in lacking)))
    added = tuple((hidden[f"_key_{column.lstrip('_')}"], Column(column)) for column in lacking)
    return Project(below, top.items + added)


def copy_order_column(node: Node, order: str, by: tuple[str, ...]) -> tuple[Node, str]:
    """Return a node with the column of an order, which is one of its own where rows are found by that column too."""
    if order not in by:
        return node, order
    own = f"{order}:order"
    copied = (*as_columns(node.columns), (own, Column(order)))
    return Project(node, copied), own

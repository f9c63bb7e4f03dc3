"""The tables that a statement reads: those in its queries, without what WITH items are called."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import sqlglot.expressions as exp

from engine.sql.parsing.names import item_name
from engine.sql.schemas import is_qualified


def list_tables(value: Any) -> Iterator[exp.Table]:
    """Yield the tables in the queries that a statement holds, in whatever it holds them."""
    if isinstance(value, exp.Expr):
        yield from _list_tree_tables(value)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from list_tables(getattr(value, field.name))
    elif isinstance(value, tuple):
        for part in value:
            yield from list_tables(part)


def _list_tree_tables(tree: exp.Expr, items: frozenset[str] = frozenset()) -> Iterator[exp.Table]:
    """Yield the tables of a tree that are no WITH items in their places."""
    with_ = tree.args.get("with_")
    if with_ is not None:
        every = frozenset(item_name(cte) for cte in with_.expressions)
        for cte in with_.expressions:  # which may read a table of its own name, unless it is recursive
            yield from _list_tree_tables(cte.this, items | every if with_.args.get("recursive") else items)
            items |= {item_name(cte)}
    if isinstance(tree, exp.Table) and isinstance(tree.this, exp.Identifier) and not _is_item(tree, items):
        yield tree
    for child in tree.iter_expressions():
        if child is not with_:
            yield from _list_tree_tables(child, items)


def _is_item(table: exp.Table, items: frozenset[str]) -> bool:
    return item_name(table) in items and not (is_qualified(table.this) or table.args.get("db"))

"""Aliases of a SELECT list that its later items or ORDER BY use, as Spark takes them: each stands for what it names.

`SELECT coalesce(n, 0) AS m, m + 1 AS k` -> `SELECT coalesce(n, 0) AS m, coalesce(n, 0) + 1 AS k`

A column of FROM goes before an alias of its name, an alias before a column of a query around. In ORDER BY the alias goes first,
but not inside of an aggregate or a window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import TypeGuard

import sqlglot.expressions as exp

from engine.errors import UnsupportedSql
from engine.sql.bind.scope import Scope
from engine.sql.parsing.location import copy_location
from engine.sql.parsing.names import normalize_identifier
from engine.sql.typing.expression_types import infer_exact_type
from engine.sql.typing.whole_numbers import INTEGRAL

Items = list[tuple[str, exp.Expr]]
MOST_PARTS = 1000
_WHOLE = (exp.Column, exp.Literal, exp.Paren, exp.Null, exp.Boolean, exp.Cast)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg)


def expand_lateral_aliases(
    items: Items, aliases: Set[str], scope: Scope, refuse: Callable[[str, exp.Expr, str], UnsupportedSql]
) -> Items:
    """Return the items with those of the `aliases` written out that stand before their use.

    Raises SqlError for one that two items have, UnsupportedSql for an item that grows large.
    """
    found: Items = []
    known: dict[str, exp.Expr | None] = {}
    for name, item in items:
        expanded = _expand_aliases(item, known, scope) if known else item
        if expanded is not item and sum(1 for _ in expanded.walk()) > MOST_PARTS:
            what = f"an alias that comes to more than {MOST_PARTS} parts with the aliases in it"
            raise refuse(what, item, "compute the first of them in a WITH item, and read that")
        found.append((name, expanded))
        if name.lower() in aliases:
            known[name.lower()] = expanded if known.get(name.lower(), expanded) == expanded else None
    return found


def expand_order_aliases(
    node: exp.Expr, items: Items, aliases: Set[str], scope: Scope, has_own_names: Callable[[exp.Expr], bool]
) -> exp.Expr:
    """Return an expression of ORDER BY with the `aliases` of items written out, but in parts that have names of their own.

    Raises SqlError for one that two items have.
    """
    known: dict[str, exp.Expr | None] = {}
    for name, item in items:
        if name.lower() in aliases:
            known[name.lower()] = item if known.get(name.lower(), item) == item else None
    return _write_out(node, known, scope, lambda column: True, has_own_names)


def _expand_aliases(item: exp.Expr, known: Mapping[str, exp.Expr | None], scope: Scope) -> exp.Expr:
    """Return an item with the aliases in it written out; those inside of a subquery are left to it."""

    def is_free(column: exp.Column) -> bool:
        return not scope.find_visible(_get_name(column), scope.sources)

    return _write_out(item, known, scope, is_free, _is_query)


def _write_out(
    item: exp.Expr,
    known: Mapping[str, exp.Expr | None],
    scope: Scope,
    is_free: Callable[[exp.Column], bool],
    prune: Callable[[exp.Expr], bool],
) -> exp.Expr:
    """Return an expression with what is an alias by its name, and `is_free`, written out, not below what `prune` is true for."""

    def is_alias(part: exp.Expr) -> TypeGuard[exp.Column]:
        return _may_be_alias(part, known, scope) and is_free(part)

    if not any(is_alias(part) for part in item.walk(prune=prune)):
        return item
    root = exp.Paren(this=item.copy())
    for column in [part for part in root.walk(prune=prune) if is_alias(part)]:
        first, *fields = column.parts
        definition = known[_get_name(column)]
        if definition is None:
            message = f"the alias {normalize_identifier(first)} stands for two items"
            raise scope.build_error(message, column, "give one of them another name")
        new: exp.Expr = (
            definition.copy() if isinstance(definition, _WHOLE) else exp.Paren(this=definition.copy())
        )
        for field in fields:
            new = exp.Dot(this=new, expression=field.copy())
        if _is_operand(column) and isinstance(definition, exp.Literal | exp.Neg):
            # a whole number keeps its type: of a constant beside decimals digits count
            kind = infer_exact_type(definition, {})
            new = exp.cast(new, kind) if kind in INTEGRAL else new
        column.replace(copy_location(new, column))
    expanded: exp.Expr = root.this.pop()
    return expanded


def _is_operand(node: exp.Expr) -> bool:
    """Tell whether a node stands in arithmetic."""
    above = node.parent
    while isinstance(above, exp.Paren):
        above = above.parent
    return isinstance(above, _ARITHMETIC)


def _may_be_alias(
    node: exp.Expr, known: Mapping[str, exp.Expr | None], scope: Scope
) -> TypeGuard[exp.Column]:
    """Tell whether a node has the name of a known alias, and not that of a table of FROM."""
    if not isinstance(node, exp.Column) or node.is_star or node.meta.get("bound"):
        return False
    name = _get_name(node)
    return name in known and name not in {source.alias for source in scope.sources}


def _get_name(column: exp.Column) -> str:
    return normalize_identifier(column.parts[0]).lower()


def _is_query(node: exp.Expr) -> bool:
    return isinstance(node, exp.Query)

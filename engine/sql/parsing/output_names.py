"""What a column of a SELECT is called that was given no name, as PostgreSQL calls it."""

from __future__ import annotations

import re

import sqlglot.expressions as exp

from engine.sql.dialect import Dialect

_AROUND = (
    *(exp.Paren, exp.Cast, exp.TryCast, exp.Filter, exp.WithinGroup, exp.Window, exp.Order, exp.Bracket),
    *(exp.IgnoreNulls, exp.RespectNulls, exp.Collate),
)
_WORDS = {exp.Case: "case", exp.Exists: "exists", exp.Extract: "extract", exp.Array: "array"}
_NAMED = (exp.Alias, exp.Column, exp.Star, exp.Dot)
_NAMELESS = (exp.Connector, exp.Binary, exp.Not, exp.Interval, exp.Subquery)


def find_output_name(item: exp.Expr, dialect: Dialect) -> str | None:
    """Return the name of what a SELECT lists, None if it has none: that of its column or call, whatever it is cast to.

    >>> from sqlglot import parse_one
    >>> [find_output_name(part, "postgres") for part in parse_one("SELECT a::int, max(b) OVER (), t.c, 1").selects]
    ['a', 'max', 'c', None]
    """
    node = item
    while isinstance(node, _AROUND):
        node = node.this
    if isinstance(node, exp.Column | exp.Dot):
        return None if node.is_star else str(node.name)
    if (
        isinstance(node, exp.Subquery)
        and isinstance(node.this, exp.Select)
        and len(node.this.expressions) == 1
    ):
        inner = node.this.expressions[0]
        return str(inner.alias) if isinstance(inner, exp.Alias) else find_output_name(inner, dialect)
    for kind, word in _WORDS.items():
        if isinstance(node, kind):
            return word
    if not isinstance(node, exp.Func) or isinstance(node, _NAMELESS):
        return None
    if isinstance(node, exp.Anonymous):
        return str(node.name).lower()
    found = re.match(r"([A-Za-z_]\w*)(\(|$)", node.sql(dialect=dialect))
    return found[1].lower() if found else None


def assign_output_names(tree: exp.Expr, dialect: Dialect) -> exp.Expr:
    """Return a query whose inner ones call their columns so, in place: in FROM and in WITH items, where others name them."""
    for select in list(tree.find_all(exp.Select)):
        if not _is_source(select):
            continue
        used_names = {item.alias_or_name for item in select.expressions if isinstance(item, _NAMED)}
        for item in list(select.expressions):
            if isinstance(item, _NAMED):
                continue
            name = find_output_name(item, dialect)
            if name is not None and name not in used_names:
                used_names.add(name)
                place = exp.to_identifier(name, quoted=True)
                item.replace(exp.Alias(this=item.copy(), alias=place))
    return tree


def _is_source(select: exp.Select) -> bool:
    """Tell whether a SELECT is a branch of what stands in FROM, or of a WITH item."""
    node = select.parent
    while isinstance(node, exp.SetOperation) or (isinstance(node, exp.Subquery) and not node.alias):
        if isinstance(node, exp.Subquery) and isinstance(node.parent, exp.From | exp.Join | exp.Lateral):
            return True
        node = node.parent
    return isinstance(node, exp.CTE) or (
        isinstance(node, exp.Subquery) and isinstance(node.parent, exp.From | exp.Join | exp.Lateral)
    )

"""Names of the columns of a query, by its tree and by those of what it reads: no types, and no Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from sqlglot import exp

FindColumns = Callable[[str], tuple[str, ...] | None]
"""Returns the columns of a relation by its name, None where they are not known."""


def list_query_columns(
    query: exp.Expr, find_columns: FindColumns, items: Mapping[str, exp.Expr] | None = None
) -> tuple[str | None, ...] | None:
    """Return the names of a query's columns, None for one that was given no name; None if they are not known."""
    while isinstance(query, exp.Subquery):
        query = query.this
    if not isinstance(query, exp.Query):
        return None
    items = {**(items or {}), **{one.alias.lower(): one for one in query.ctes}}
    if isinstance(query, exp.SetOperation):
        return list_query_columns(query.left, find_columns, items)
    if not isinstance(query, exp.Select):
        return None
    names: list[str | None] = []
    for item in query.expressions:
        star = item if isinstance(item, exp.Star) else item.this if isinstance(item, exp.Column) else None
        if not isinstance(star, exp.Star):
            names.append(_name_item(item))
            continue
        given = _expand_star(query, star, item, find_columns, items)
        if given is None:
            return None
        names += given
    return tuple(names)


def _name_item(item: exp.Expr) -> str | None:
    """Return what Spark calls a column; None for one that it calls by the text of its expression."""
    return item.alias_or_name or None if isinstance(item, exp.Alias | exp.Column | exp.Dot) else None


def _expand_star(
    query: exp.Select,
    star: exp.Star,
    item: exp.Expr,
    find_columns: FindColumns,
    items: Mapping[str, exp.Expr],
) -> list[str | None] | None:
    label = item.table.lower() if isinstance(item, exp.Column) else ""
    found: list[str | None] = []
    for source in _list_sources(query):
        if source is None:
            return None
        if label and source.alias_or_name.lower() != label:
            continue
        names = _list_source_columns(source, find_columns, items)
        if names is None:
            return None
        found += names
    if label and not found:
        return None
    gone = {one.name.lower() for one in star.args.get("except_") or ()}
    if any(value for word, value in star.args.items() if word != "except_"):
        return None
    return [name for name in found if name is None or name.lower() not in gone]


def _list_sources(query: exp.Select) -> Iterator[exp.Expr | None]:
    """Yield what stands in FROM and gives columns to a star; None for what makes these unclear."""
    from_clause = query.args.get("from_")
    if from_clause is None or query.args.get("laterals"):
        yield None
        return
    yield from_clause.this
    for join in query.args.get("joins") or ():
        if join.args.get("using") or join.method == "NATURAL":
            yield None
        elif join.kind not in ("SEMI", "ANTI"):
            yield join.this
    if any(source is not None and source.args.get("joins") for source in (from_clause.this,)):
        yield None


def _list_source_columns(
    source: exp.Expr, find_columns: FindColumns, items: Mapping[str, exp.Expr]
) -> tuple[str | None, ...] | None:
    alias = source.args.get("alias")
    if isinstance(alias, exp.TableAlias) and alias.columns:
        return tuple(one.name for one in alias.columns)
    if source.args.get("pivots") or source.args.get("sample"):
        return None
    if isinstance(source, exp.Subquery):
        return list_query_columns(source.this, find_columns, items)
    if not isinstance(source, exp.Table) or not isinstance(source.this, exp.Identifier):
        return (
            ("id",)
            if isinstance(source.this, exp.Anonymous) and source.this.name.lower() == "range"
            else None
        )
    item = items.get(source.name.lower()) if not source.db else None
    if item is None:
        return find_columns(source.name)
    if isinstance(item.args.get("alias"), exp.TableAlias) and item.args["alias"].columns:
        return tuple(one.name for one in item.args["alias"].columns)
    others = {name: one for name, one in items.items() if one is not item}
    return list_query_columns(item.this, find_columns, others)

"""Queries that are answered once, by Spark: which relations they read, and their text in Spark SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import sqlglot.expressions as exp

from engine.errors import SqlError
from engine.sql.catalog import Catalog, Relation
from engine.sql.names import identifier
from engine.sql.position import place
from engine.sql.postgres import as_spark
from engine.sql.query_types import QueryTypes
from engine.sql.statement_types import CreateView
from engine.sql.statements import parse


def query_tables(query: exp.Query, catalog: Catalog, sql: str = "") -> tuple[str, ...]:
    """Return the tables and materialized views that a query reads, each once, plain views followed.

    Raises SqlError for unknown names, with the place if the query's text `sql` is given.
    """
    found: dict[str, None] = {}

    def visit(table: exp.Table, name: str) -> None:
        relation = _relation(table, name, catalog, sql)
        inner = query_tables(_view_query(relation), catalog) if relation.kind == "view" else (relation.name,)
        found.update(dict.fromkeys(inner))

    _walk(query, frozenset(), visit)
    return tuple(found)


def to_spark(query: exp.Query, catalog: Catalog, dialect: str = "spark") -> str:
    """Return a query as Spark SQL that means what it means in `dialect`, with plain views written out as subqueries."""
    return _inlined(query, catalog, dialect).sql(dialect="spark")


def _inlined(query: exp.Query, catalog: Catalog, dialect: str, top: bool = True) -> exp.Expression:
    tree = query.copy()
    if dialect != "spark":
        for name in tree.find_all(exp.Identifier):
            if not name.args.get("quoted"):
                name.set("this", name.name.lower())
        tree = as_spark(tree, QueryTypes(tree, catalog).of)
    _expand(tree, {}, catalog, top)
    return tree


def _expand(node: exp.Expression, items: Mapping[str, exp.CTE | None], catalog: Catalog, top: bool) -> None:
    """Write plain views and inner WITH items out as subqueries.

    The printer moves every WITH to the top, where a name of an inner one would hide a table of the outer query.
    """
    with_ = node.args.get("with_")
    if with_ is not None:
        stays = top or with_.args.get("recursive")
        for cte in with_.expressions:
            own = {**items, cte.alias.lower(): None} if with_.args.get("recursive") else items
            _expand(cte.this, own, catalog, False)
            items = {**items, cte.alias.lower(): None if stays else cte}
        if not stays:
            node.set("with_", None)
    for child in list(node.iter_expressions()):
        if child is with_:
            continue
        _expand(child, items, catalog, False)
        if (
            isinstance(child, exp.Table)
            and isinstance(child.this, exp.Identifier)
            and not child.args.get("db")
        ):
            inner = _meaning(child, items, catalog)
            if inner is not None:
                child.replace(inner)


def _meaning(table: exp.Table, items: Mapping[str, exp.CTE | None], catalog: Catalog) -> exp.Subquery | None:
    """Return the subquery that a table stands for, or None if it is a table, or stays a name."""
    name = identifier(table.this)
    if name.lower() in items:
        cte = items[name.lower()]
        if cte is None:
            return None
        inner, given = cte.this.copy(), cte.args["alias"].args.get("columns")
    else:
        relation = catalog.relations.get(name)
        if relation is None or relation.kind != "view":
            return None
        inner, given = _inlined(_view_query(relation), catalog, relation.dialect, top=False), None
    alias = (table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(name))).copy()
    if given and not alias.args.get("columns"):
        alias.set("columns", [column.copy() for column in given])
    kept = {k: v for k, v in table.args.items() if k in exp.Subquery.arg_types and k not in ("this", "alias")}
    return exp.Subquery(this=inner, alias=alias, **kept)


def _walk(node: exp.Expression, hidden: frozenset[str], visit: Callable[[exp.Table, str], None]) -> None:
    """Visit every table that is no WITH item in its place."""
    with_ = node.args.get("with_")
    if with_ is not None:
        for cte in with_.expressions:
            own = hidden | {cte.alias.lower()} if with_.args.get("recursive") else hidden
            _walk(cte.this, own, visit)
            hidden = hidden | {cte.alias.lower()}
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
        name = identifier(node.this)
        if name.lower() not in hidden or node.args.get("db"):
            visit(node, name)
    for child in node.iter_expressions():
        if child is not with_:
            _walk(child, hidden, visit)


def _relation(table: exp.Table, name: str, catalog: Catalog, sql: str) -> Relation:
    try:
        return catalog.get(name if not table.args.get("db") else table.sql())
    except SqlError as error:
        line, column = place(table, sql) if sql else (0, 0)
        raise SqlError(error.message, sql=sql, line=line, column=column, hint=error.hint) from error


def _view_query(relation: Relation) -> exp.Query:
    statement = parse(relation.sql, relation.dialect)
    assert isinstance(statement, CreateView)
    return statement.query

"""Reads that need no Spark: plain columns of one relation, comparisons with literals, order and limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlglot.expressions as exp

from engine.sql.catalog import Catalog
from engine.sql.expressions import conjuncts
from engine.sql.statements import CreateView, identifier, parse

_OPS = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}


@dataclass(frozen=True)
class Predicate:
    """A column compared with literals: `op` is =, <>, <, <=, >, >=, in, is null or is not null."""

    column: str
    op: str
    values: tuple[Any, ...] = ()


@dataclass(frozen=True)
class PointRead:
    """A simple read: `columns` = (output name, table column); `order` = (column, descending, nulls first)."""

    table: str
    columns: tuple[tuple[str, str], ...]
    count_name: str | None
    predicates: tuple[Predicate, ...]
    order: tuple[tuple[str, bool, bool], ...]
    limit: int | None
    offset: int

    @property
    def reads(self) -> tuple[str, ...]:
        """The table columns that the read needs."""
        wanted = (
            [c for _, c in self.columns] + [p.column for p in self.predicates] + [c for c, _, _ in self.order]
        )
        return tuple(dict.fromkeys(wanted))


class _TooComplex(Exception):
    pass


_ALLOWED = {"kind", "expressions", "from_", "where", "order", "limit", "offset"}


def point_read(query: exp.Query, catalog: Catalog, dialect: str) -> PointRead | None:
    """Return the simple read that a query is, or None."""
    if not isinstance(query, exp.Select) or any(v for k, v in query.args.items() if k not in _ALLOWED):
        return None
    from_ = query.args.get("from_")
    if from_ is None or not isinstance(from_.this, exp.Table) or from_.this.args.get("joins"):
        return None
    table = from_.this
    if set(k for k, v in table.args.items() if v) - {"this", "alias"}:
        return None
    name = identifier(table.this)
    relation = catalog.relations.get(name)
    if relation is None or relation.kind not in ("table", "materialized view"):
        return None
    alias = table.alias.lower() or name
    shown = [c.name for c in relation.columns if not c.hidden]
    try:
        return _read(query, name, alias, shown, dialect)
    except _TooComplex:
        return None


def _read(query: exp.Select, name: str, alias: str, shown: list[str], dialect: str) -> PointRead:
    columns: list[tuple[str, str]] = []
    count_name = None
    for item in query.expressions:
        inner = item.this if isinstance(item, exp.Alias) else item
        if isinstance(inner, exp.Star) and not any(inner.args.values()):
            columns += [(c, c) for c in shown]
        elif (
            isinstance(inner, exp.Count) and isinstance(inner.this, exp.Star) and len(query.expressions) == 1
        ):
            if query.args.get("order") or query.args.get("limit") or query.args.get("offset"):
                raise _TooComplex
            count_name = identifier(item.args["alias"]) if isinstance(item, exp.Alias) else "count(1)"
        else:
            column = _column(inner, alias, shown)
            columns.append(
                (identifier(item.args["alias"]) if isinstance(item, exp.Alias) else column, column)
            )
    if len({output for output, _ in columns}) != len(columns):
        raise _TooComplex
    where = query.args.get("where")
    predicates = [_predicate(c, alias, shown) for c in conjuncts(where.this)] if where else []
    order = []
    names = dict(columns)
    for item in query.args["order"].expressions if query.args.get("order") else ():
        inner = item.this
        if isinstance(inner, exp.Column) and not inner.args.get("table") and identifier(inner.this) in names:
            column = names[identifier(inner.this)]
        else:
            column = _column(inner, alias, shown)
        descending = bool(item.args.get("desc"))
        nulls_first = item.args.get("nulls_first")
        if nulls_first is None:
            nulls_first = descending if dialect != "spark" else not descending
        order.append((column, descending, bool(nulls_first)))
    limit, offset = _count(query.args.get("limit")), _count(query.args.get("offset"))
    return PointRead(name, tuple(columns), count_name, tuple(predicates), tuple(order), limit, offset or 0)


def _count(node: exp.Expression | None) -> int | None:
    if node is None:
        return None
    if not isinstance(node.expression, exp.Literal) or node.expression.is_string:
        raise _TooComplex
    return int(node.expression.name)


def _column(node: exp.Expression, alias: str, shown: list[str]) -> str:
    if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star) or node.args.get("db"):
        raise _TooComplex
    if node.args.get("table") and identifier(node.args["table"]) != alias:
        raise _TooComplex
    name = identifier(node.this)
    if name not in shown:
        raise _TooComplex
    return name


def _predicate(node: exp.Expression, alias: str, shown: list[str]) -> Predicate:
    if isinstance(node, exp.Paren):
        return _predicate(node.this, alias, shown)
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        return Predicate(_column(node.this, alias, shown), "is null")
    if (
        isinstance(node, exp.Not)
        and isinstance(node.this, exp.Is)
        and isinstance(node.this.expression, exp.Null)
    ):
        return Predicate(_column(node.this.this, alias, shown), "is not null")
    if isinstance(node, exp.In) and node.expressions and not node.args.get("query"):
        values = tuple(_literal(v) for v in node.expressions)
        return Predicate(_column(node.this, alias, shown), "in", values)
    op = _OPS.get(type(node))
    if op is None:
        raise _TooComplex
    if isinstance(node.this, exp.Column):
        return Predicate(_column(node.this, alias, shown), op, (_literal(node.expression),))
    return Predicate(_column(node.expression, alias, shown), _FLIPPED[op], (_literal(node.this),))


def _literal(node: exp.Expression) -> Any:
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Neg):
        value = _literal(node.this)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return -value
    if isinstance(node, exp.Literal):
        if node.is_string:
            return node.name
        if node.name.isdigit():
            return int(node.name)
    raise _TooComplex


def query_tables(query: exp.Query, catalog: Catalog) -> tuple[str, ...]:
    """Return the tables and materialized views that a query reads, each once, plain views followed; unknown names raise."""
    found: dict[str, None] = {}
    for name in _names(query):
        relation = catalog.get(name)
        if relation.kind == "view":
            found.update(dict.fromkeys(query_tables(_view_query(relation.sql, relation.dialect), catalog)))
        else:
            found[relation.name] = None
    return tuple(found)


def _names(query: exp.Query) -> list[str]:
    ctes = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
    tables = (t for t in query.find_all(exp.Table) if isinstance(t.this, exp.Identifier))
    return [name for table in tables if (name := identifier(table.this)) not in ctes]


def _view_query(sql: str, dialect: str) -> exp.Query:
    statement = parse(sql, dialect)
    assert isinstance(statement, CreateView)
    return statement.query


def to_spark(query: exp.Query, catalog: Catalog) -> str:
    """Return a query as Spark SQL, with plain views written out as subqueries."""

    def inline(node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            name = identifier(node.this)
            relation = catalog.relations.get(name)
            if relation is not None and relation.kind == "view":
                inner = _view_query(relation.sql, relation.dialect).transform(inline)
                return exp.Subquery(
                    this=inner, alias=exp.TableAlias(this=exp.to_identifier(node.alias or name))
                )
        return node

    return query.transform(inline).sql(dialect="spark")

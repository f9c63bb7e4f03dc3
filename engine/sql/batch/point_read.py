"""Reads that need no Spark: plain columns of one relation, comparisons with literals, order and limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import sqlglot.expressions as exp

from engine.jsonb.text import normalize_json
from engine.sql.batch.ad_hoc import query_tables, to_spark
from engine.sql.batch.hidden_row_ids import is_read_whole
from engine.sql.batch.time_travel import Moment, parse_moment
from engine.sql.bind.expressions import split_conjuncts
from engine.sql.catalog import Catalog, RelationColumn
from engine.sql.dialect import Dialect
from engine.sql.parsing.names import find_relation, normalize_identifier
from engine.sql.statements.dml.literal_rows import NotLiteral, read_literal
from engine.sql.typing.json_documents import is_document, validate_document

__all__ = ["PointRead", "Predicate", "point_read", "query_tables", "to_spark"]

Operator = Literal["=", "<>", "<", "<=", ">", ">="]
Test = Literal[Operator, "in", "is null", "is not null"]
_OPS: dict[type[exp.Expr], Operator] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_FLIPPED: dict[Operator, Operator] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}


@dataclass(frozen=True)
class Predicate:
    """A column compared with literals."""

    column: str
    op: Test
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
    moment: Moment | None = None

    @property
    def reads(self) -> tuple[str, ...]:
        """The table columns that the read needs."""
        columns = (
            [c for _, c in self.columns] + [p.column for p in self.predicates] + [c for c, _, _ in self.order]
        )
        return tuple(dict.fromkeys(columns))


class _TooComplex(Exception):
    pass


_TABLE_PARTS = {"this", "alias", "version", "when"}
_PARTS = {"expressions", "from_", "where", "order", "limit", "offset"}


def point_read(query: exp.Query, catalog: Catalog, dialect: Dialect, sql: str = "") -> PointRead | None:
    """Return the simple read that a query is, or None; raises SqlError for a moment that is not a constant."""
    if not isinstance(query, exp.Select) or any(v for k, v in query.args.items() if k not in _PARTS):
        return None
    from_ = query.args.get("from_")
    table = from_.this if from_ is not None else None
    if not isinstance(table, exp.Table) or {k for k, v in table.args.items() if v} - _TABLE_PARTS:
        return None
    alias = table.args.get("alias")
    if not isinstance(table.this, exp.Identifier) or (alias is not None and alias.args.get("columns")):
        return None
    relation = find_relation(table, catalog)
    if relation is None or relation.kind not in ("table", "materialized view"):
        return None
    whole = is_read_whole(table)
    visible = {column.name: column for column in relation.columns if whole or not column.hidden}
    moment = parse_moment(table, sql)
    alias_name = normalize_identifier(alias.this if alias is not None else table.this)
    reader = _PointReadPlanner(relation.name, alias_name, visible, dialect)
    try:
        return replace(reader.plan(query), moment=moment)
    except (_TooComplex, NotLiteral):
        return None


@dataclass(frozen=True)
class _PointReadPlanner:
    """Reads one SELECT over a relation with its visible columns by name; a PointRead names them as they are stored."""

    table: str
    alias: str
    visible: Mapping[str, RelationColumn]
    dialect: Dialect

    def plan(self, query: exp.Select) -> PointRead:
        columns: list[tuple[str, str]] = []
        count_name = None
        for item in query.expressions:
            inner = item.this if isinstance(item, exp.Alias) else item
            if isinstance(inner, exp.Star) and not any(inner.args.values()):
                columns += [(name, column.storage_name) for name, column in self.visible.items()]
            elif (
                isinstance(inner, exp.Count)
                and isinstance(inner.this, exp.Star)
                and not any(inner.this.args.values())  # EXCEPT: then rows without a null count
                and not inner.expressions
                and len(query.expressions) == 1
            ):
                if query.args.get("order") or query.args.get("limit") or query.args.get("offset"):
                    raise _TooComplex
                count_name = (
                    normalize_identifier(item.args["alias"]) if isinstance(item, exp.Alias) else "count(1)"
                )
            else:
                column = self._resolve_column(inner)
                name_node = item.args["alias"] if isinstance(item, exp.Alias) else inner.this
                columns.append((normalize_identifier(name_node), column))
        if len({output.lower() for output, _ in columns}) != len(columns):
            raise _TooComplex
        where = query.args.get("where")
        predicates = (
            [p for c in split_conjuncts(where.this) for p in self._parse_predicates(c)] if where else []
        )
        order = self._parse_order(query.args.get("order"), dict(columns))
        limit, offset = _parse_count(query.args.get("limit")), _parse_count(query.args.get("offset"))
        return PointRead(self.table, tuple(columns), count_name, tuple(predicates), order, limit, offset or 0)

    def _parse_order(
        self, node: exp.Order | None, names: Mapping[str, str]
    ) -> tuple[tuple[str, bool, bool], ...]:
        found = []
        for item in node.expressions if node is not None else ():
            inner = item.this
            plain = isinstance(inner, exp.Column) and not inner.args.get("table")
            column = names.get(normalize_identifier(inner.this)) if plain else None
            descending = bool(item.args.get("desc"))
            nulls_first = item.args.get("nulls_first")
            if nulls_first is None:
                nulls_first = descending if self.dialect != "spark" else not descending
            found.append((column or self._resolve_column(inner), descending, bool(nulls_first)))
        return tuple(found)

    def _resolve_column(self, node: exp.Expr) -> str:
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star) or node.args.get("db"):
            raise _TooComplex
        if node.args.get("table") and normalize_identifier(node.args["table"]) != self.alias:
            raise _TooComplex
        name = normalize_identifier(node.this)
        if name not in self.visible:
            raise _TooComplex
        return self.visible[name].storage_name

    def _parse_predicates(self, node: exp.Expr) -> list[Predicate]:
        match node:
            case exp.Paren():
                return self._parse_predicates(node.this)
            case exp.Is(expression=exp.Null()):
                return [self._build_null_test(node, denied=False)]
            case exp.Not(this=exp.Is(expression=exp.Null()) as inner):
                return [self._build_null_test(inner, denied=True)]
            case exp.In() if node.expressions and not node.args.get("query"):
                column = self._resolve_column(node.this)
                return [
                    Predicate(column, "in", tuple(self._parse_literal(v, column) for v in node.expressions))
                ]
            case exp.Between() if not node.args.get("symmetric"):
                column = self._resolve_column(node.this)
                low, high = (self._parse_literal(node.args[part], column) for part in ("low", "high"))
                return [Predicate(column, ">=", (low,)), Predicate(column, "<=", (high,))]
        op = _OPS.get(type(node))
        if op is None:
            raise _TooComplex
        if isinstance(node.this, exp.Column):
            column = self._resolve_column(node.this)
            return [Predicate(column, op, (self._parse_literal(node.expression, column),))]
        column = self._resolve_column(node.expression)
        return [Predicate(column, _FLIPPED[op], (self._parse_literal(node.this, column),))]

    def _build_null_test(self, node: exp.Is, *, denied: bool) -> Predicate:
        """Return the predicate of IS NULL, or of IS NOT NULL, which sqlglot reads as one node."""
        is_not = denied is not bool(node.args.get("negate"))
        return Predicate(self._resolve_column(node.this), "is not null" if is_not else "is null")

    def _parse_literal(self, node: exp.Expr, column: str) -> Any:
        known = next(found for found in self.visible.values() if found.storage_name == column)
        value = read_literal(node, known.type, self.dialect)
        if is_document(known) and value is not None:
            if known.sql_type != "jsonb" or validate_document(value, known) is not None:
                raise _TooComplex
            value = normalize_json(value)
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise _TooComplex
        return value


def _parse_count(node: exp.Expr | None) -> int | None:
    if node is None:
        return None
    if node.args.get("expressions") or node.args.get("limit_options"):  # BY, PERCENT, WITH TIES
        raise _TooComplex
    number = node.expression
    if not isinstance(number, exp.Literal) or number.is_string or not number.name.isdigit():
        raise _TooComplex
    return int(number.name)

"""Literal rows of INSERT … VALUES as Python values."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import sqlglot.expressions as exp

from engine.errors import SqlError
from engine.sql.catalog import Relation
from engine.sql.position import place
from engine.sql.statements import Insert


class _NotLiteral(Exception):
    pass


def literal_rows(insert: Insert, relation: Relation, dialect: str) -> list[tuple[Any, ...]] | None:
    """Return the rows of an INSERT if all values are literals, else None; raises SqlError for a row of a wrong width."""
    if not isinstance(insert.rows, exp.Values):
        return None
    names = insert.columns or tuple(column.name for column in relation.columns if not column.hidden)
    kinds = {column.name: column.type for column in relation.columns}
    for name in names:
        if name not in kinds:
            raise SqlError(f"table {relation.name} has no column {name}", sql=insert.sql, line=1, column=1)
    rows = []
    try:
        for row in insert.rows.expressions:
            values = row.expressions if isinstance(row, exp.Tuple) else [row]
            if len(values) != len(names):
                line, column = place(row, insert.sql)
                raise SqlError(
                    f"{len(values)} values for {len(names)} columns",
                    sql=insert.sql,
                    line=line,
                    column=column,
                    hint=f"the columns are {', '.join(names)}",
                )
            rows.append(tuple(_value(v, kinds[name]) for v, name in zip(values, names, strict=True)))
    except _NotLiteral:
        return None
    return rows


def _value(node: exp.Expression, kind: str) -> Any:
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return _number(node.this.name, kind, -1)
    if isinstance(node, exp.Literal):
        return node.name if node.is_string and kind == "string" else _typed(node, kind)
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.this.is_string:
        return _typed(node.this, kind)
    raise _NotLiteral


def _typed(node: exp.Literal, kind: str) -> Any:
    if not node.is_string:
        return _number(node.name, kind, 1)
    try:
        if kind == "date":
            return datetime.date.fromisoformat(node.name)
        if kind in ("timestamp", "timestamp_ntz"):
            moment = datetime.datetime.fromisoformat(node.name)
            if kind == "timestamp" and moment.tzinfo is None:
                moment = moment.replace(tzinfo=datetime.UTC)
            return moment
    except ValueError as error:
        raise SqlError(
            f"'{node.name}' is no {kind}", hint="write 2026-01-31 or 2026-01-31 12:00:00"
        ) from error
    raise _NotLiteral


def _number(text: str, kind: str, sign: int) -> Any:
    if kind in ("tinyint", "smallint", "int", "bigint") and text.isdigit():
        return sign * int(text)
    if kind in ("float", "double"):
        return sign * float(text)
    if kind.startswith("decimal"):
        value = sign * Decimal(text)
        scale = int(kind.rstrip(")").split(",")[1])
        if value == value.quantize(Decimal(1).scaleb(-scale)):
            return value
    raise _NotLiteral

"""Literal rows of INSERT … VALUES as Python values."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal, InvalidOperation
from typing import Any

import sqlglot.expressions as exp

from engine.errors import UnsupportedSql
from engine.sql.catalog import Relation
from engine.sql.refusals import mistake
from engine.sql.statement_types import Insert
from engine.sql.types import parse_type

_INTEGRAL = ("tinyint", "smallint", "int", "bigint")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:\d{2})?)?")


class NotLiteral(Exception):
    """The expression is no literal that certainly means a value of the type; Spark has to evaluate it."""


def literal_rows(insert: Insert, relation: Relation, dialect: str) -> list[tuple[Any, ...]] | None:
    """Return the rows of an INSERT if all values are literals of their columns' types, else None.

    Raises SqlError for an unknown column and for a row of a wrong width.
    """
    if not isinstance(insert.rows, exp.Values):
        return None
    shown = tuple(column.name for column in relation.columns if not column.hidden)
    names = insert.columns or shown
    kinds = {column.name: column.type for column in relation.columns}
    for name in names:
        if name not in shown:
            node = next(
                (part for part in insert.rows.root().find_all(exp.Identifier) if part.name.lower() == name),
                None,
            )
            hint = f"the columns are {', '.join(shown)}"
            raise mistake(f"table {relation.name} has no column {name}", node, insert.sql, hint)
    rows = []
    try:
        for row in insert.rows.expressions:
            values = row.expressions if isinstance(row, exp.Tuple) else [row]
            if len(values) != len(names):
                hint = f"the columns are {', '.join(names)}"
                raise mistake(f"{len(values)} values for {len(names)} columns", row, insert.sql, hint)
            pairs = zip(values, names, strict=True)
            rows.append(tuple(literal(value, kinds[name], dialect) for value, name in pairs))
    except NotLiteral:
        return None
    return rows


def literal(node: exp.Expression, kind: str, dialect: str) -> Any:
    """Return the value of type `kind` that a literal means; raises NotLiteral if that takes more than reading it."""
    if isinstance(node, exp.Paren):
        return literal(node.this, kind, dialect)
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Boolean) and kind == "boolean":
        return bool(node.this)
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return _number(node.this.name, kind, -1)
    if isinstance(node, exp.Literal):
        return _text(node.name, kind) if node.is_string else _number(node.name, kind, 1)
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.this.is_string:
        try:
            target = parse_type(node.to, dialect)
        except UnsupportedSql:
            target = ""
        if (
            target == kind
            and type(node) is exp.Cast
            and kind in ("date", "timestamp", "timestamp_ntz", "string")
        ):
            return _text(node.this.name, kind)
    raise NotLiteral


def _text(text: str, kind: str) -> Any:
    if kind == "string":
        return text
    try:
        if kind == "date" and _DATE.fullmatch(text):
            return datetime.date.fromisoformat(text)
        if kind in ("timestamp", "timestamp_ntz") and _MOMENT.fullmatch(text):
            moment = datetime.datetime.fromisoformat(text)
            if kind == "timestamp":
                return moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)
            if moment.tzinfo is None:
                return moment
    except ValueError:
        pass  # no day of the calendar: Spark says so in its own words
    raise NotLiteral


def _number(text: str, kind: str, sign: int) -> Any:
    if kind in _INTEGRAL and text.isdigit():
        return sign * int(text)
    if kind in ("float", "double"):
        return sign * float(text)
    if kind.startswith("decimal"):
        value = sign * Decimal(text)
        scale = int(kind.rstrip(")").split(",")[1])
        try:
            if value == value.quantize(Decimal(1).scaleb(-scale)):
                return value
        except InvalidOperation:
            pass  # more digits than any decimal has
    raise NotLiteral

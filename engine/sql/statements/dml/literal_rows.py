"""Literal rows of INSERT … VALUES as Python values."""

from __future__ import annotations

import datetime
import math
import re
from dataclasses import replace
from decimal import Decimal
from typing import Any

import sqlglot.expressions as exp

from engine.errors import UnsupportedSql, WrongRow
from engine.sql.catalog import Relation, RelationColumn
from engine.sql.dialect import Dialect
from engine.sql.parsing.location import copy_location, locate
from engine.sql.parsing.statement_errors import sql_error
from engine.sql.parsing.tree_parser import parse_tree
from engine.sql.statements.statement_types import Insert
from engine.sql.typing.intervals import evaluate_interval, parse_interval
from engine.sql.typing.json_documents import is_document, validate_document
from engine.sql.typing.text_lengths import validate_length
from engine.sql.typing.time_texts import FURTHEST_ZONE
from engine.sql.typing.types import parse_type
from engine.sql.typing.whole_numbers import INTEGRAL, WIDTHS
from engine.sql.typing.wrong_literals import refuse_wrong

_MOST_DIGITS = 1_000
_WHOLE = re.compile(r"[+-]?\d{1,30}", re.ASCII)
_DECIMAL = re.compile(r"[+-]?\d{1,60}(\.\d{1,60})?", re.ASCII)
_FLOAT = re.compile(r"[+-]?(\d{1,60}(\.\d{0,60})?|\.\d{1,60})(e[+-]?\d{1,3})?", re.IGNORECASE | re.ASCII)
_TRUTH = {"true": True, "t": True, "false": False, "f": False}
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIME = re.compile(r"\d{2}:\d{2}:\d{2}(\.\d{1,6})?", re.ASCII)
_MOMENT = re.compile(
    r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:\d{2})?)?", re.ASCII
)


class NotLiteral(Exception):
    """The expression is no literal that certainly means a value of the type; Spark has to evaluate it."""


def read_literal_rows(insert: Insert, relation: Relation, dialect: Dialect) -> list[tuple[Any, ...]] | None:
    """Return the rows of an INSERT if all values are literals of their columns' types, else None.

    Raises SqlError for an unknown column and for a row of a wrong width.
    """
    if not isinstance(insert.rows, exp.Values):
        return None
    visible = tuple(column.name for column in relation.visible_columns)
    names = insert.columns or visible
    check_known_columns(insert, relation)
    columns = {column.name: column for column in relation.columns}
    kinds = {name: column.type for name, column in columns.items()}
    rows = []
    try:
        for row in insert.rows.expressions:
            values = row.expressions if isinstance(row, exp.Tuple) else [row]
            if len(values) != len(names):
                hint = f"the columns are {', '.join(names)}"
                raise sql_error(f"{len(values)} values for {len(names)} columns", row, insert.sql, hint)
            pairs = list(zip(values, names, strict=True))
            for value, name in pairs:
                refuse_wrong(value, kinds[name], name, insert.sql)
            found = tuple(read_literal(value, kinds[name], dialect) for value, name in pairs)
            for value, (node, name) in zip(found, pairs, strict=True):
                _refuse_misfit(value, node, columns[name], relation, insert.sql)
            rows.append(found)
    except NotLiteral:
        return None
    return rows


def _refuse_misfit(value: Any, node: exp.Expr, column: RelationColumn, relation: Relation, sql: str) -> None:
    """Raise WrongRow, with the place, for a null where none may be, and for a value that a column cannot hold."""
    found = find_misfit(value, column)
    if value is None and relation.is_never_null(column):
        why = "part of the primary key" if column.storage_name in relation.unique_key else "NOT NULL"
        found = f"column {column.name} of {relation.name} is {why}", "write a value"
    if found is not None:
        line, at = locate(node, sql)
        raise WrongRow(found[0], sql=sql, line=line, column=at, hint=found[1])


def find_misfit(value: Any, column: RelationColumn) -> tuple[str, str] | None:
    """Return what is wrong with a value that a column cannot hold, and the remedy, else None."""
    if value is None:
        return None
    if column.length is not None:
        wrong = validate_length(value, column)
        return None if wrong is None else (wrong, "write a shorter text")
    if is_document(column):
        wrong = validate_document(value, column)
        return None if wrong is None else (wrong, "write JSON, as '{\"key\": 1}'")
    message = f"{str(value)[:60]} does not fit column {column.name}, which is {column.type}"
    bits = WIDTHS.get(column.type)
    if bits is not None and not -(1 << bits - 1) <= value < 1 << bits - 1:
        return message, f"numbers of {column.type} go from {-(1 << bits - 1)} to {(1 << bits - 1) - 1}"
    if column.type.startswith("decimal"):
        precision, scale = (int(part) for part in column.type[8:-1].split(","))
        if abs(value) >= Decimal(1).scaleb(precision - scale):
            return message, f"it has {precision - scale} digits before the point at most"
    most = {"float": 3.4028235677973366e38, "double": math.inf}.get(column.type)
    if most is not None and abs(value) >= most:
        return message, "write a smaller number"
    return None


def check_known_columns(insert: Insert, relation: Relation) -> None:
    """Raise SqlError, with the place, for a column of an INSERT that its table does not have."""
    visible = tuple(column.name for column in relation.visible_columns)
    for name in insert.columns or ():
        if name not in visible:
            node = next(
                (part for part in insert.rows.root().find_all(exp.Identifier) if part.name.lower() == name),
                None,
            )
            hint = f"the columns are {', '.join(visible)}"
            raise sql_error(f"table {relation.name} has no column {name}", node, insert.sql, hint)


def split_default_rows(insert: Insert, relation: Relation, dialect: Dialect) -> list[Insert]:
    """Return an INSERT as several, none of which has the word DEFAULT: rows that have it leave the column out.

    Rows of PostgreSQL's family may be shorter than the table, and so may those of any dialect that lack generated columns. Raises
    SqlError for a row of a wrong width.
    """
    if not isinstance(insert.rows, exp.Values):
        return [insert]
    names = insert.columns or tuple(column.name for column in relation.visible_columns)
    if all(_is_whole(row, len(names)) for row in insert.rows.expressions):
        return [insert]
    groups: dict[tuple[str, ...], list[exp.Expr]] = {}
    for row in insert.rows.expressions:
        values = row.expressions if isinstance(row, exp.Tuple) else [row]
        names_here = names[: len(values)]
        left_out = dialect != "spark" or has_only_generated(relation, names[len(values) :])
        short = len(values) < len(names) and bool(values) and (bool(insert.columns) or not left_out)
        if len(values) > len(names) or short:
            hint = f"the columns are {', '.join(names)}"
            raise sql_error(f"{len(values)} values for {len(names)} columns", row, insert.sql, hint)
        explicit = [n for n, value in enumerate(values) if not _is_default(value)]
        explicit_values = [values[n].copy() for n in explicit]
        columns = tuple(names_here[n] for n in explicit)
        if not explicit_values:
            columns, explicit_values = _pick_default(relation)
        groups.setdefault(columns, []).append(copy_location(exp.Tuple(expressions=explicit_values), row))
    return [
        replace(insert, columns=columns, rows=copy_location(exp.Values(expressions=rows), insert.rows))
        for columns, rows in groups.items()
    ]


def _pick_default(relation: Relation) -> tuple[tuple[str, ...], list[exp.Expr]]:
    """Return a column, and the value that it gets anyway, for a row that leaves all out."""
    candidates = [column for column in relation.columns if not column.hidden and column.generated is None]
    column = next((column for column in candidates if column.default is None), candidates[0])
    value = (
        exp.Null()
        if column.default is None
        else parse_tree(f"SELECT {column.default}", "spark").expressions[0]
    )
    return (column.name,), [value]


def _is_whole(row: exp.Expr, width: int) -> bool:
    """Tell whether a row has a value for each column, none of them the word DEFAULT."""
    values = row.expressions if isinstance(row, exp.Tuple) else [row]
    return len(values) == width and not any(_is_default(value) for value in values)


def has_only_generated(relation: Relation, names: tuple[str, ...]) -> bool:
    """Tell whether all these columns are generated, so that a row may leave them out."""
    generated = {column.name for column in relation.columns if column.generated is not None}
    return set(names) <= generated


def _is_default(node: exp.Expr) -> bool:
    word = node.this if isinstance(node, exp.Column) and not node.args.get("table") else node
    return (
        isinstance(word, exp.Var | exp.Identifier)
        and not word.args.get("quoted")
        and word.name.upper() == "DEFAULT"
    )


def read_literal(node: exp.Expr, kind: str, dialect: Dialect) -> Any:
    """Return the value of type `kind` that a literal means; raises NotLiteral if that takes more than reading it."""
    if isinstance(node, exp.Paren):
        return read_literal(node.this, kind, dialect)
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Boolean) and kind == "boolean":
        return bool(node.this)
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return _parse_number(node.this.name, kind, -1)
    if kind == "interval day to second":
        span = (
            parse_interval(node.name, standard=dialect == "spark")
            if isinstance(node, exp.Literal) and node.is_string
            else evaluate_interval(node)
        )
        if span is None:
            raise NotLiteral
        return span
    if isinstance(node, exp.HexString) and kind == "binary" and len(node.name) % 2 == 0:
        return bytes.fromhex(node.name)
    if isinstance(node, exp.Literal):
        if node.is_string:
            return _parse_text(node.name, kind) if dialect == "spark" else _parse_untyped(node.name, kind)
        return _parse_number(node.name, kind, 1)
    if type(node) is exp.Cast and _is_same_type(node.to, kind, dialect):
        return _cast(node.this, kind, dialect)
    raise NotLiteral


def _is_same_type(cast_type: exp.DataType, kind: str, dialect: Dialect) -> bool:
    """Tell whether a written type is that of a column, so that a cast to it changes nothing; one with a length cuts."""
    try:
        target = parse_type(cast_type, dialect)
    except UnsupportedSql:
        return False
    if target == "string" and cast_type.expressions:
        return False
    any_decimal = (
        dialect != "spark" and cast_type.this == exp.DataType.Type.DECIMAL and not cast_type.expressions
    )
    return target == kind or (any_decimal and kind.startswith("decimal"))


def _cast(node: exp.Expr, kind: str, dialect: Dialect) -> Any:
    """Return what a literal means as a value of the type that it is cast to."""
    if dialect != "spark":
        return read_literal(node, kind, dialect)
    if isinstance(node, exp.Literal) and node.is_string:
        if kind in ("date", "time(6)", "timestamp", "timestamp_ntz", "string"):
            return _parse_text(node.name, kind)
        if kind in ("float", "double") and _FLOAT.fullmatch(node.name):
            return float(node.name)
    raise NotLiteral


def _parse_untyped(text: str, kind: str) -> Any:
    """Return what a text in quotes means in PostgreSQL, which reads it as a value of the column's type."""
    if kind in INTEGRAL and _WHOLE.fullmatch(text):
        return int(text)
    if kind.startswith("decimal") and _DECIMAL.fullmatch(text):
        return _parse_number(text.lstrip("+-"), kind, -1 if text.startswith("-") else 1)
    if kind in ("float", "double") and _FLOAT.fullmatch(text):
        return float(text)
    if kind == "boolean" and text.lower() in _TRUTH:
        return _TRUTH[text.lower()]
    return _parse_text(text, kind)


def _parse_text(text: str, kind: str) -> Any:
    if kind == "string":
        return text
    try:
        if kind == "time(6)" and _TIME.fullmatch(text):
            return datetime.time.fromisoformat(text)
        if kind == "date" and _DATE.fullmatch(text):
            return datetime.date.fromisoformat(text)
        if kind in ("timestamp", "timestamp_ntz") and _MOMENT.fullmatch(text):
            moment = datetime.datetime.fromisoformat(text)
            if abs((moment.utcoffset() or datetime.timedelta()).total_seconds()) > FURTHEST_ZONE:
                raise NotLiteral
            if kind == "timestamp":
                return moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)
            if moment.tzinfo is None:
                return moment
    except ValueError:
        pass  # no day of the calendar: Spark says so in its own words
    raise NotLiteral


def _parse_number(text: str, kind: str, sign: int) -> Any:
    if kind in INTEGRAL and text.isdigit() and len(text) <= _MOST_DIGITS:
        return sign * int(text)
    if kind in ("float", "double"):
        return sign * float(text)
    if kind.startswith("decimal"):
        scale = int(kind.rstrip(")").split(",")[1])
        try:
            value = sign * Decimal(text)
            if value == value.quantize(Decimal(1).scaleb(-scale)):
                return value
        except ArithmeticError:
            pass  # more digits than any decimal has
    raise NotLiteral

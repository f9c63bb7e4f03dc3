"""Values for `?`, `$1` and `:name`: each takes its parameter's place in the parsed statement, never in its text."""

from __future__ import annotations

import datetime
import math
import uuid
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import sqlglot.expressions as exp

from engine.arrow import as_values, format_moment, repeat_value
from engine.sql.dialect import Dialect
from engine.sql.parsing.location import copy_location
from engine.sql.parsing.statement_errors import sql_error, unsupported_error

Parameters = Sequence[Any] | Mapping[str, Any]
"""Values in the order of `?` or by the numbers of `$1`, or by the names of `:name`."""

_TAKES = (exp.Query, exp.Values, exp.Insert, exp.Update, exp.Delete)
_FORM = (
    's.sql("SELECT … WHERE a = ? AND b = ?", [1, "x"]), or $1 and $2, or :a and :b with {"a": 1, "b": "x"}'
)
_SPAN, _EPOCH = datetime.timedelta(microseconds=1), datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def bind_parameters(tree: exp.Expr, values: Parameters | None, sql: str, dialect: Dialect) -> exp.Expr:
    """Return a statement's tree with values in the places of its parameters.

    Raises SqlError, with the place, for a parameter without a value, for a value without a parameter, and for one of a type that
    SQL has no literal for.
    """
    found = sorted((node for node in tree.walk() if _is_parameter(node)), key=_find_start)
    if not found and not values:
        return tree
    if found and not isinstance(tree, _TAKES):
        hint = "write the value itself: SELECT, INSERT, UPDATE, DELETE and EXPLAIN take values, but this text is kept"
        raise unsupported_error(f"{_format_parameter(found[0])} has no value here", found[0], sql, hint)
    if values is None:
        raise sql_error(f"{_format_parameter(found[0])} has no value", found[0], sql, f"give values: {_FORM}")
    if isinstance(values, str | bytes) or not isinstance(values, Sequence | Mapping):
        raise sql_error("the values are neither a list nor a mapping", None, sql, _FORM)
    bound = _ParameterValues(values, sql, dialect)
    for n, node in enumerate(found):
        key = bound.find_key(node, n)
        value = bound.resolve_value(key, node)
        if isinstance(node.parent, exp.Limit | exp.Offset) and isinstance(value, exp.Cast):
            value = value.this  # a number of rows is a literal, in whatever type it was prepared
        new = copy_location(value, node)
        if node is tree:
            return new
        node.replace(new)
    bound.refuse_unused()
    return tree


def _is_parameter(node: exp.Expr) -> bool:
    return isinstance(node, exp.Placeholder) or (
        isinstance(node, exp.Parameter) and isinstance(node.this, exp.Literal) and not node.this.is_string
    )


def _find_start(node: exp.Expr) -> int:
    return int(node.meta.get("start", 0))


def _format_parameter(node: exp.Expr) -> str:
    if isinstance(node, exp.Parameter):
        return f"${node.this.name}"
    return f":{node.this}" if node.this else "?"


class _ParameterValues:
    """The values of one statement, and which of them have found their place."""

    def __init__(self, values: Parameters, sql: str, dialect: Dialect) -> None:
        self.values, self.sql, self.dialect = values, sql, dialect
        self.used: set[str | int] = set()
        self.styles: set[type] = set()

    def find_key(self, node: exp.Expr, n: int) -> str | int:
        """Return the index or name of a parameter's value; raises SqlError if there is none."""
        named = isinstance(node, exp.Placeholder) and bool(node.this)
        if named != isinstance(self.values, Mapping):
            hint = "a mapping goes with :name, a list with ? and $1"
            raise sql_error(
                f"{_format_parameter(node)} and the values are of two kinds", node, self.sql, hint
            )
        self.styles.add(type(node))
        if len(self.styles) > 1:
            raise sql_error(
                "? and $1 are used in one statement", node, self.sql, "number all of them, or none"
            )
        key: str | int = str(node.this) if named else int(node.this.name) - 1 if node.this else n
        if key not in self.values if named else not 0 <= int(key) < len(self.values):
            count_text = "1 was given" if len(self.values) == 1 else f"{len(self.values)} were given"
            raise sql_error(
                f"{_format_parameter(node)} has no value", node, self.sql, f"give one for each; {count_text}"
            )
        self.used.add(key)
        return key

    def resolve_value(self, key: str | int, node: exp.Expr) -> exp.Expr:
        """Return the literal for the value of a parameter; raises SqlError for a type that has none."""
        found = build_literal(self.values[key], self.dialect)  # type: ignore[index]  # a key of its kind
        if found is None:
            kind = type(self.values[key]).__name__  # type: ignore[index]  # a key of its kind
            hint = (
                "give numbers, texts, bytes, booleans, dates, times, intervals, UUIDs, None, or lists of them"
            )
            raise sql_error(f"{_format_parameter(node)} is of the type {kind}", node, self.sql, hint)
        return found

    def refuse_unused(self) -> None:
        """Raise SqlError if a value has no parameter."""
        if len(self.used) < len(self.values):
            keys = self.values if isinstance(self.values, Mapping) else range(len(self.values))
            left = [key for key in keys if key not in self.used]
            name = f":{left[0]}" if isinstance(left[0], str) else f"value {left[0] + 1}"
            message = f"{name} has no place in the statement"
            raise sql_error(message, None, self.sql, "give as many values as it has parameters")


def build_literal(value: Any, dialect: Dialect) -> exp.Expr | None:
    """Return the literal that means a Python value in a dialect, None for a type without one.

    Texts are untyped in PostgreSQL's family, as quoted literals are there: what stands beside them gives the type.
    """
    if hasattr(value, "as_py"):  # of Arrow
        (value,) = as_values(repeat_value(value, 1))
    elif hasattr(value, "item") and not isinstance(value, Sequence):  # of NumPy
        value = value.item()
    match value:
        case exp.Expr():  # of EXECUTE
            return value.copy()
        case None:
            return exp.Null()
        case bool():
            return exp.Boolean(this=value)
        case int():
            return _build_number(str(value))
        case float():
            text = (
                repr(value)
                if math.isfinite(value)
                else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
            )
            return _cast(text, "double" if dialect == "spark" else "double precision", dialect)
        case Decimal():
            return _build_number(format(value, "f")) if value.is_finite() else None
        case str():
            return exp.Literal.string(value)
        case uuid.UUID():
            return exp.Literal.string(str(value))
        case bytes() | bytearray() | memoryview():
            return exp.HexString(this=bytes(value).hex().upper())
        case datetime.datetime():
            return _build_moment(value, dialect)
        case datetime.date():
            return _cast(value.isoformat(), "date", dialect)
        case datetime.time() if value.tzinfo is None:
            return _cast(value.isoformat(), "time", dialect)
        case datetime.timedelta():
            seconds = Decimal(value // _SPAN).scaleb(-6)
            return exp.Interval(this=exp.Literal.string(format(seconds, "f")), unit=exp.Var(this="SECOND"))
        case list() | tuple():
            items = [build_literal(item, dialect) for item in value]
            return None if None in items else exp.Array(expressions=items)
    return None


def _build_number(text: str) -> exp.Expr:
    if text.startswith("-"):
        return exp.Paren(this=exp.Neg(this=exp.Literal.number(text[1:])))
    return exp.Literal.number(text)


def _cast(text: str, kind: str, dialect: Dialect) -> exp.Expr:
    return exp.Cast(this=exp.Literal.string(text), to=exp.DataType.build(kind, dialect=dialect))


def _build_moment(value: datetime.datetime, dialect: Dialect) -> exp.Expr:
    if value.tzinfo is None:
        return _cast(value.isoformat(" "), "timestamp_ntz" if dialect == "spark" else "timestamp", dialect)
    micros = (value - _EPOCH) // _SPAN  # in UTC it may be of a year that Python has not
    text = f"{format_moment(micros)}+00:00"
    return _cast(text, "timestamp" if dialect == "spark" else "timestamptz", dialect)

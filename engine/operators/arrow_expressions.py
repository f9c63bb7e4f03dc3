"""From Spark SQL to values that Arrow computes: whole numbers, comparisons, truth values, and their folds by group.

A small subset on purpose. What is outside of it has no form here and is left to Spark; what is inside but cannot be computed
exactly (`arrow_values.Inexact`) makes Spark compute the epoch instead, its error included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import sqlglot
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)
from sqlglot import expressions as e

from engine.operators.arrow_values import ARROW_TYPES, Fold, GroupBy, Value

_WIDTH: dict[DataType, int] = {ByteType(): 8, ShortType(): 16, IntegerType(): 32, LongType(): 64}
_CASTS: dict[str, DataType] = {
    "TINYINT": ByteType(),
    "SMALLINT": ShortType(),
    "INT": IntegerType(),
    "BIGINT": LongType(),
    "DATE": DateType(),
}
_COMPARISONS: dict[type[e.Expr], str] = {
    e.EQ: "equal",
    e.NEQ: "not_equal",
    e.LT: "less",
    e.LTE: "less_equal",
    e.GT: "greater",
    e.GTE: "greater_equal",
    e.NullSafeEQ: "same",
}
_ARITHMETIC: dict[type[e.Expr], str] = {
    e.Add: "add_checked",
    e.Sub: "subtract_checked",
    e.Mul: "multiply_checked",
}


class _Unknown(Exception):
    """Not an expression of the subset."""


class Compiler:
    """Compiles Spark SQL text over the columns of a schema; `utc` says whether Spark's session time zone is UTC."""

    def __init__(self, schema: StructType, utc: Callable[[], bool]) -> None:
        self._kinds: Mapping[str, DataType] = {field.name: field.dataType for field in schema.fields}
        self._ambiguous = len({name.lower() for name in self._kinds}) != len(schema.fields)
        self._utc = utc
        self._folds: list[Fold] | None = None

    def value(self, text: str) -> Value | None:
        """Return a text's value, or None if Spark has to compute it."""
        found = self._tree(text)
        try:
            return None if found is None else self._value(found)
        except _Unknown:
            return None

    def named(self, texts: Sequence[str]) -> tuple[tuple[str, Value], ...] | None:
        """Return (name, value) of each `expression AS name`, `*` or column, or None if Spark has to compute one of them."""
        items: list[tuple[str, Value]] = []
        try:
            for text in texts:
                found = self._tree(text)
                if isinstance(found, e.Star):
                    items += [(name, self._column(name)) for name in self._kinds]
                elif isinstance(found, e.Alias):
                    items.append((found.alias, self._value(found.this)))
                elif isinstance(found, e.Column):
                    items.append((found.name, self._value(found)))
                else:
                    return None
        except _Unknown:
            return None
        return tuple(items) if len({name.lower() for name, _ in items}) == len(items) else None

    def grouped(
        self, keys: Sequence[tuple[str, str]], calls: Sequence[tuple[str, str]]
    ) -> tuple[GroupBy, StructType] | None:
        """Return the body that groups by the texts of `keys` and computes those of `calls`, and the schema of its rows."""
        by = [(name, self.value(text)) for name, text in keys]
        if any(value is None or value.kind not in ARROW_TYPES for _, value in by):
            return None
        self._folds = []
        results = [(name, self.value(text)) for name, text in calls]
        folds, self._folds = self._folds, None
        named = [(name, value) for name, value in (*by, *results) if value is not None]
        if not folds or not keys or len(named) < len(keys) + len(calls):
            return None
        body = GroupBy(tuple(named[: len(keys)]), tuple(folds), tuple(named[len(keys) :]))
        return body, StructType([StructField(name, value.kind) for name, value in named])

    def _tree(self, text: str) -> e.Expr | None:
        return None if self._ambiguous else _parsed(text)

    def _column(self, name: str) -> Value:
        if name not in self._kinds:
            raise _Unknown
        return Value(self._kinds[name], "column", name=name)

    def _value(self, found: e.Expr) -> Value:
        match found:
            case e.Paren():
                return self._value(found.this)
            case e.Column() if not found.table:
                return self._column(found.name)
            case e.Boolean():
                return Value(BooleanType(), "constant", constant=bool(found.this))
            case e.Literal():
                return _constant(found)
            case e.And() | e.Or():
                function = "and" if isinstance(found, e.And) else "or"
                return Value(
                    BooleanType(), function, (self._truth(found.this), self._truth(found.expression))
                )
            case e.Not():
                return Value(BooleanType(), "invert", (self._truth(found.this),))
            case e.Is() if isinstance(found.expression, e.Null):
                return Value(BooleanType(), "is_null", (self._value(found.this),))
            case e.If():
                return self._choice([found], found.args.get("false"))
            case e.Case() if found.this is None:
                return self._choice(found.args["ifs"], found.args.get("default"))
            case e.Coalesce() | e.Greatest() | e.Least():
                return self._variadic(found)
            case e.BitwiseAnd():
                sides = _alike(self._number(found.this), self._number(found.expression))
                return Value(sides[0].kind, "bit_wise_and", sides)
            case e.BitwiseRightShift():
                return self._shifted(found.this, found.expression)
            case e.Neg():
                return _negated(self._number(found.this))
            case e.Cast() | e.TryCast():
                return self._cast(found)
            case e.Sum() | e.Max() | e.Min() | e.Count() | e.CountIf():
                return self._fold(found, None)
            case e.Filter() if isinstance(found.expression, e.Where):
                return self._fold(found.this, self._truth(found.expression.this))
        if type(found) in _ARITHMETIC:
            sides = _alike(self._number(found.this), self._number(found.expression))
            return Value(sides[0].kind, _ARITHMETIC[type(found)], sides)
        if type(found) in _COMPARISONS:
            sides = _alike(self._value(found.this), self._value(found.expression))
            function = _COMPARISONS[type(found)]
            if isinstance(sides[0].kind, BooleanType) and function not in ("equal", "not_equal", "same"):
                raise _Unknown
            return Value(BooleanType(), function, sides)
        raise _Unknown

    def _truth(self, found: e.Expr) -> Value:
        value = self._value(found)
        if not isinstance(value.kind, BooleanType):
            raise _Unknown
        return value

    def _number(self, found: e.Expr) -> Value:
        value = self._value(found)
        if value.kind not in _WIDTH:
            raise _Unknown
        return value

    def _choice(self, cases: Sequence[e.Expr], default: e.Expr | None) -> Value:
        """Return the value of the first case that holds; NULL stands wherever it is written, or nothing is."""
        tests = [self._truth(case.this) for case in cases]
        texts = [*(case.args["true"] for case in cases), default]
        known = [None if text is None or isinstance(text, e.Null) else self._value(text) for text in texts]
        typed = iter(_alike(*(value for value in known if value is not None)))
        values = [None if value is None else next(typed) for value in known]
        kind = next(value.kind for value in values if value is not None)
        chosen = [Value(kind, "constant") if value is None else value for value in values]
        result = chosen.pop()
        for test, value in zip(reversed(tests), reversed(chosen), strict=True):
            result = Value(kind, "if", (test, value, result))
        return result

    def _variadic(self, found: e.Coalesce | e.Greatest | e.Least) -> Value:
        values = _alike(self._value(found.this), *(self._value(each) for each in found.expressions))
        if not isinstance(found, e.Coalesce) and isinstance(values[0].kind, (BooleanType, StringType)):
            raise _Unknown
        return Value(values[0].kind, type(found).__name__.lower(), values)

    def _shifted(self, given: e.Expr, away: e.Expr) -> Value:
        value, bits = self._number(given), self._number(away)
        if (
            not isinstance(value.kind, LongType)
            or bits.function != "constant"
            or bits.constant not in range(64)
        ):
            raise _Unknown
        return Value(value.kind, "shift_right", (value, _widened(bits, value.kind)))

    def _cast(self, found: e.Cast | e.TryCast) -> Value:
        inner, kind = self._value(found.this), _CASTS.get(found.to.sql("spark").upper())
        if kind is None or found.to.expressions:
            raise _Unknown
        if inner.kind == kind:
            return inner
        if kind in _WIDTH and inner.kind in _WIDTH and _WIDTH[inner.kind] < _WIDTH[kind]:
            return _widened(inner, kind)
        days = isinstance(inner.kind, TimestampNTZType) or (
            isinstance(inner.kind, TimestampType) and self._utc()
        )
        if isinstance(kind, DateType) and days:
            return Value(kind, "cast", (inner,))
        raise _Unknown

    def _fold(self, found: e.Expr, where: Value | None) -> Value:
        if self._folds is None or found.expressions or isinstance(found.this, e.Distinct):
            raise _Unknown
        folds, self._folds = self._folds, None  # no fold within a fold
        try:
            function, value = self._folded(found)
        finally:
            self._folds = folds
        if where is not None:
            value = Value(value.kind, "if", (where, value, Value(value.kind, "constant")))
        folds.append(Fold(f"_fold_{len(folds)}", function, value))
        return Value(value.kind, "column", name=folds[-1].name)

    def _folded(self, found: e.Expr) -> tuple[str, Value]:
        """Return the function of pyarrow for an aggregate, and the value that it goes over."""
        match found:
            case e.Sum():
                return "sum", _widened(self._number(found.this), LongType())
            case e.Count() if isinstance(found.this, e.Star):
                return "count", _ONE
            case e.Count():
                absent = Value(BooleanType(), "is_null", (self._value(found.this),))
                return "count", Value(LongType(), "if", (absent, _NONE, _ONE))
            case e.CountIf():
                return "count", Value(LongType(), "if", (self._truth(found.this), _ONE, _NONE))
            case e.Max() | e.Min():
                value = self._value(found.this)
                if value.kind in ARROW_TYPES and not isinstance(value.kind, BooleanType):
                    return type(found).__name__.lower(), value
        raise _Unknown


_ONE = Value(LongType(), "constant", constant=1)
_NONE = Value(LongType(), "constant")


@lru_cache(maxsize=10_000)
def _parsed(text: str) -> e.Expr | None:
    """Return the tree of a text, which nobody changes: the same texts come in every epoch."""
    if "\\" in text:
        return None
    try:
        return sqlglot.parse_one(text, dialect="spark")
    except sqlglot.errors.SqlglotError:
        return None


def _constant(found: e.Literal) -> Value:
    if found.is_string:
        return Value(StringType(), "constant", constant=found.this)
    if not found.this.isdigit() or int(found.this) >= 2**63:
        raise _Unknown
    number = int(found.this)
    return Value(IntegerType() if number < 2**31 else LongType(), "constant", constant=number)


def _negated(value: Value) -> Value:
    if value.function == "constant" and isinstance(value.constant, int):
        return Value(value.kind, "constant", constant=-value.constant)
    return Value(value.kind, "negate_checked", (value,))


def _widened(value: Value, kind: DataType) -> Value:
    if value.kind == kind:
        return value
    if value.function == "constant":
        return Value(kind, "constant", constant=value.constant)
    return Value(kind, "cast", (value,))


def _alike(*values: Value) -> tuple[Value, ...]:
    """Return values as ones of one type: whole numbers as the widest of them."""
    if not values or any(value.kind not in ARROW_TYPES for value in values):
        raise _Unknown
    if all(value.kind in _WIDTH for value in values):
        widest = max((value.kind for value in values), key=_WIDTH.__getitem__)
        return tuple(_widened(value, widest) for value in values)
    if any(value.kind != values[0].kind for value in values):
        raise _Unknown
    return values

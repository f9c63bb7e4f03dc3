"""Spark SQL expressions that Arrow computes to the same bits: whole numbers, comparisons, truth values, and their folds by group.

A small subset on purpose. What is outside of it has no form here and is left to Spark; what is inside but cannot be computed
exactly on the values at hand (an overflow) raises Inexact in the task, and Spark computes the epoch instead, its error included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
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

MARK = "TIDELINE_INEXACT"
_WIDTH = {ByteType(): 8, ShortType(): 16, IntegerType(): 32, LongType(): 64}
_ARROW: dict[DataType, pa.DataType] = {
    ByteType(): pa.int8(),
    ShortType(): pa.int16(),
    IntegerType(): pa.int32(),
    LongType(): pa.int64(),
    BooleanType(): pa.bool_(),
    DateType(): pa.date32(),
    TimestampType(): pa.timestamp("us", "UTC"),
    TimestampNTZType(): pa.timestamp("us"),
    StringType(): pa.string(),
}
_CASTS: dict[str, DataType] = {
    "TINYINT": ByteType(),
    "SMALLINT": ShortType(),
    "INT": IntegerType(),
    "BIGINT": LongType(),
    "DATE": DateType(),
}
_COMPARISONS: dict[type[e.Expression], str] = {
    e.EQ: "equal",
    e.NEQ: "not_equal",
    e.LT: "less",
    e.LTE: "less_equal",
    e.GT: "greater",
    e.GTE: "greater_equal",
    e.NullSafeEQ: "same",
}
_ARITHMETIC: dict[type[e.Expression], str] = {
    e.Add: "add_checked",
    e.Sub: "subtract_checked",
    e.Mul: "multiply_checked",
}
_LARGEST = float(2**63 - 2**12)


class Inexact(ArithmeticError):
    """The values at hand cannot be computed here as Spark does; MARK in its text tells the driver."""

    def __init__(self, why: object) -> None:
        super().__init__(f"{MARK}: {why}")


@dataclass(frozen=True)
class Value:
    """A typed expression: a column by name, a constant, or a function of other values."""

    kind: DataType
    function: str
    arguments: tuple[Value, ...] = ()
    name: str = ""
    constant: int | bool | str | None = None

    def over(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the value of each row of a batch; raises Inexact."""
        if self.function == "column":
            return batch.column(self.name)
        if self.function == "constant":
            return pa.repeat(pa.scalar(self.constant, _ARROW[self.kind]), batch.num_rows)
        given = [argument.over(batch) for argument in self.arguments]
        try:
            if self.function == "cast":
                return given[0].cast(_ARROW[self.kind])
            return _FUNCTIONS[self.function](*given)
        except pa.ArrowException as error:  # an overflow, or a type that Arrow has no kernel for
            raise Inexact(error) from error


def _same(left: pa.Array, right: pa.Array) -> pa.Array:
    both = pc.and_(left.is_null(), right.is_null())
    return pc.or_(pc.fill_null(pc.equal(left, right), False), both)


def _extreme(pick: Callable[..., pa.Array]) -> Callable[..., pa.Array]:
    def of(*given: pa.Array) -> pa.Array:
        kind = given[0].type
        if not pa.types.is_timestamp(kind):
            return pick(*given)
        return pick(*(array.cast(pa.int64()) for array in given)).cast(kind)

    return of


_FUNCTIONS: dict[str, Callable[..., pa.Array]] = {
    "and": pc.and_kleene,
    "or": pc.or_kleene,
    "not": pc.invert,
    "if": lambda test, yes, no: pc.if_else(pc.fill_null(test, False), yes, no),
    "coalesce": pc.coalesce,
    "greatest": _extreme(pc.max_element_wise),
    "least": _extreme(pc.min_element_wise),
    "is_null": pc.is_null,
    "same": _same,
    "negate_checked": pc.negate_checked,
    **{name: getattr(pc, name) for name in _ARITHMETIC.values()},
    **{name: getattr(pc, name) for name in _COMPARISONS.values() if name != "same"},
}


@dataclass(frozen=True)
class Fold:
    """One aggregate of a group: `function` of pyarrow's grouped aggregates over a value, as the column `name`."""

    name: str
    function: str
    value: Value


@dataclass(frozen=True)
class GroupBy:
    """A body: one row a group of all batches of a task: the keys, and expressions over the group's folds."""

    keys: tuple[tuple[str, Value], ...]
    folds: tuple[Fold, ...]
    calls: tuple[tuple[str, Value], ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        values = [*self.keys, *((fold.name, fold.value) for fold in self.folds)]
        names = [name for name, _ in values]
        gathered = [
            pa.RecordBatch.from_arrays([value.over(batch) for _, value in values], names=names)
            for batch in batches
            if batch.num_rows
        ]
        if not gathered:
            return
        rows = pa.Table.from_batches(gathered)
        for fold in self.folds:
            if fold.function == "sum":
                _refuse_overflow(rows.column(fold.name))
        some = pc.ScalarAggregateOptions(skip_nulls=True, min_count=1)
        wanted = [
            (fold.name, fold.function, pc.CountOptions() if fold.function == "count" else some)
            for fold in self.folds
        ]
        grouped = rows.group_by([name for name, _ in self.keys]).aggregate(wanted)
        columns = [*(name for name, _ in self.keys), *(f"{fold.name}_{fold.function}" for fold in self.folds)]
        groups = grouped.select(columns).combine_chunks().rename_columns(names).to_batches()
        for batch in groups:
            arrays = [batch.column(name) for name, _ in self.keys]
            arrays += [value.over(batch) for _, value in self.calls]
            yield pa.RecordBatch.from_arrays(
                arrays, names=[*(name for name, _ in self.keys), *(name for name, _ in self.calls)]
            )


def _refuse_overflow(column: pa.ChunkedArray) -> None:
    """Raise Inexact where a sum of whole numbers might leave 64 bits: Arrow's would wrap silently."""
    bounds = pc.min_max(column).as_py()
    largest = max(abs(bounds["min"] or 0), abs(bounds["max"] or 0))
    if largest * len(column) > _LARGEST:
        raise Inexact(f"a sum of {len(column)} numbers up to {largest}")


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
        found = self._parsed(text)
        try:
            return None if found is None else self._value(found)
        except _Unknown:
            return None

    def named(self, texts: Sequence[str]) -> tuple[tuple[str, Value], ...] | None:
        """Return (name, value) of each `expression AS name`, `*` or column, or None if Spark has to compute one of them."""
        items: list[tuple[str, Value]] = []
        try:
            for text in texts:
                found = self._parsed(text)
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
        if any(value is None or value.kind not in _ARROW for _, value in by):
            return None
        self._folds = []
        results = [(name, self.value(text)) for name, text in calls]
        folds, self._folds = self._folds, None
        named = [(name, value) for name, value in (*by, *results) if value is not None]
        if not folds or not keys or len(named) < len(keys) + len(calls):
            return None
        body = GroupBy(tuple(named[: len(keys)]), tuple(folds), tuple(named[len(keys) :]))
        return body, StructType([StructField(name, value.kind) for name, value in named])

    def _parsed(self, text: str) -> e.Expression | None:
        if self._ambiguous or "\\" in text:
            return None
        try:
            return sqlglot.parse_one(text, dialect="spark")
        except sqlglot.errors.SqlglotError:
            return None

    def _column(self, name: str) -> Value:
        if name not in self._kinds:
            raise _Unknown
        return Value(self._kinds[name], "column", name=name)

    def _value(self, found: e.Expression) -> Value:
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
                return Value(BooleanType(), "not", (self._truth(found.this),))
            case e.Is() if isinstance(found.expression, e.Null):
                return Value(BooleanType(), "is_null", (self._value(found.this),))
            case e.If():
                return self._choice([found], found.args.get("false"))
            case e.Case() if found.this is None:
                return self._choice(found.args["ifs"], found.args.get("default"))
            case e.Coalesce() | e.Greatest() | e.Least():
                return self._variadic(found)
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

    def _truth(self, found: e.Expression) -> Value:
        value = self._value(found)
        if not isinstance(value.kind, BooleanType):
            raise _Unknown
        return value

    def _number(self, found: e.Expression) -> Value:
        value = self._value(found)
        if value.kind not in _WIDTH:
            raise _Unknown
        return value

    def _choice(self, cases: Sequence[e.Expression], default: e.Expression | None) -> Value:
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

    def _fold(self, found: e.Expression, where: Value | None) -> Value:
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

    def _folded(self, found: e.Expression) -> tuple[str, Value]:
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
                if value.kind in _ARROW and not isinstance(value.kind, BooleanType):
                    return type(found).__name__.lower(), value
        raise _Unknown


_ONE = Value(LongType(), "constant", constant=1)
_NONE = Value(LongType(), "constant")


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
    if not values or any(value.kind not in _ARROW for value in values):
        raise _Unknown
    if all(value.kind in _WIDTH for value in values):
        widest = max((value.kind for value in values), key=_WIDTH.__getitem__)
        return tuple(_widened(value, widest) for value in values)
    if any(value.kind != values[0].kind for value in values):
        raise _Unknown
    return values

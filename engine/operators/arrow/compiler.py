"""From expressions to values that Arrow computes: whole numbers, quotients, dates, comparisons, and their folds by group.

A small subset on purpose. What is outside of it has no form here and is left to Spark; what is inside but cannot be computed
exactly (`arrow_values.Inexact`) makes Spark compute the epoch instead, its error included.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from engine.operators.arrow import numbers, texts, time_texts, times
from engine.operators.arrow.casts import compile_cast
from engine.operators.arrow.coercion import (
    NotCompilable,
    as_double,
    build_arithmetic,
    build_constant,
    cast_decimal,
    negate,
    require,
    scale_units,
    unify_types,
    widen,
)
from engine.operators.arrow.decimal_values import (
    compile_decimal_call,
    is_beyond_long,
    is_decimal,
    parse_decimal_type,
    read_scaled_units,
    read_whole_literal,
)
from engine.operators.arrow.decimals import derive_sum_type
from engine.operators.arrow.expressions import (
    ARROW_TYPES,
    Kernel,
    Value,
    fail_any_row,
    find_arrow_type,
    find_members,
)
from engine.operators.arrow.folds import Fold, GroupBy
from engine.operators.arrow.python_calls import compile_python_call
from engine.operators.arrow.shared_values import merge_equal
from engine.operators.arrow.spellings import rewrite_spelling
from engine.operators.arrow.whole_numbers import TYPES, WIDTHS
from engine.sql.expression.nodes import (
    NULL,
    And,
    Arithmetic,
    Call,
    Case,
    Cast,
    Column,
    Comparison,
    Expr,
    Field,
    In,
    Interval,
    IsNull,
    Lambda,
    Like,
    Literal,
    Not,
    Or,
    Subscript,
    Unary,
    Variable,
    Word,
    measure_depth,
)
from engine.sql.expression.substitute import MOST_LEVELS

Item = tuple[str, Expr]
"""An expression and the name of the column that it becomes."""

_KINDS = {
    **{kind.simpleString(): kind for kind in ARROW_TYPES},
    "byte": TYPES["tinyint"],
    "short": TYPES["smallint"],
    "integer": TYPES["int"],
    "long": TYPES["bigint"],
    "timestamp_ltz": TimestampType(),
}
_COMPARED = frozenset(ARROW_TYPES) - {DoubleType()}
_DATE_PARTS = {"year": "year", "quarter": "quarter", "month": "month", "day": "day", "dayofmonth": "day"}
_TIME_PARTS = {"hour": "hour", "minute": "minute"}
_COMPARISONS = {
    "=": "equal",
    "<>": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
    "<=>": "same",
}
_FUNCTIONS = {**numbers.FUNCTIONS, **texts.FUNCTIONS, **times.FUNCTIONS, **time_texts.FUNCTIONS}
_OF_DECIMALS = ("abs", "round", "floor", "ceil", "ceiling")
_VARIADIC = ("coalesce", "greatest", "least")
_FOLDS = ("sum", "max", "min", "count", "count_if")


def is_compared(kind: DataType | None) -> bool:
    """Tell whether Arrow knows which values of a type are the same, and which comes first, as Spark does.

    NaN and -0.0 are others to it.
    """
    return kind in _COMPARED or isinstance(kind, DecimalType)


class Compiler:
    """Compiles expressions over the columns of a schema; `utc` says whether Spark's session time zone is UTC."""

    def __init__(self, schema: StructType, utc: Callable[[], bool]) -> None:
        self.kinds: Mapping[str, DataType] = {field.name: field.dataType for field in schema.fields}
        self._ambiguous = len({name.lower() for name in self.kinds}) != len(schema.fields)
        self._utc = utc
        self._folds: list[Fold] | None = None
        self._bound: dict[str, dict[str, Value]] = {}
        self._names = itertools.count()

    def compile_value(self, expr: Expr) -> Value | None:
        """Return an expression's value, or None if Spark has to compute it."""
        try:
            return None if self._ambiguous or measure_depth(expr) > MOST_LEVELS else self._compile_expr(expr)
        except NotCompilable:
            return None

    def compile_items(self, items: Sequence[Item]) -> tuple[tuple[str, Value], ...] | None:
        """Return (name, value) of each item, or None if Spark has to compute one of them; a bare NULL has no type yet."""
        found = [(name, _UNTYPED if expr == NULL else self.compile_value(expr)) for name, expr in items]
        if len({name.lower() for name, _ in found}) < len(found):
            return None
        known = [(name, value) for name, value in found if value is not None]
        return tuple(merge_equal(known)) if len(known) == len(found) else None

    def compile_groups(
        self, keys: Sequence[Item], calls: Sequence[Item]
    ) -> tuple[GroupBy, StructType] | None:
        """Return the body that groups by `keys` (without any: all rows) and computes `calls`, and the schema of its rows."""
        by = [(name, self.compile_value(expr)) for name, expr in keys]
        if any(value is None or not is_compared(value.kind) for _, value in by):
            return None
        self._folds = []
        results = [(name, self.compile_value(expr)) for name, expr in calls]
        folds, self._folds = self._folds, None
        named = [(name, value) for name, value in (*by, *results) if value is not None]
        if not folds or len(named) < len(keys) + len(calls):
            return None
        values = merge_equal([*named[: len(keys)], *((fold.name, fold.value) for fold in folds)])
        merged = tuple(
            replace(fold, value=value) for fold, (_, value) in zip(folds, values[len(keys) :], strict=True)
        )
        body = GroupBy(tuple(values[: len(keys)]), merged, tuple(merge_equal(named[len(keys) :])))
        return body, StructType([StructField(name, value.kind) for name, value in named])

    def _compile_expr(self, expr: Expr) -> Value:
        """Return the value of an expression, or of what is another way to write it."""
        compile_node = _NODES.get(type(expr))
        value = None if compile_node is None else compile_node(self, expr)
        if value is not None:
            return value
        other = rewrite_spelling(expr)
        if other is None:
            raise NotCompilable
        return self._compile_expr(other)

    # ---- a kind of node each; None is for what is written otherwise than it is compiled ------------------------
    def _compile_column(self, expr: Column) -> Value:
        if expr.name not in self.kinds:
            raise NotCompilable
        return Value(self.kinds[expr.name], "column", name=expr.name)

    def _compile_field(self, expr: Field) -> Value | None:
        return self._compile_bound(expr) if isinstance(expr.value, Variable) else None

    def _compile_not(self, expr: Not) -> Value:
        return Value(BooleanType(), "invert", (self._compile_truth(expr.value),))

    def _compile_null_test(self, expr: IsNull) -> Value:
        return Value(BooleanType(), "is_null", (self._compile_expr(expr.value),))

    def _compile_case(self, expr: Case) -> Value | None:
        if expr.subject is not None:
            return None
        return self._compile_choice(_name_only_row(expr), expr.otherwise)

    def _compile_unary(self, expr: Unary) -> Value | None:
        match expr.operator, expr.value:
            case "-", Literal(text=text, kind=kind) if (text, kind) in _LEAST:
                return Value(_LEAST[text, kind], "constant", constant=-int(text))
            case "-", value:
                return negate(self._compile_any_number(value))
            case "+", value:
                return self._compile_any_number(value)
            case "~", value:
                inner = self._compile_number(value)
                return Value(inner.kind, "bit_wise_not", (inner,))
        return None

    def _compile_arithmetic(self, expr: Arithmetic) -> Value:
        """Return operands computed from left to right."""
        if expr.operator == "||":
            return self._compile_concat(expr.operands)
        if len(expr.operands) > MOST_LEVELS:
            raise NotCompilable
        first, *rest = expr.operands
        left, literal = self._compile_expr(first), read_whole_literal(first)
        for operand in rest:
            left, literal = self._compute(expr.operator, left, operand, literal), None
        return left

    def _compile_like(self, expr: Like) -> Value | None:
        match expr:
            case Like(
                operator="LIKE", pattern=Literal(text=pattern, kind="string"), escape=None, quantifier=""
            ):
                return require(texts.compile_like(self._compile_expr(expr.value), pattern))
        return None

    def _compile_call(self, expr: Call) -> Value | None:
        value: Value | None = None
        if (compile_call := _CALLS.get((expr.function, len(expr.arguments)))) is not None:
            value = compile_call(self, *expr.arguments)
        elif (compile_any := _CALLS_OF_ANY_LENGTH.get(expr.function)) is not None:
            value = compile_any(self, expr)
        return self._compile_function(expr) if value is None and expr.function in _FUNCTIONS else value

    def _compile_element(self, rows: Expr, place: Expr) -> Value | None:
        if place != _FIRST:
            return None
        return compile_python_call(
            rows, self._compile_argument, lambda kind: parse_decimal_type(kind) or _KINDS.get(kind)
        )

    def _compile_argument(self, expr: Expr) -> Value:
        value = self._compile_expr(expr)
        if isinstance(value.kind, times.TIMES):
            self._require_utc()
        return value

    def _compile_modulus(self, value: Expr, by: Expr) -> Value:
        return numbers.compile_modulus(*unify_types(self._compile_number(value), self._compile_number(by)))

    def _compile_make_date(self, *arguments: Expr) -> Value:
        parts = tuple(map(self._compile_number, arguments))
        if any(part.kind == LongType() for part in parts):
            raise NotCompilable
        return Value(DateType(), "make_date", parts)

    def _compile_date_part(self, part: str, value: Expr) -> Value:
        return Value(IntegerType(), part, (self._cast_to_day(self._compile_expr(value)),))

    def _compile_time_part(self, part: str, value: Expr) -> Value:
        moment = self._compile_expr(value)
        self._cast_to_day(moment)
        if isinstance(moment.kind, DateType):
            raise NotCompilable
        return Value(IntegerType(), part, (moment,))

    def _compile_trim(self, side: Expr, characters: Expr, text: Expr) -> Value | None:
        if not isinstance(side, Word):
            return None
        return require(
            texts.compile_trim(side.text, self._compile_expr(characters), self._compile_expr(text))
        )

    def _compute(self, operator: str, left: Value, operand: Expr, literal: int | None) -> Value:
        """Return two operands computed to one; constants, as `literal` says of the first, have other digits beside decimals."""
        if isinstance(left.kind, times.TIMES):
            if operator not in ("+", "-"):
                raise NotCompilable
            length = operand if isinstance(operand, Interval) else self._compile_number(operand)
            self._cast_to_day(left)
            return require(times.compile_time_sum(operator, left, length))
        right = self._compile_any_number(operand)
        return build_arithmetic(operator, left, right, (literal, read_whole_literal(operand)))

    def _compile_function(self, expr: Call) -> Value:
        """Return the value of a function of the tables that the modules of its kind have."""
        given = [self._compile_expr(argument) for argument in expr.arguments]
        compile_call = _FUNCTIONS[expr.function]
        if expr.distinct or expr.where is not None or not _takes(compile_call, len(given)):
            raise NotCompilable
        if any(isinstance(value.kind, times.TIMES) for value in given) or expr.function in times.FUNCTIONS:
            self._require_utc()
        return require(compile_call(*given))

    def _compile_membership(self, expr: In) -> Value:
        """Return whether a value is among others: null if none is the same and one of them is null."""
        known = [self._compile_expr(option) for option in expr.options if option != NULL]
        value, *options = unify_types(self._compile_expr(expr.value), *known)
        if not is_compared(value.kind) or not expr.options:
            raise NotCompilable
        if all(option.function == "constant" for option in options):
            members = tuple(option.constant for option in options)
            members = (*members, None) if len(known) < len(expr.options) else members
            kernel = Kernel(find_members, (members, find_arrow_type(value.kind)))
            return Value(BooleanType(), "in", (value,), kernel=kernel)
        same = [Value(BooleanType(), "equal", (value, option)) for option in options]
        return Value(BooleanType(), "or", (*same, *([_UNKNOWN] if len(known) < len(expr.options) else [])))

    def _require_utc(self) -> None:
        if not self._utc():
            raise NotCompilable

    def _compile_bound(self, expr: Expr) -> Value:
        found = self._compile_fields(expr)
        if "" not in found:
            raise NotCompilable
        return found[""]

    def _compile_fields(self, expr: Expr) -> dict[str, Value]:
        """Return the values of a struct's fields by name; of anything else the value itself, without a name.

        A lambda over an array of one item gives it a name: it is computed once, as a column of its own.
        """
        match expr:
            case Variable(name=name) if name in self._bound:
                return self._bound[name]
            case Field(value=Variable(name=name), name=field) if field in self._bound.get(name, ()):
                return {"": self._bound[name][field]}
            case Subscript(
                value=Call(
                    function="transform",
                    arguments=(
                        Call(function="array", arguments=(value,)),
                        Lambda(parameters=(name,), body=body),
                    ),
                ),
                index=Literal(text="0", kind="number"),
            ):
                return self._bind(name, self._compile_fields(value), body)
            case Call(function="named_struct", arguments=parts):
                names = [part.text for part in parts[::2] if isinstance(part, Literal) and part.text]
                if len(set(names)) * 2 == len(parts):
                    return dict(zip(names, map(self._compile_expr, parts[1::2]), strict=True))
            case Variable() | Field() | Subscript():
                pass
            case _:
                return {"": self._compile_expr(expr)}
        raise NotCompilable

    def _bind(self, name: str, given: Mapping[str, Value], body: Expr) -> dict[str, Value]:
        """Return `body` over the values that `given` names by the fields of `name`."""
        columns = {field: f"{name}\0{next(self._names)}" for field in given}
        outer = self._bound
        self._bound = {
            **outer,
            name: {field: Value(given[field].kind, "column", name=columns[field]) for field in given},
        }
        try:
            found = self._compile_fields(body)
        finally:
            self._bound = outer
        for field, column in columns.items():
            found = {
                key: Value(value.kind, "bind", (given[field], value), name=column)
                for key, value in found.items()
            }
        return found

    def _compile_decimal_call(self, call: Call) -> Value | None:
        if not call.arguments:
            return None
        value, rest = self._compile_expr(call.arguments[0]), call.arguments[1:]
        if is_decimal(value):
            return require(compile_decimal_call(call.function, value, rest))
        compile_call = numbers.FUNCTIONS.get(call.function)
        if compile_call is None or not _takes(compile_call, len(call.arguments)):
            raise NotCompilable
        return require(compile_call(value, *map(self._compile_expr, rest)))

    def _compile_concat(self, parts: Sequence[Expr]) -> Value:
        values = [self._compile_expr(part) for part in parts]
        if any(isinstance(value.kind, times.TIMES) for value in values):
            self._require_utc()
        if not any(value.kind == StringType() for value in values):
            raise NotCompilable
        named = (each if each.kind == StringType() else compile_cast(each, StringType()) for each in values)
        return Value(StringType(), "concat", tuple(map(require, named)))

    def _cast_to_day(self, value: Value) -> Value:
        """Return the date of a date or a moment."""
        plain = isinstance(value.kind, TimestampNTZType)
        if isinstance(value.kind, DateType):
            return value
        if plain or (isinstance(value.kind, TimestampType) and self._utc()):
            return Value(DateType(), "cast", (value,))
        raise NotCompilable

    def _compile_connective(self, expr: And | Or) -> Value:
        function = "and" if isinstance(expr, And) else "or"
        return Value(BooleanType(), function, tuple(self._compile_truth(part) for part in expr.parts))

    def _compile_comparison(self, expr: Comparison) -> Value:
        function = _COMPARISONS[expr.operator]
        if NULL in (expr.left, expr.right):
            known = self._compile_expr(expr.left if expr.right == NULL else expr.right)
            return Value(BooleanType(), "is_null", (known,)) if function == "same" else _UNKNOWN
        given = self._unify_times(self._compile_expr(expr.left), self._compile_expr(expr.right))
        if any(side.kind in WIDTHS for side in given) and any(map(is_beyond_long, given)):
            raise NotCompilable  # Spark takes null for less than that, too
        sides = unify_types(*given)
        if isinstance(sides[0].kind, DoubleType):
            return numbers.compare_doubles(function, *sides)
        if not is_compared(sides[0].kind):
            raise NotCompilable
        if isinstance(sides[0].kind, BooleanType) and function not in ("equal", "not_equal", "same"):
            raise NotCompilable
        return Value(BooleanType(), function, sides)

    def _unify_times(self, *sides: Value) -> tuple[Value, ...]:
        """Return the sides of a comparison, a date as the moment with which it begins where the other one is a moment."""
        moments = [side.kind for side in sides if isinstance(side.kind, (TimestampType, TimestampNTZType))]
        if len(moments) != 1 or not any(isinstance(side.kind, DateType) for side in sides):
            return sides
        self._require_utc()
        return tuple(
            require(compile_cast(side, moments[0])) if isinstance(side.kind, DateType) else side
            for side in sides
        )

    def _compile_truth(self, expr: Expr) -> Value:
        value = _UNKNOWN if expr == NULL else self._compile_expr(expr)
        if not isinstance(value.kind, BooleanType):
            raise NotCompilable
        return value

    def _compile_number(self, expr: Expr) -> Value:
        value = self._compile_expr(expr)
        if value.kind not in WIDTHS:
            raise NotCompilable
        return value

    def _compile_any_number(self, expr: Expr) -> Value:
        value = self._compile_expr(expr)
        return value if value.kind == DoubleType() or is_decimal(value) else self._compile_number(expr)

    def _compile_choice(self, cases: Sequence[tuple[Expr, Expr]], default: Expr | None) -> Value:
        """Return the value of the first case that holds; NULL and errors stand wherever they are written, or nothing is."""
        tests = [self._compile_truth(test) for test, _ in cases]
        results = [*(result for _, result in cases), NULL if default is None else default]
        known = [None if _has_no_type(each) else self._compile_expr(each) for each in results]
        typed = iter(unify_types(*(value for value in known if value is not None)))
        values = [None if value is None else next(typed) for value in known]
        kind = next(value.kind for value in values if value is not None)
        chosen = [
            self._compile_untyped(result, kind) if value is None else value
            for result, value in zip(results, values, strict=True)
        ]
        pairs = zip(tests, chosen[:-1], strict=True)
        return Value(kind, "if", (*itertools.chain.from_iterable(pairs), chosen[-1]))

    def _compile_untyped(self, expr: Expr, kind: DataType) -> Value:
        """Return a null of a type, or what is one to it and fails for every row that asks for it."""
        if not isinstance(expr, Call):
            return Value(kind, "constant")
        message = self._compile_expr(expr.arguments[0])
        failing = Kernel(fail_any_row, (find_arrow_type(kind),), may_fail=True)
        return Value(kind, "raise_error", (message,), kernel=failing)

    def _compile_variadic(self, expr: Call) -> Value:
        if expr.function != "coalesce" and len(expr.arguments) < 2:
            raise NotCompilable
        values = unify_types(*(self._compile_expr(each) for each in expr.arguments if each != NULL))
        if expr.function != "coalesce" and isinstance(values[0].kind, (BooleanType, StringType, DoubleType)):
            raise NotCompilable
        return Value(values[0].kind, expr.function, values)

    def _compile_shift(self, operand: Expr, away: Expr) -> Value:
        value, bits = self._compile_number(operand), self._compile_number(away)
        if (
            not isinstance(value.kind, LongType)
            or bits.function != "constant"
            or bits.constant not in range(63)  # of 63 Arrow gives the number itself
        ):
            raise NotCompilable
        return Value(value.kind, "shift_right", (value, widen(bits, value.kind)))

    def _compile_cast(self, expr: Cast) -> Value:
        decimal = parse_decimal_type(expr.to)
        units = None if decimal is None else read_scaled_units(expr.value, decimal.scale)
        if decimal is not None and units is not None and not expr.attempt:
            return scale_units(self._compile_expr(units), decimal)
        if expr.value == NULL and (decimal is not None or expr.to.lower() in _KINDS):
            return Value(decimal or _KINDS[expr.to.lower()], "constant")
        inner, kind = self._compile_expr(expr.value), _KINDS.get(expr.to.lower())
        if decimal is not None or (is_decimal(inner) and kind is not None):
            return cast_decimal(inner, decimal or kind, expr.attempt)
        if kind is None:
            raise NotCompilable
        if inner.kind == kind:
            return inner
        if kind in WIDTHS and inner.kind in WIDTHS and WIDTHS[inner.kind] < WIDTHS[kind]:
            return widen(inner, kind)
        if isinstance(kind, DoubleType) and inner.kind in WIDTHS:
            return as_double(inner)
        if isinstance(kind, DateType) and isinstance(inner.kind, times.TIMES):
            return self._cast_to_day(inner)
        if {type(inner.kind), type(kind)} & set(times.TIMES):
            self._require_utc()
        return require(compile_cast(inner, kind))

    def _compile_fold(self, expr: Call) -> Value:
        if self._folds is None or expr.distinct or expr.order or len(expr.arguments) > 1:
            raise NotCompilable
        folds, self._folds = self._folds, None  # no fold within a fold
        bound, self._bound = self._bound, {}
        try:
            where = None if expr.where is None else self._compile_truth(expr.where)
            function, value = self._resolve_fold(expr)
        finally:
            self._folds, self._bound = folds, bound
        if where is not None:
            value = Value(value.kind, "if", (where, value, Value(value.kind, "constant")))
        folds.append(Fold(f"_fold_{len(folds)}", function, value))
        return Value(value.kind, "column", name=folds[-1].name)

    def _resolve_fold(self, expr: Call) -> tuple[str, Value]:
        """Return the function of pyarrow for an aggregate, and the value that it goes over."""
        match expr.function, expr.arguments:
            case "sum", (argument,):
                value = self._compile_any_number(argument)
                if isinstance(value.kind, DecimalType):
                    return "sum", cast_decimal(value, derive_sum_type(value.kind))
                return "sum", widen(self._compile_number(argument), LongType())
            case "count", ():
                return "count", _ONE
            case "count", (argument,):
                absent = Value(BooleanType(), "is_null", (self._compile_expr(argument),))
                return "count", Value(LongType(), "if", (absent, _NONE, _ONE))
            case "count_if", (argument,):
                return "count", Value(LongType(), "if", (self._compile_truth(argument), _ONE, _NONE))
            case "max" | "min", (argument,):
                value = self._compile_expr(argument)
                if is_compared(value.kind) and not isinstance(value.kind, BooleanType):
                    return expr.function, value
        raise NotCompilable


_NODES: Mapping[type, Callable[[Compiler, Any], Value | None]] = {
    Column: Compiler._compile_column,
    Literal: lambda _, expr: build_constant(expr),
    **dict.fromkeys((Variable, Subscript), Compiler._compile_bound),
    Field: Compiler._compile_field,
    **dict.fromkeys((And, Or), Compiler._compile_connective),
    Not: Compiler._compile_not,
    IsNull: Compiler._compile_null_test,
    Case: Compiler._compile_case,
    Call: Compiler._compile_call,
    Unary: Compiler._compile_unary,
    Cast: Compiler._compile_cast,
    Arithmetic: Compiler._compile_arithmetic,
    Comparison: Compiler._compile_comparison,
    In: Compiler._compile_membership,
    Like: Compiler._compile_like,
}
"""How each kind of node is compiled; what is missing may have another spelling."""
_CALLS: Mapping[tuple[str, int], Callable[..., Value | None]] = {
    ("if", 3): lambda compiler, test, yes, no: compiler._compile_choice([(test, yes)], no),
    ("shiftright", 2): Compiler._compile_shift,
    ("get", 2): Compiler._compile_element,
    ("pmod", 2): Compiler._compile_modulus,
    ("make_date", 3): Compiler._compile_make_date,
    ("trim", 3): Compiler._compile_trim,
    **{
        (name, 1): lambda compiler, value, part=part: compiler._compile_date_part(part, value)
        for name, part in _DATE_PARTS.items()
    },
    **{
        (name, 1): lambda compiler, value, part=part: compiler._compile_time_part(part, value)
        for name, part in _TIME_PARTS.items()
    },
}
"""How a function of so many arguments is compiled, where that is more than a function of their values."""
_CALLS_OF_ANY_LENGTH: Mapping[str, Callable[[Compiler, Call], Value | None]] = {
    "concat": lambda compiler, call: compiler._compile_concat(call.arguments),
    **dict.fromkeys(_VARIADIC, Compiler._compile_variadic),
    **dict.fromkeys(_FOLDS, Compiler._compile_fold),
    **dict.fromkeys(_OF_DECIMALS, Compiler._compile_decimal_call),
}
_ROW = Literal("1")
_FIRST = Literal("0")
_ONE = Value(LongType(), "constant", constant=1)
_NONE = Value(LongType(), "constant")
_UNTYPED = Value(NullType(), "constant")
_UNKNOWN = Value(BooleanType(), "constant")
_LEAST: Mapping[tuple[str, str], DataType] = {
    (str(2**31), "number"): IntegerType(),
    (str(2**63), "number"): LongType(),
    (str(2**63), "bigint"): LongType(),
}
"""The digits of numbers that with their sign are of a type that has no such number without."""


def _has_no_type(expr: Expr) -> bool:
    return expr == NULL or (
        isinstance(expr, Call) and expr.function == "raise_error" and len(expr.arguments) == 1
    )


def _name_only_row(expr: Case) -> Sequence[tuple[Expr, Expr]]:
    """Return the branches of a CASE: any value of a group that has one row at most is its least one."""
    match expr.branches:
        case ((test, Call(function="any_value", arguments=(value,), where=where)),):
            counted = Call("count", (_ROW,), where=where)
            if test == Comparison("<=", counted, _ROW):
                return ((test, Call("min", (value,), where=where)),)
    return expr.branches


@cache
def _takes(function: Callable[..., Value | None], count: int) -> bool:
    """Tell whether a function can be called with so many arguments."""
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    return True

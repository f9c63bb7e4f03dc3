"""Numbers of several types beside each other: the type in which Spark computes, compares or chooses, and values cast to it.

Method: Spark's type coercion. What it does by rules that are not known here is NotCompilable.
"""

from __future__ import annotations

from pyspark.sql.types import (
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    StringType,
)

from engine.operators.arrow import numbers
from engine.operators.arrow.decimal_values import (
    build_decimal_arithmetic,
    build_decimal_constant,
    cast_from_decimal,
    cast_to_decimal,
    is_decimal,
    negate_decimal,
    read_decimal_text,
    unify_decimals,
)
from engine.operators.arrow.decimals import FAILING
from engine.operators.arrow.expressions import ARROW_TYPES, Value
from engine.operators.arrow.whole_numbers import TYPES, WIDTHS
from engine.sql.expression.nodes import Literal

_SUFFIXED = ("bigint", "smallint", "tinyint")
"""The types that a suffix gives a number; without one it has the narrower of INT and BIGINT."""
_ARITHMETIC = {"+": "add_checked", "-": "subtract_checked", "*": "multiply_checked"}
_BITWISE = {"&": "bit_wise_and", "|": "bit_wise_or", "^": "bit_wise_xor"}


class NotCompilable(Exception):
    """Not an expression of the subset."""


def require(value: Value | None) -> Value:
    """Return a value. Raises NotCompilable where there is none."""
    if value is None:
        raise NotCompilable
    return value


def build_constant(expr: Literal) -> Value:
    """Return the value of a constant, with the type that Spark gives it."""
    if expr.kind == "string":
        return Value(StringType(), "constant", constant=expr.text)
    if expr.kind == "boolean":
        return Value(BooleanType(), "constant", constant=expr.text == "TRUE")
    if expr.kind == "double":
        return Value(DoubleType(), "constant", constant=float(expr.text))
    if not expr.text.isdigit() or expr.kind not in ("number", *_SUFFIXED) or int(expr.text) >= 2**63:
        decimal = build_decimal_constant(expr)
        if decimal is None:
            raise NotCompilable
        return decimal
    number = int(expr.text)
    name = expr.kind if expr.kind in _SUFFIXED else "int" if number < 2**31 else "bigint"
    return Value(TYPES[name], "constant", constant=number)


def build_arithmetic(
    operator: str, left: Value, right: Value, literals: tuple[int | None, int | None]
) -> Value:
    """Return `left` and `right` computed; `literals` are the numbers of whole constants among them."""
    if not all(
        value.kind in WIDTHS or value.kind == DoubleType() or is_decimal(value) for value in (left, right)
    ):
        raise NotCompilable
    if (is_decimal(left) or is_decimal(right)) and DoubleType() not in (left.kind, right.kind):
        if operator not in (*_ARITHMETIC, "/", "%"):
            raise NotCompilable
        return require(build_decimal_arithmetic(operator, left, right, literals))
    if operator == "/":
        return Value(DoubleType(), "divide", (as_double(left), as_double(right)))
    if operator in _ARITHMETIC:
        return _build_binary(_ARITHMETIC[operator], left, right)
    if operator == "%":
        return numbers.compile_remainder(*unify_types(left, right))
    if DoubleType() in (left.kind, right.kind):
        raise NotCompilable
    if operator == "DIV":
        return numbers.compile_whole_quotient(left, right)
    if operator not in _BITWISE:
        raise NotCompilable
    return _build_binary(_BITWISE[operator], left, right)


def cast_decimal(value: Value, kind: DataType | None, attempt: bool = False) -> Value:
    """Return a value as a decimal, or a decimal as a value of another type."""
    found: Value | None = None
    if not isinstance(kind, DecimalType):
        found = None if kind is None or not is_decimal(value) else cast_from_decimal(value, kind)
    elif value.kind == StringType() and isinstance(value.constant, str):
        found = read_decimal_text(value.constant, kind)
    else:
        found = cast_to_decimal(value, kind)
    if found is None or (attempt and found.function in FAILING):
        raise NotCompilable
    return found


def scale_units(value: Value, kind: DecimalType) -> Value:
    """Return a whole number as a decimal with so many units of its last digit."""
    if not isinstance(value.kind, DecimalType) or value.kind.scale:
        raise NotCompilable
    return Value(kind, "decimal_scale", (value,))


def _build_binary(function: str, left: Value, right: Value) -> Value:
    sides = (left, right) if left.kind == right.kind else unify_types(left, right)
    return Value(sides[0].kind, function, sides)


def negate(value: Value) -> Value:
    """Return a number with the other sign."""
    if is_decimal(value):
        return negate_decimal(value)
    overflows = value.kind in WIDTHS and value.constant == -(2 ** (WIDTHS[value.kind] - 1))
    if value.function == "constant" and isinstance(value.constant, (int, float)) and not overflows:
        return Value(value.kind, "constant", constant=-value.constant)
    return Value(value.kind, "negate_checked", (value,))


def as_double(value: Value) -> Value:
    """Return a number as one of floating point, the nearest."""
    if value.kind == DoubleType():
        return value
    if is_decimal(value):
        return cast_decimal(value, DoubleType())
    if value.kind not in WIDTHS:
        raise NotCompilable
    return Value(DoubleType(), "cast", (value,))


def widen(value: Value, kind: DataType) -> Value:
    """Return a whole number as one of at least as many bits."""
    if value.kind == kind:
        return value
    if value.function == "constant":
        return Value(kind, "constant", constant=value.constant)
    return Value(kind, "cast", (value,))


def unify_types(*values: Value) -> tuple[Value, ...]:
    """Return values as ones of one type: whole numbers as the widest of them, beside decimals as decimals.

    Beside a double all numbers are doubles.
    """
    if not values:
        raise NotCompilable
    if any(value.kind == DoubleType() for value in values):
        return tuple(map(as_double, values))
    if any(is_decimal(value) for value in values):
        decimals = unify_decimals(*values)
        if decimals is None:
            raise NotCompilable
        return decimals
    if any(value.kind not in ARROW_TYPES for value in values):
        raise NotCompilable
    if all(value.kind in WIDTHS for value in values):
        widest = max((value.kind for value in values), key=WIDTHS.__getitem__)
        return tuple(widen(value, widest) for value in values)
    if any(value.kind != values[0].kind for value in values):
        raise NotCompilable
    return values

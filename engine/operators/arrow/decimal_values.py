"""Values over decimals: which functions of `decimals` an expression becomes, and with what types."""

from __future__ import annotations

from decimal import Decimal

from pyspark.sql.types import DataType, DecimalType, DoubleType, LongType

from engine.operators.arrow.decimals import (
    MOST_DIGITS,
    NEGATED_DIGITS,
    OPERATORS,
    derive_common_type,
    derive_floor_type,
    derive_literal_type,
    derive_operand_type,
    derive_result_type,
    derive_round_type,
    holds_all_digits,
)
from engine.operators.arrow.expressions import Value
from engine.sql.expression.nodes import Call, Cast, Expr, Literal, Unary
from engine.sql.typing.types import decimal_digits

_WORTH_DIGITS = ("number", "bigint", "smallint")
"""Kinds of constants that have beside decimals just the digits that are written."""
_NUMBER = frozenset("0123456789+-.eE ")
"""The letters of a number that Python and Java read alike."""


def is_decimal(value: Value) -> bool:
    """Tell whether a value is a decimal."""
    return isinstance(value.kind, DecimalType)


def is_beyond_long(value: Value) -> bool:
    """Tell whether a value is a constant that no BIGINT is."""
    return isinstance(value.constant, Decimal) and not -(2**63) <= value.constant <= 2**63 - 1


def parse_decimal_type(text: str) -> DecimalType | None:
    """Return the type that a text says, None if it is no decimal."""
    digits = decimal_digits(text.lower().strip())
    return None if digits is None or not 0 <= digits[1] <= digits[0] <= 38 else DecimalType(*digits)


def build_decimal_constant(expr: Literal) -> Value | None:
    """Return a number with a point, or with more digits than a BIGINT, as a constant; None if it is another one."""
    if expr.kind not in ("number", "decimal") or not expr.text.replace(".", "", 1).isdigit():
        return None
    number = Decimal(expr.text)
    kind = derive_literal_type(number)
    return None if kind is None else Value(kind, "constant", constant=number)


def read_whole_literal(expr: Expr) -> int | None:
    """Return the number of a constant that has beside decimals just its own digits, None for any other expression."""
    match expr:
        case Unary(operator="-", value=Literal(kind=kind, text=text)) if kind in _WORTH_DIGITS:
            return -int(text) if text.isdigit() and int(text) <= 2**63 else None
        case Literal(kind=kind, text=text) if kind in _WORTH_DIGITS and text.isdigit() and int(text) < 2**63:
            return int(text)
    return None


def build_decimal_arithmetic(
    operator: str, left: Value, right: Value, literals: tuple[int | None, int | None]
) -> Value | None:
    """Return `left` + - * / or % `right`, of which one is a decimal; `literals` are the numbers of whole constants."""
    one, other = (
        derive_operand_type(value.kind, literal)
        for value, literal in zip((left, right), literals, strict=True)
    )
    if one is None or other is None:
        return None
    return Value(derive_result_type(operator, one, other), OPERATORS[operator], (left, right))


def negate_decimal(value: Value) -> Value:
    """Return a decimal with the other sign."""
    if isinstance(value.constant, Decimal) and len(value.constant.as_tuple().digits) <= NEGATED_DIGITS:
        return Value(value.kind, "constant", constant=value.constant.copy_negate())
    return Value(value.kind, "decimal_negate", (value,))


def cast_to_decimal(value: Value, kind: DecimalType) -> Value | None:
    """Return a decimal or whole number as a decimal of type `kind`, rounded half up."""
    held = derive_operand_type(value.kind)
    if held is None or value.kind == kind:
        return None if held is None else value
    if value.function == "constant" and value.constant is None:
        return Value(kind, "constant")
    wide = holds_all_digits(kind, held)
    if value.function == "constant" and wide and isinstance(value.constant, (int, Decimal)):
        return Value(kind, "constant", constant=Decimal(value.constant))
    return Value(kind, "decimal_widen" if wide else "decimal_round", (value,))


def cast_from_decimal(value: Value, kind: DataType) -> Value | None:
    """Return a decimal as a DOUBLE, the nearest, or as a BIGINT, cut off at the point; None for other types."""
    match kind:
        case DoubleType():
            return Value(kind, "decimal_to_double", (value,))
        case LongType():
            return Value(kind, "decimal_to_bigint", (value,))
    return None


def read_decimal_text(text: str, kind: DecimalType) -> Value | None:
    """Return what a text says as a constant, None if it is no decimal of that type as it stands."""
    if not _NUMBER.issuperset(text):
        return None
    try:
        number = Decimal(text)
    except ArithmeticError:
        return None
    if number.adjusted() >= MOST_DIGITS:  # to Spark a zero has digits, too
        return None
    number = number or Decimal(0)
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or -exponent > kind.scale:
        return None
    if exponent > 0 and number.adjusted() < kind.precision:
        number = Decimal(int(number))
    fits = number.adjusted() < kind.precision - kind.scale
    return Value(kind, "constant", constant=number) if fits or not number else None


def read_scaled_units(expr: Expr, scale: int) -> Expr | None:
    """Return the whole number of which a text is the digits with the exponent `-scale`, None if it is another text."""
    match expr:
        case Call(function="concat", arguments=(Cast(value=units, to=to), Literal(text=text, kind="string"))):
            return units if to.lower() == "string" and text == f"E-{scale}" else None
    return None


def unify_decimals(*values: Value) -> tuple[Value, ...] | None:
    """Return decimals and whole numbers as ones of the type that Spark finds for all, None if that loses digits."""
    kinds = [derive_operand_type(value.kind) for value in values]
    common: DecimalType | None = kinds[0]
    for kind in kinds[1:]:
        if kind is None or common is None:
            return None
        common = derive_common_type(common, kind)
    if common is None:
        return None
    cast = [cast_to_decimal(value, common) for value in values]
    return tuple(value for value in cast if value is not None)


def compile_decimal_call(function: str, value: Value, arguments: tuple[Expr, ...]) -> Value | None:
    """Return abs, round, floor or ceil of a decimal; `arguments` stand behind it."""
    kind = value.kind
    assert isinstance(kind, DecimalType)
    match function, arguments:
        case "abs", ():
            return Value(kind, "decimal_abs", (value,))
        case "floor", ():
            return Value(derive_floor_type(kind), "decimal_floor", (value,))
        case "ceil" | "ceiling", ():
            return Value(derive_floor_type(kind), "decimal_ceil", (value,))
        case "round", ():
            return Value(derive_round_type(kind, 0), "decimal_round", (value,))
        case "round", (Literal(kind="number", text=text),) if text.isdigit() and int(text) <= 38:
            return Value(derive_round_type(kind, int(text)), "decimal_round", (value,))
    return None

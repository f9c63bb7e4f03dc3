"""An expression that fails on a row becomes one that gives null there.

Method: Spark's own try_ functions. Arithmetic, casts, element_at, and the conversions of text below are covered.
"""

from __future__ import annotations

from functools import reduce

import msgspec

from engine.sql.expression.nodes import (
    NULL,
    Arithmetic,
    Call,
    Case,
    Cast,
    Expr,
    Interval,
    IsNull,
    Literal,
    Not,
    Unary,
    map_children,
)

OPERATORS = {
    "+": "try_add",
    "-": "try_subtract",
    "*": "try_multiply",
    "/": "try_divide",
    "%": "try_mod",
}
CALLS = {
    "to_timestamp": "try_to_timestamp",
    "to_date": "try_to_date",
    "to_time": "try_to_time",
    "to_number": "try_to_number",
    "to_binary": "try_to_binary",
    "make_timestamp": "try_make_timestamp",
    "make_interval": "try_make_interval",
    "parse_url": "try_parse_url",
    "url_decode": "try_url_decode",
    "parse_json": "try_parse_json",
    "variant_get": "try_variant_get",
    "validate_utf8": "try_validate_utf8",
    "zstd_decompress": "try_zstd_decompress",
    "mod": "try_mod",
}
_ZERO = Literal("0")
_MINUS_ONE = Unary("-", Literal("1", "tinyint"))


def guard_expression(expr: Expr) -> Expr:
    """Return an expression that gives null where `expr` would fail on a row."""
    expr = map_children(expr, guard_expression)
    match expr:
        case Cast():
            return msgspec.structs.replace(expr, attempt=True)
        case Arithmetic(operator="DIV", operands=(first, *others)):
            safe = tuple(Call("nullif", (each, _ZERO)) for each in others)
            return msgspec.structs.replace(expr, operands=(first, *safe))
        case Arithmetic() if expr.operator in OPERATORS:
            whole = reduce(lambda left, right: Call(OPERATORS[expr.operator], (left, right)), expr.operands)
            return msgspec.structs.replace(whole, known=expr.known)
        case Unary(operator="-") if not isinstance(expr.value, Literal | Interval):
            # only asked for: a product or a difference would have another type, and fewer digits
            fits = Not(IsNull(Call("try_multiply", (expr.value, _MINUS_ONE))))
            return Case(((fits, expr),), known=expr.known)
        case Call(function="assert_true"):
            return NULL
        case Call(function="element_at"):
            return msgspec.structs.replace(expr, function="try_element_at")
        case Call() if expr.function in CALLS:
            return msgspec.structs.replace(expr, function=CALLS[expr.function])
    return expr

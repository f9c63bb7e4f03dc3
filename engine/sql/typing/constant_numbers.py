"""Numbers that a query says by a calculation of literals."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation

import sqlglot.expressions as exp

from engine.errors import SqlError

_SIGNS = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/"}


def parse_fractions(node: exp.Expr, error: Callable[[str, exp.Expr, str], SqlError]) -> list[str | None]:
    """Return the fractions that a percentile is asked for, None for NULL; raises what `error` makes of one that is none."""
    inner = node.this if isinstance(node, exp.Paren) else node
    found: list[str | None] = []
    for part in inner.expressions if isinstance(inner, exp.Array) else [inner]:
        number = evaluate_constant(part)
        if (number is None and not has_null(part)) or (number is not None and not 0 <= number <= 1):
            raise error(f"{part.sql()} is no fraction", part, "write a number from 0 to 1")
        found.append(None if number is None else format(number, "f"))
    return found


def evaluate_constant(node: exp.Expr) -> Decimal | None:
    """Return the number that literals, signs and + - * / say, None for anything else.

    A quotient of whole numbers is one of decimals: what is asked for is a fraction.
    """
    match node:
        case exp.Paren() | exp.Cast():
            return evaluate_constant(node.this)
        case exp.Neg():
            inner = evaluate_constant(node.this)
            return None if inner is None else -inner
        case exp.Literal() if not node.is_string or isinstance(node.parent, exp.Cast):
            try:
                return Decimal(node.name)
            except InvalidOperation:
                return None
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
            one, other = evaluate_constant(node.this), evaluate_constant(node.expression)
            if one is None or other is None:
                return None
            return _calculate(_SIGNS[type(node)], one, other)
    return None


def _calculate(sign: str, one: Decimal, other: Decimal) -> Decimal | None:
    try:
        match sign:
            case "+":
                return one + other
            case "-":
                return one - other
            case "*":
                return one * other
        return one / other
    except ArithmeticError:  # by zero, or beyond all decimals
        return None


def has_null(node: exp.Expr) -> bool:
    """Tell whether a calculation of literals has no value, since one of its parts is NULL."""
    parts = (exp.Null, exp.Paren, exp.Neg, exp.Cast, exp.Literal, exp.DataType, *_SIGNS)
    return node.find(exp.Null) is not None and all(isinstance(part, parts) for part in node.walk())

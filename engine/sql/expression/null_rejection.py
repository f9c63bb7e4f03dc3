"""Which columns must have a value for an expression to have one, as far as its shape shows it."""

from __future__ import annotations

from engine.sql.expression.nodes import Arithmetic, Column, Comparison, Expr, Literal, Unary, walk

_OPERATORS = ("+", "-", "*", "/")


def find_strict_columns(expr: Expr, operand: bool = False) -> set[str]:
    """Return the columns whose null makes the expression null; without `operand` those of a comparison, else it is a value."""
    if isinstance(expr, Column):
        return {expr.name}
    if operand:
        return set(expr.columns) if _is_strict(expr) else set()
    if not isinstance(expr, Comparison) or expr.operator == "<=>":
        return set()
    return {column for side in (expr.left, expr.right) if _is_strict(side) for column in side.columns}


def _is_strict(expr: Expr) -> bool:
    return all(
        isinstance(part, Column | Literal | Unary)
        or (isinstance(part, Arithmetic) and part.operator in _OPERATORS)
        for part in walk(expr)
    )

"""Columns replaced by what computes them."""

from __future__ import annotations

from collections.abc import Mapping

from engine.sql.expression.nodes import (
    Arithmetic,
    Between,
    Call,
    Cast,
    Column,
    Comparison,
    Expr,
    Literal,
    Unary,
    count_nodes,
    map_children,
    measure_depth,
    walk,
)

MOST_NODES = 1000
MOST_LEVELS = 50
"""Up to here an expression is written out: a rule may do without, and each step of a chain would double what is below it."""
_BY_DIGITS = ("mod", "pmod")
"""Functions that are arithmetic."""


def substitute(expr: Expr, by: Mapping[str, Expr]) -> Expr:
    """Return the expression with every column replaced by what computes it; others stay."""
    if isinstance(expr, Column):
        return by.get(expr.name, expr)
    if isinstance(expr, Arithmetic | Unary) or (isinstance(expr, Call) and expr.function in _BY_DIGITS):
        return map_children(expr, lambda part: _substitute_typed(part, by))
    if isinstance(expr, Comparison | Between):
        return map_children(expr, lambda part: _substitute_typed(part, by, least=2**63))
    return map_children(expr, lambda part: substitute(part, by))


def _substitute_typed(part: Expr, by: Mapping[str, Expr], least: int = 0) -> Expr:
    """Return an operand; a whole number that is put for a column keeps its type, if it is at least that far from 0.

    Spark asks for the digits of constants, not of columns: beside decimals, and of those that no BIGINT is, in comparisons.
    """
    found = substitute(part, by)
    kind = _find_whole_type(found, least) if isinstance(part, Column) else None
    return found if kind is None else Cast(found, kind)


def _find_whole_type(expr: Expr, least: int) -> str | None:
    """Return the type of a whole constant of more than a byte, None for any other expression."""
    below = isinstance(expr, Unary) and expr.operator == "-"
    inner = expr.value if isinstance(expr, Unary) and below else expr
    if not isinstance(inner, Literal) or not inner.text.isdigit() or int(inner.text) < least:
        return None
    if inner.kind != "number":
        return inner.kind if inner.kind in ("bigint", "smallint") else None
    number = int(inner.text) - below
    wide = f"decimal({len(inner.text)},0)"
    return (
        "int" if number < 2**31 else "bigint" if number < 2**63 else wide if len(inner.text) <= 38 else None
    )


def substitute_small(expr: Expr, by: Mapping[str, Expr]) -> Expr | None:
    """Return the expression with every column replaced by what computes it, None if it would grow large."""
    replaced = [by[part.name] for part in walk(expr) if isinstance(part, Column) and part.name in by]
    computed = [each for each in replaced if not isinstance(each, Column)]
    if computed:
        if count_nodes(expr) + sum(count_nodes(each) - 1 for each in computed) > MOST_NODES:
            return None
        if max(measure_depth(each) for each in computed) >= MOST_LEVELS:
            return None
    found = substitute(expr, by)
    return None if computed and measure_depth(found) > max(MOST_LEVELS, measure_depth(expr)) else found

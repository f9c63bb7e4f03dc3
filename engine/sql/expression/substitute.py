"""Columns replaced by what computes them."""

from __future__ import annotations

from collections.abc import Mapping

from engine.sql.expression.nodes import Column, Expr, with_children


def substitute(expr: Expr, by: Mapping[str, Expr]) -> Expr:
    """Return the expression with every column replaced by what computes it; others stay."""
    if isinstance(expr, Column):
        return by.get(expr.name, expr)
    return with_children(expr, lambda part: substitute(part, by))

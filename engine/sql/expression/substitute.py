"""Columns replaced by what computes them."""

from __future__ import annotations

from collections.abc import Mapping

from engine.sql.expression.nodes import Column, Expr, count_nodes, map_children, measure_depth, walk

MOST_NODES = 1000
MOST_LEVELS = 50
"""Up to here an expression is written out: a rule may do without, and each step of a chain would double what is below it."""


def substitute(expr: Expr, by: Mapping[str, Expr]) -> Expr:
    """Return the expression with every column replaced by what computes it; others stay."""
    if isinstance(expr, Column):
        return by.get(expr.name, expr)
    return map_children(expr, lambda part: substitute(part, by))


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

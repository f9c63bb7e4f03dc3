"""Functions that PostgreSQL refuses to compute outside of their domain, where Spark answers NULL or NaN."""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.dialects.postgres.templates import fill_tree
from engine.sql.dialects.postgres.terms import TypeOf

_ROOT = "cannot take square root of a negative number"
_ZERO = "cannot take logarithm of zero"
_NEGATIVE = "cannot take logarithm of a negative number"
_LOGARITHM = f"if(_p0 = 0, raise_error('{_ZERO}'), if(_p0 < 0, raise_error('{_NEGATIVE}'), {{call}}))"


def guard_domain(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """Return a root or logarithm that fails outside of its domain: `sqrt(x)` -> `if(x < 0, raise_error('…'), sqrt(x))`

    Of a literal inside of it nothing is checked.
    """
    if not isinstance(node, exp.Sqrt | exp.Ln) and not (
        isinstance(node, exp.Log) and node.expression is None
    ):
        return None
    value = node.this.unnest()
    if isinstance(value, exp.Literal) and not value.is_string and float(value.name) > 0:
        return None
    if isinstance(node, exp.Sqrt):
        return fill_tree(f"if(_p0 < 0, raise_error('{_ROOT}'), sqrt(_p0))", node.this)
    name = "ln" if isinstance(node, exp.Ln) else "log10"
    return fill_tree(_LOGARITHM.format(call=f"{name}(_p0)"), node.this)


def require_finite(value: exp.Expr) -> exp.Expr:
    """Return a floating number that is to become a decimal, which neither NaN nor Infinity can: Spark would make null of them."""
    wrong = "isnan(_p0) OR abs(_p0) = CAST('Infinity' AS DOUBLE)"
    return fill_tree(f"if({wrong}, raise_error('NaN and Infinity are no numeric'), _p0)", value)

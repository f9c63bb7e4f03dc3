"""A comparison with ANY or ALL of an array's elements, as Spark says it.

`x = ANY (xs)` -> `exists(xs, _e -> x = _e)`, `x > ALL (xs)` -> `forall(xs, _e -> x > _e)`
"""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.dialect import Dialect

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Like, exp.ILike)


def array_comparison(node: exp.Expr, dialect: Dialect) -> exp.Expr:
    """Return a comparison with the elements of an array as a call; anything else stays as it is.

    In Spark's dialect `x LIKE ANY (a, b)` compares with patterns in parentheses, and stays as well.
    """
    if not isinstance(node, _COMPARISONS) or (dialect == "spark" and isinstance(node, exp.Like | exp.ILike)):
        return node
    right = node.expression
    every = isinstance(right, exp.All) or (isinstance(right, exp.Anonymous) and right.name.upper() == "ALL")
    if not every and not isinstance(right, exp.Any):
        return node
    array = right.expressions[0] if isinstance(right, exp.Anonymous) else right.this
    while isinstance(array, exp.Paren):
        array = array.this
    if isinstance(array, exp.Query):
        return node
    element = exp.to_identifier("_e")
    test = type(node)(this=node.this, expression=exp.column("_e"), **_negation(node))
    name = "forall" if every else "exists"
    return exp.Anonymous(this=name, expressions=[array, exp.Lambda(this=test, expressions=[element])])


def _negation(node: exp.Expr) -> dict[str, bool]:
    return {"negate": True} if node.args.get("negate") else {}

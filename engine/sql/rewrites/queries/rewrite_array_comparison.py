"""A comparison with ANY or ALL of an array's elements, as Spark says it.

Applies where an array stands behind ANY or ALL; a subquery there is bound as one (`membership.py`, `rewrite_quantified.py`).
In Spark's
dialect `x LIKE ANY (a, b)` compares with patterns in parentheses, and stays. The call stands in parentheses, so that a column of
the SELECT list does not get its name.
"""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.dialect import Dialect
from engine.sql.parsing.location import copy_location
from engine.sql.rewrites.contract import ParsedExample, QueryText

EXAMPLE = ParsedExample(
    before="SELECT id FROM bid WHERE price > ALL (ARRAY[1, 2]) AND note = ANY (ARRAY['a', 'b'])",
    after="SELECT id FROM bid WHERE (FORALL(ARRAY(1, 2), _e -> price > _e)) AND (EXISTS(ARRAY('a', 'b'), _e -> note = _e))",
    dialect="postgres",
)

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Like, exp.ILike)


def rewrite_array_comparison(tree: exp.Expr, text: QueryText) -> exp.Expr:
    """Return the tree with each comparison with the elements of an array as a call."""
    return tree.transform(_rewrite_comparison, text.dialect, copy=False)


def _rewrite_comparison(node: exp.Expr, dialect: Dialect) -> exp.Expr:
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
    test = type(node)(this=node.this, expression=element.copy(), **_read_negation(node))
    name = "forall" if every else "exists"
    call = exp.Anonymous(this=name, expressions=[array, exp.Lambda(this=test, expressions=[element])])
    return copy_location(exp.Paren(this=copy_location(call, node)), node)


def _read_negation(node: exp.Expr) -> dict[str, bool]:
    return {"negate": True} if node.args.get("negate") else {}

"""A left join whose unmatched rows a filter drops anyway is an inner one.

`Filter x < y` over `LeftJoin` with y of the right side -> `Filter x < y` over `InnerJoin`
"""

from __future__ import annotations

import msgspec
import sqlglot
import sqlglot.expressions as exp

from engine.sql.plan import Expr, Filter, Join, Node, Project

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_STRICT = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Paren, exp.Neg, exp.Column, exp.Literal, exp.Identifier)


def outer_to_inner(node: Node) -> Node:
    """Return a filter over a left join over an inner one if the filter needs a value of the right side."""
    if not isinstance(node, Filter):
        return node
    columns = strict_columns(node.predicate)
    below, computed = node.input, {}
    if isinstance(below, Project):
        computed = dict(below.items)
        columns = {c for name in columns for c in strict_columns(computed[name], operand=True)}
        below = below.input
    if not isinstance(below, Join) or below.kind != "left" or not columns & set(below.right.columns):
        return node
    inner = msgspec.structs.replace(below, kind="inner")
    return Filter(
        msgspec.structs.replace(node.input, input=inner) if isinstance(node.input, Project) else inner,
        node.predicate,
    )


def strict_columns(expr: Expr, operand: bool = False) -> set[str]:
    """Return the columns whose null makes the expression null (a predicate: not true), as far as its shape shows it."""
    if expr.column is not None:
        return {expr.column}
    tree = sqlglot.parse_one(expr.sql, read="spark")
    tree = tree.unnest() if isinstance(tree, exp.Paren) else tree
    shape = _STRICT if operand else (*_COMPARISONS, *_STRICT)
    if not isinstance(tree, shape) or (not operand and not isinstance(tree, _COMPARISONS)):
        return set()
    parts = [tree.this, tree.expression] if isinstance(tree, exp.Binary) else [tree]
    return {
        column.name
        for part in parts
        if all(isinstance(inner, _STRICT) for inner in part.walk())
        for column in part.find_all(exp.Column)
    }

"""Comparisons with ANY or ALL of a subquery's values in a query that is answered once: Spark has none.

`x > ALL (SELECT y …)` is said by the extremes of the values, as it is where a view is bound
(`sql/rewrites/binding/rewrite_quantified.py`).
"""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.parsing.comparisons import NEGATED
from engine.sql.rewrites.binding.rewrite_quantified import EXTREMES


def rewrite_quantified(tree: exp.Expr) -> exp.Expr:
    """Return the tree with each such comparison as an IN or a CASE, in place; rows without columns get one."""
    for node in list(tree.find_all(*NEGATED)):
        right = node.expression
        query = right.this.unnest() if isinstance(right, exp.Any | exp.All) else None
        if isinstance(query, exp.Subquery):
            query = query.this
        if isinstance(query, exp.Query) and isinstance(node, exp.Binary):
            node.replace(_rewrite_comparison(node, query, every=isinstance(right, exp.All)))
    for exists in tree.find_all(exp.Exists):
        inner = exists.this.unnest()
        if isinstance(inner, exp.Select) and not inner.expressions:
            inner.set("expressions", [exp.Literal.number(1)])
    return tree


def _rewrite_comparison(node: exp.Binary, query: exp.Query, *, every: bool) -> exp.Expr:
    kind = type(node)
    if not every and kind is exp.EQ:
        return exp.In(this=node.this, query=exp.Subquery(this=query.copy()))
    if every and kind is exp.NEQ:
        return exp.Paren(this=exp.Not(this=exp.In(this=node.this, query=exp.Subquery(this=query.copy()))))
    test = NEGATED[kind] if every else kind
    value = exp.column("_value")
    hits = [
        _coalesce_false(test(this=node.this.copy(), expression=_aggregate_values(query, name, value)))
        for name in EXTREMES[test]
    ]
    nulls = _coalesce_false(
        _aggregate_values(query, "bool_or", exp.Is(this=value.copy(), expression=exp.Null()))
    )
    some = _coalesce_false(_aggregate_values(query, "bool_or", exp.true()))
    null = exp.Is(this=node.this.copy(), expression=exp.Null())
    unknown = exp.or_(nulls, exp.and_(null, some))
    yes, no = (exp.false(), exp.true()) if every else (exp.true(), exp.false())
    found = exp.Case().when(exp.or_(*hits), yes).when(unknown, exp.Null()).else_(no)
    return exp.Paren(this=found)


def _aggregate_values(query: exp.Query, aggregate: str, value: exp.Expr) -> exp.Subquery:
    """Return an aggregate of a query's values as a scalar subquery."""
    alias = exp.TableAlias(this=exp.to_identifier("_values"), columns=[exp.to_identifier("_value")])
    call = exp.Anonymous(this=aggregate, expressions=[value.copy()])
    rows = exp.Subquery(this=query.copy(), alias=alias)
    return exp.Subquery(this=exp.Select(expressions=[call]).from_(rows, copy=False))


def _coalesce_false(node: exp.Expr) -> exp.Expr:
    return exp.Coalesce(this=node, expressions=[exp.false()])

"""`ARRAY(SELECT …)` of PostgreSQL: the values of a subquery as an array, empty if it gives none.

Applies in the dialects of PostgreSQL. A subquery that groups, cuts or is one of several is read as a table first.
"""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.rewrites.contract import ParsedExample, QueryText

EXAMPLE = ParsedExample(
    before="SELECT ARRAY(SELECT id FROM auction WHERE seller = bid.id ORDER BY id DESC) AS a FROM bid",
    after="SELECT COALESCE((SELECT COLLECT_LIST(id) FROM auction WHERE seller = bid.id), ARRAY()) AS a FROM bid",
    dialect="postgres",
)
_PLAIN = frozenset(("expressions", "from_", "joins", "laterals", "where", "order", "kind"))


def rewrite_array_subquery(tree: exp.Expr, text: QueryText) -> exp.Expr:
    """Return the tree with each array of a subquery's values as a scalar subquery."""
    if text.dialect == "spark":
        return tree
    for node in list(tree.find_all(exp.Array)):
        query = node.expressions[0] if len(node.expressions) == 1 else None
        if isinstance(query, exp.Query) and not isinstance(query, exp.Subquery):
            gathered = exp.Subquery(this=_collect_values(query))
            node.replace(exp.Coalesce(this=gathered, expressions=[exp.Array(expressions=[])]))
    return tree


def _collect_values(query: exp.Query) -> exp.Select:
    plain = isinstance(query, exp.Select) and all(k in _PLAIN for k, v in query.args.items() if v)
    if not plain or len(query.expressions) != 1 or query.find(exp.AggFunc, exp.Window) is not None:
        alias = exp.TableAlias(this=exp.to_identifier("_items"), columns=[exp.to_identifier("_item")])
        rows = exp.Subquery(this=query.copy(), alias=alias)
        return exp.Select(expressions=[exp.ArrayAgg(this=exp.column("_item"))]).from_(rows, copy=False)
    found = query.copy()
    value = found.expressions[0].unalias()
    order = found.args.get("order")
    found.set("order", None)
    inner = value.copy()
    if order is not None:
        for item in order.expressions:
            named = item.this.name if isinstance(item.this, exp.Column | exp.Literal) else ""
            if named in ("1", found.expressions[0].alias):
                item.set("this", value.copy())
        inner = exp.Order(this=inner, expressions=[item.copy() for item in order.expressions])
    found.set("expressions", [exp.ArrayAgg(this=inner)])
    assert isinstance(found, exp.Select)
    return found

"""ORDER BY of a row is ORDER BY of its fields: `ORDER BY (a, b) DESC` -> `ORDER BY a DESC, b DESC`.

Applies in all dialects, to queries, windows and aggregates. A row is no null itself, so NULLS FIRST of it says nothing; nulls of
its fields stand where the dialect has them without a word: last in PostgreSQL's family, first in Spark's, and with DESC the other
way round.
"""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.rewrites.contract import ParsedExample, QueryText

EXAMPLE = ParsedExample(
    before="SELECT id, sum(price) OVER (ORDER BY (auction, id) DESC) AS s FROM bid",
    after="SELECT id, SUM(price) OVER (ORDER BY auction DESC, id DESC) AS s FROM bid",
)


def expand_row_order(tree: exp.Expr, text: QueryText) -> exp.Expr:
    """Return the tree with the fields of rows in the place of rows that are ordered by."""
    for order in list(tree.find_all(exp.Order)):
        items = [
            part for item in order.expressions for part in _expand_fields(item, first=text.dialect == "spark")
        ]
        if len(items) != len(order.expressions):
            order.set("expressions", items)
    return tree


def _expand_fields(item: exp.Expr, *, first: bool) -> list[exp.Expr]:
    """Return an item of ORDER BY as several, if it is a row; `first` tells where nulls stand in an ascending order."""
    if not isinstance(item, exp.Ordered) or not isinstance(item.this, exp.Tuple):
        return [item]
    descending = bool(item.args.get("desc"))
    fields = (
        exp.Ordered(this=field.copy(), desc=item.args.get("desc"), nulls_first=first != descending)
        for field in item.this.expressions
    )
    return [part for field in fields for part in _expand_fields(field, first=first)]

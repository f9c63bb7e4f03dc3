"""`GROUPING(a, b)` of PostgreSQL: one number made of a bit of each of its arguments, the last one's the lowest.

Applies in the dialects of PostgreSQL; Spark's `grouping` takes one argument.
"""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.rewrites.contract import ParsedExample, QueryText

EXAMPLE = ParsedExample(
    before="SELECT grouping(auction, bidder) AS g FROM bid GROUP BY CUBE (auction, bidder)",
    after="SELECT (2 * GROUPING(auction) + 1 * GROUPING(bidder)) AS g FROM bid GROUP BY CUBE (auction, bidder)",
    dialect="postgres",
)


def expand_grouping_bits(tree: exp.Expr, text: QueryText) -> exp.Expr:
    """Return the tree with each GROUPING of several keys as a sum."""
    if text.dialect == "spark":
        return tree
    for node in list(tree.find_all(exp.Grouping)):
        if len(node.expressions) > 1:
            node.replace(_sum_bits(node.expressions))
    return tree


def _sum_bits(keys: list[exp.Expr]) -> exp.Expr:
    found: exp.Expr | None = None
    for place, key in enumerate(reversed(keys)):
        bit = exp.Mul(this=exp.Literal.number(1 << place), expression=exp.Grouping(expressions=[key.copy()]))
        found = bit if found is None else exp.Add(this=bit, expression=found)
    return exp.Paren(this=found)

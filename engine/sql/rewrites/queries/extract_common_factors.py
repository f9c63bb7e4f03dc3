"""What all branches of an OR demand is demanded once, outside: so a join finds its equality.

Applies to WHERE, before names are bound: joins are built with the equalities that stand there, so a rule of plans came too late.
"""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.rewrites.contract import ParsedExample, QueryText

EXAMPLE = ParsedExample(
    before="SELECT b.id FROM bid b, auction a WHERE (b.auction = a.id AND b.price = 1) OR (a.id = b.auction AND a.category = 2)",
    after="SELECT b.id FROM bid AS b CROSS JOIN auction AS a WHERE b.auction = a.id AND (b.price = 1 OR a.category = 2)",
)


def extract_common_factors(tree: exp.Expr, text: QueryText) -> exp.Expr:
    """Return the tree with the common conjuncts of every OR in WHERE taken out."""
    for where in list(tree.find_all(exp.Where)):
        if isinstance(where.parent, exp.Select):  # else it is the condition of an aggregate's FILTER
            where.set("this", _extract_factors(where.this))
    return tree


def _extract_factors(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Paren):
        return _extract_factors(node.this)
    if isinstance(node, exp.And):
        return _combine(exp.And, [_extract_factors(node.this), _extract_factors(node.expression)])
    if not isinstance(node, exp.Or):
        return node
    branches = [_list_conjuncts(branch) for branch in _list_branches(node)]
    first, *others = branches
    shared = [part for part in first if all(_is_among(part, other) for other in others)]
    if not shared:
        return node
    rests = [[part for part in branch if not _is_among(part, shared)] for branch in branches]
    parts = list(shared)
    if all(rests):  # a branch that demands nothing more makes the rest true
        parts.append(_combine(exp.Or, [_combine(exp.And, rest) for rest in rests]))
    return _combine(exp.And, parts)


def _is_among(part: exp.Expr, others: list[exp.Expr]) -> bool:
    """Tell whether a condition stands in a list, an equality also with its sides exchanged."""
    turned = (
        exp.EQ(this=part.expression.copy(), expression=part.this.copy()) if isinstance(part, exp.EQ) else part
    )
    return part in others or turned in others


def _list_branches(node: exp.Expr) -> list[exp.Expr]:
    node = node.unnest() if isinstance(node, exp.Paren) else node
    return _list_branches(node.this) + _list_branches(node.expression) if isinstance(node, exp.Or) else [node]


def _list_conjuncts(node: exp.Expr) -> list[exp.Expr]:
    node = node.unnest() if isinstance(node, exp.Paren) else node
    return (
        _list_conjuncts(node.this) + _list_conjuncts(node.expression) if isinstance(node, exp.And) else [node]
    )


def _combine(kind: type[exp.Connector], parts: list[exp.Expr]) -> exp.Expr:
    found = parts[0]
    for part in parts[1:]:
        sides = [
            exp.Paren(this=side) if isinstance(side, exp.Connector) and type(side) is not kind else side
            for side in (found, part)
        ]
        found = kind(this=sides[0], expression=sides[1])
    return found

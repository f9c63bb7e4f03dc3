"""What all branches of an OR demand is demanded once, outside: so a join finds its equality.

`(a = b AND x) OR (a = b AND y)` -> `a = b AND (x OR y)`
"""

from __future__ import annotations

import sqlglot.expressions as exp


def common_factors(node: exp.Expr) -> exp.Expr:
    """Return the condition with the common conjuncts of every OR taken out."""
    if isinstance(node, exp.Paren):
        return common_factors(node.this)
    if isinstance(node, exp.And):
        return exp.And(this=common_factors(node.this), expression=common_factors(node.expression))
    if not isinstance(node, exp.Or):
        return node
    branches = [_conjuncts(branch) for branch in _branches(node)]
    first, *others = branches
    shared = [part for part in first if all(_within(part, other) for other in others)]
    if not shared:
        return node
    rests = [[part for part in branch if not _within(part, shared)] for branch in branches]
    parts = list(shared)
    if all(rests):  # a branch that demands nothing more makes the rest true
        parts.append(_joined(exp.Or, [_joined(exp.And, rest) for rest in rests]))
    return _joined(exp.And, parts)


def _within(part: exp.Expr, others: list[exp.Expr]) -> bool:
    """Tell whether a condition stands in a list, an equality also with its sides exchanged."""
    turned = (
        exp.EQ(this=part.expression.copy(), expression=part.this.copy()) if isinstance(part, exp.EQ) else part
    )
    return part in others or turned in others


def _branches(node: exp.Expr) -> list[exp.Expr]:
    node = node.unnest() if isinstance(node, exp.Paren) else node
    return _branches(node.this) + _branches(node.expression) if isinstance(node, exp.Or) else [node]


def _conjuncts(node: exp.Expr) -> list[exp.Expr]:
    node = node.unnest() if isinstance(node, exp.Paren) else node
    return _conjuncts(node.this) + _conjuncts(node.expression) if isinstance(node, exp.And) else [node]


def _joined(kind: type[exp.Connector], parts: list[exp.Expr]) -> exp.Expr:
    found = parts[0]
    for part in parts[1:]:
        sides = [
            exp.Paren(this=side) if isinstance(side, exp.Connector) and type(side) is not kind else side
            for side in (found, part)
        ]
        found = kind(this=sides[0], expression=sides[1])
    return found

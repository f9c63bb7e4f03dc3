"""Semi and anti joins: a left row is there if it has a match (semi) or has none (anti).

Rule: d(L ⋉ R) = dL ⋉ R_new + L_old ⋉ R_new - L_old ⋉ R_old, of which the last two differ under the keys of dR only.
"""

from __future__ import annotations

from engine.operators.context import At, EpochContext, select
from engine.operators.expand import expand, hits_first, narrow, touched_sides, with_line
from engine.operators.flow import Rows, keep
from engine.sql.expression.nodes import Column, Expr, Not
from engine.sql.expression.spark_sql import quote
from engine.sql.plan import Join


def attach_mark(
    frame: Rows, node: Join, context: EpochContext, *, at: At, given: str | None = None
) -> tuple[Rows, str]:
    """Add a column that says whether a row, which holds the left side's columns, has a match; and return its name."""
    line, rank = context.fresh("line"), context.fresh("rank")
    outer = list(frame.columns)
    several = not set(node.right.key) <= {column for _, column in node.on}
    if several:
        frame = with_line(frame, line)
    joined, hit = expand(node.right, frame, node.on, context, at=at, given=given, null_safe=node.null_safe)
    if node.residual is not None:
        joined, hit = narrow(joined, hit, node.residual, context)
    if several:
        joined = hits_first(select(joined, [*outer, hit, line]), line, hit, rank).where(f"{quote(rank)} = 1")
    return select(joined, [*outer, hit]), hit


def wanted(node: Join, mark: str) -> Expr:
    """Return the condition on the mark under which a left row is in the result."""
    return Column(mark) if node.kind == "semi" else Not(Column(mark))


def delta(node: Join, left: Rows | None, right: Rows | None, context: EpochContext) -> Rows | None:
    """Return the signed change; rows whose match did not change come twice and cancel each other."""
    terms = []
    if left is not None:
        marked, mark = attach_mark(left, node, context, at="new")
        terms.append(select(keep(marked, wanted(node, mark)), [*node.columns, "_w"]))
    if right is not None:
        marked, mark = attach_mark(touched_sides(node, right, context), node, context, at="side")
        terms.append(select(keep(marked, wanted(node, mark)), [*node.columns, "_w"]))
        context.terms += 1
    context.terms += len(terms)
    return context.union(terms)

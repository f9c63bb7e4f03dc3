"""Semi and anti joins: a left row is there if it has a match (semi) or has none (anti).

Rule: d(L ⋉ R) = dL ⋉ R_new + L_old ⋉ R_new - L_old ⋉ R_old, of which the last two differ under the keys of dR only.
"""

from __future__ import annotations

from engine.operators.context import At, EpochContext, select
from engine.operators.expand import expand, narrow, touched_sides
from engine.operators.flow import Rows
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
        frame = frame.selectExpr("*", f"monotonically_increasing_id() AS {quote(line)}")
    joined, hit = expand(node.right, frame, node.on, context, at=at, given=given, null_safe=node.null_safe)
    if node.residual is not None:
        joined, hit = narrow(joined, hit, node.residual, context)
    if several:
        window = f"row_number() OVER (PARTITION BY {quote(line)} ORDER BY {quote(hit)} DESC) AS {quote(rank)}"
        joined = select(joined, [*outer, hit], window).where(f"{quote(rank)} = 1")
    return select(joined, [*outer, hit]), hit


def wanted(node: Join, mark: str) -> str:
    """Return the condition on the mark under which a left row is in the result."""
    return quote(mark) if node.kind == "semi" else f"NOT {quote(mark)}"


def delta(node: Join, left: Rows | None, right: Rows | None, context: EpochContext) -> Rows | None:
    """Return the signed change; rows whose match did not change come twice and cancel each other."""
    terms = []
    if left is not None:
        marked, mark = attach_mark(left, node, context, at="new")
        terms.append(select(marked.where(wanted(node, mark)), [*node.columns, "_w"]))
    if right is not None:
        marked, mark = attach_mark(touched_sides(node, right, context), node, context, at="side")
        terms.append(select(marked.where(wanted(node, mark)), [*node.columns, "_w"]))
        context.terms += 1
    context.terms += len(terms)
    return context.union(terms)

"""Semi and anti joins: a left row is there if it has a match (semi) or has none (anti).

Rule: d(L ⋉ R) = dL ⋉ R_new + L_old ⋉ R_new - L_old ⋉ R_old, of which the last two differ under the keys of dR only.

>>> change("SELECT category FROM auction a WHERE EXISTS (SELECT 1 FROM bid b WHERE b.auction = a.id)")
+ category=books
"""

from __future__ import annotations

from engine.operators.change import Change, sum_terms
from engine.operators.context import EpochContext, select
from engine.operators.flow import keep
from engine.operators.lookups.expand import attach_mark, build_mark_condition, find_touched_left
from engine.sql.plan import Join


def delta(node: Join, left: Change | None, right: Change | None, context: EpochContext) -> Change | None:
    """Return the signed change; rows whose match did not change come twice and cancel each other."""
    terms, cancelling = [], 0
    if left is not None:
        marked, mark = attach_mark(left.rows, node, context, at="new")
        terms.append(select(keep(marked, build_mark_condition(node, mark)), [*node.columns, "_w"]))
    if right is not None:
        marked, mark = attach_mark(find_touched_left(node, right.rows, context), node, context, at="side")
        terms.append(select(keep(marked, build_mark_condition(node, mark)), [*node.columns, "_w"]))
        cancelling = 1
    return sum_terms(terms, len(terms) + cancelling, (left, right), context)

"""Inner and left joins by delta queries: the change of one side looked up in the other, no state but indexes of tables.

Rule: d(L x R) = dL x R_new + L_old x dR. A left join is linear in its left side; for its right side, the left rows whose key
stands in dR are joined again, with R_old (retracted) and R_new (inserted).

>>> change("SELECT a.id, b.price FROM auction a LEFT JOIN bid b ON b.auction = a.id")
- id=7 price=50
- id=9 price=None
+ id=9 price=10
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from engine.operators.change import Change, sum_terms
from engine.operators.context import SMALL_CHANGE_ROWS, EpochContext, select
from engine.operators.flow import Rows, keep
from engine.operators.joins import asof_join
from engine.operators.joins.cross_join import HOW
from engine.operators.lookups.expand import attach_left, expand, find_touched_left
from engine.operators.lookups.lookup import Probe
from engine.sql.expression.nodes import TRUE, Column, Comparison, Expr
from engine.sql.expression.spark_sql import render_spark_sql
from engine.sql.expression.template import join_conditions
from engine.sql.plan import Join, list_scans

BROADCAST_ROWS = 100_000


def batch(node: Join, left: DataFrame, right: DataFrame, context: EpochContext) -> DataFrame:
    """Return the join of two whole inputs; a small side of a larger join is broadcast, where its kind allows that."""
    if node.nearest is not None:
        return asof_join.batch(node, node.nearest, left, right)
    equal = "<=>" if node.null_safe else "="
    tests: list[Expr] = [Comparison(equal, Column(a), Column(b)) for a, b in node.on]
    tests += [node.residual] if node.residual is not None else []
    condition = join_conditions(tests) or TRUE
    rows = [
        sum(context.estimate_rows(scan.table) for scan in list_scans(side))
        for side in (node.left, node.right)
    ]
    if sum(rows) > SMALL_CHANGE_ROWS or not context.is_small:  # else both are in one partition
        if rows[1] <= BROADCAST_ROWS:
            right = right.hint("broadcast")
        elif rows[0] <= BROADCAST_ROWS and node.kind == "inner":
            left = left.hint("broadcast")
    return left.join(right, F.expr(render_spark_sql(condition)), HOW[node.kind])


def delta(node: Join, left: Change | None, right: Change | None, context: EpochContext) -> Change | None:
    """Return the signed change of the join; rows of the two terms may cancel each other."""
    terms = []
    if left is not None:
        terms.append(_compute_left_term(node, left.rows, context))
    if right is not None:
        terms.append(
            _compute_inner_right_term(node, right.rows, context)
            if node.kind == "inner"
            else _compute_outer_right_term(node, right.rows, context)
        )
    twice = right is not None and node.kind == "left"  # touched rows as they were, and as they are
    return sum_terms(terms, len(terms) + twice, (left, right), context)


def _compute_left_term(node: Join, left: Rows, context: EpochContext) -> Rows:
    if node.kind == "left":
        return select(attach_left(left, node, context, at="new", guard=None), [*node.columns, "_w"])
    joined, hit = expand(node.right, left, Probe(node.on, "new", null_safe=node.null_safe), context)
    return _filter_matched(node, joined, hit)


def _compute_inner_right_term(node: Join, right: Rows, context: EpochContext) -> Rows:
    pairs = tuple((b, a) for a, b in node.on)
    joined, hit = expand(node.left, right, Probe(pairs, "old", null_safe=node.null_safe), context)
    return _filter_matched(node, joined, hit)


def _compute_outer_right_term(node: Join, right: Rows, context: EpochContext) -> Rows:
    sides = find_touched_left(node, right, context)
    return select(attach_left(sides, node, context, at="side", guard=None), [*node.columns, "_w"])


def _filter_matched(node: Join, joined: Rows, hit: str) -> Rows:
    matched = keep(joined, Column(hit))
    if node.residual is not None:
        matched = keep(matched, node.residual)
    return select(matched, [*node.columns, "_w"])

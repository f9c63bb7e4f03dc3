"""Joins without an equality: every pair of rows is tried, so the cost of an epoch follows the other side's size.

Rule: for the inner join dL x R_new + L_old x dR; where rows depend on whether others match (left, semi, anti), a change
of the right compares the whole result before and after. The pairs of small sides, as with the one row of a scalar subquery, are
made in the task that has the change.

>>> change("SELECT b.id, a.category FROM bid b JOIN auction a ON b.price > a.id * 4")
- id=2 category=art
- id=2 category=books
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from engine.operators.change import Change, sum_terms
from engine.operators.context import At, Batch, EpochContext, select
from engine.operators.flow import COMES, GOES, WEIGHT, Flow, Rows, append_columns, as_frame, keep
from engine.operators.lookups.expand import can_read_whole, expand
from engine.operators.lookups.lookup import Probe
from engine.operators.lookups.table_parameters import count_pairs
from engine.operators.spark_reasons import record_operator
from engine.sql.expression.nodes import TRUE, Column
from engine.sql.expression.spark_sql import render_spark_sql
from engine.sql.plan import Join, Node, list_scans

MOST_PAIRS = 1 << 24
"""Beyond so many pairs of two sides' rows Spark, which shares them out to all cores, looks at those of a change."""
HOW = {"inner": "inner", "left": "left", "semi": "left_semi", "anti": "left_anti"}


def delta(
    node: Join, left: Change | None, right: Change | None, context: EpochContext, batch: Batch
) -> Change | None:
    """Return the signed change; `batch` gives a whole side at the context's new epoch."""
    if left is None and right is None:
        return None
    assert context.old is not None
    before = replace(context, new=context.old)
    terms: list[Rows] = []
    if right is not None and node.kind != "inner":
        for weight, at in ((GOES, before), (COMES, context)):
            whole = _join_pairs(node, batch(node.left, at), batch(node.right, at))
            terms.append(as_frame(append_columns(whole, weight)))
    else:
        if left is not None:
            pairs = _pair_here(node, left.rows, node.right, "new", context)
            terms.append(_join_pairs(node, left.rows, batch(node.right, context)) if pairs is None else pairs)
        if right is not None:
            pairs = _pair_here(node, right.rows, node.left, "old", context)
            terms.append(_join_pairs(node, batch(node.left, before), right.rows) if pairs is None else pairs)
    return sum_terms([select(term, [*node.columns, WEIGHT]) for term in terms], 2, (left, right), context)


def _pair_here(node: Join, change: Rows, side: Node, at: At, context: EpochContext) -> Rows | None:
    """Return the signed pairs of a change with all rows of the other side, None where that is not for one task."""
    here = node.kind == "inner" and isinstance(change, Flow) and change.single and context.piece is None
    if not here or not can_read_whole(side, context) or not _are_few_pairs(node, context):
        return None
    pairs, hit = expand(side, change, Probe((), at), context)
    found = keep(pairs, Column(hit))
    return found if node.residual is None else keep(found, node.residual)


def _are_few_pairs(node: Join, context: EpochContext) -> bool:
    """Tell whether two sides have few enough rows; a frame that is kept counts on it."""
    left, right = (tuple(scan.table for scan in list_scans(side)) for side in (node.left, node.right))
    if count_pairs(context.tables, left, right) > MOST_PAIRS:
        return False
    if context.parameters is not None:
        context.parameters.pairs.add((left, right, MOST_PAIRS))
    return True


def _join_pairs(node: Join, left: Rows, right: Rows) -> DataFrame:
    record_operator("a join without equal columns looks at every pair of rows")
    condition = F.expr(render_spark_sql(node.residual or TRUE))
    return as_frame(left).join(as_frame(right).hint("broadcast"), condition, HOW[node.kind])

"""Joins without an equality: every pair of rows is tried, so the cost of an epoch follows the other side's size.

Rule: for the inner join dL x R_new + L_old x dR; where rows depend on whether others match (left, semi, anti), a change
of the right compares the whole result before and after. Where the sides are small, as beside the one row of a scalar subquery, it
is the rule of joins with an equality: the task with a change reads the other side.

>>> change("SELECT b.id, a.category FROM bid b JOIN auction a ON b.price > a.id * 4")
- id=2 category=art
- id=2 category=books
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from engine.operators.change import Change, sum_terms
from engine.operators.context import SMALL_CHANGE_ROWS, Batch, EpochContext, select
from engine.operators.flow import COMES, GOES, WEIGHT, Flow, Rows, append_columns, as_frame
from engine.operators.lookups.expand import can_read_whole
from engine.operators.lookups.row_bounds import PairBound
from engine.operators.spark_reasons import record_operator
from engine.sql.expression.nodes import TRUE
from engine.sql.expression.spark_sql import render_spark_sql
from engine.sql.plan import Join

MOST_PAIRS = 1 << 24
"""Beyond so many pairs of a change and the other side Spark, which shares them out to all cores, makes them."""
HOW = {"inner": "inner", "left": "left", "semi": "left_semi", "anti": "left_anti"}


def is_for_one_task(node: Join, left: Change | None, right: Change | None, context: EpochContext) -> bool:
    """Tell whether the sides of a join without an equality are so small that the task with a change reads the other side.

    A frame that is kept counts on it.
    """
    changes = [change.rows for change in (left, right) if change is not None]
    if context.piece is not None or not all(isinstance(rows, Flow) and rows.single for rows in changes):
        return False
    reads = [] if right is None else [(node.right, node.left)]
    reads += [(node.left, node.right)] if left is not None or node.kind != "inner" else []
    if not all(can_read_whole(side, context) for _, side in reads):
        return False
    bounds = [PairBound(changed, SMALL_CHANGE_ROWS, side, MOST_PAIRS) for changed, side in reads]
    if not all(bound.holds(context.tables) for bound in bounds):
        return False
    if context.parameters is not None:
        context.parameters.bounds.update(bounds)
    return True


def delta(
    node: Join, left: Change | None, right: Change | None, context: EpochContext, batch: Batch
) -> Change | None:
    """Return the signed change, computed by Spark; `batch` gives a whole side at the context's new epoch."""
    if left is None and right is None:
        return None
    assert context.old is not None
    before = replace(context, new=context.old)
    terms: list[DataFrame] = []
    if right is not None and node.kind != "inner":
        for weight, at in ((GOES, before), (COMES, context)):
            whole = _join_pairs(node, batch(node.left, at), batch(node.right, at))
            terms.append(as_frame(append_columns(whole, weight)))
    else:
        if left is not None:
            terms.append(_join_pairs(node, left.rows, batch(node.right, context)))
        if right is not None:
            terms.append(_join_pairs(node, batch(node.left, before), right.rows))
    return sum_terms([select(term, [*node.columns, WEIGHT]) for term in terms], 2, (left, right), context)


def _join_pairs(node: Join, left: Rows, right: Rows) -> DataFrame:
    record_operator("a join without equal columns looks at every pair of rows")
    condition = F.expr(render_spark_sql(node.residual or TRUE))
    return as_frame(left).join(as_frame(right).hint("broadcast"), condition, HOW[node.kind])

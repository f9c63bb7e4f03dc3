"""The first rows of each group: touched groups are ordered again from their rows; without groups, everything is.

>>> change("SELECT id, price FROM bid ORDER BY price DESC LIMIT 2")
- id=2 price=50
+ id=3 price=20
"""

from __future__ import annotations

from engine.operators.arrow.over_windows import compute_windows
from engine.operators.change import Change
from engine.operators.context import EpochContext, select
from engine.operators.flow import Flow, Rows, as_frame, keep
from engine.operators.grouping.touched_groups import recompute_groups
from engine.sql.expression.nodes import And, Call, Column, Comparison, Expr, Literal
from engine.sql.expression.spark_sql import quote
from engine.sql.plan import Project, TopN
from engine.sql.window_calls import WindowCall

_RANK = "_rank"


def batch(node: TopN, rows: Rows) -> Rows:
    """Return the first rows of every group of a whole input."""
    if isinstance(rows, Flow):
        numbered = WindowCall(_RANK, Call("row_number"), node.order)
        found = compute_windows(rows, node.partition, node.key, (numbered,))
        if found is not None:
            return select(keep(found, _build_rank_condition(node)), node.columns)
    order = [
        f"{quote(key.column)} {'DESC' if key.descending else 'ASC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}"
        for key in node.order
    ]
    order += [f"{quote(column)} ASC NULLS FIRST" for column in node.key]
    by = f"PARTITION BY {', '.join(quote(column) for column in node.partition)} " if node.partition else ""
    ranked = as_frame(rows).selectExpr(
        "*", f"row_number() OVER ({by}ORDER BY {', '.join(order)}) AS `{_RANK}`"
    )
    return select(keep(ranked, _build_rank_condition(node)), node.columns)


def _build_rank_condition(node: TopN) -> Expr:
    """Return whether a row's number is among those that are wanted."""
    beyond = Comparison(">", Column(_RANK), Literal(str(node.offset)))
    if node.limit is None:
        return beyond
    upto = Comparison("<=", Column(_RANK), Literal(str(node.offset + node.limit)))
    return And((beyond, upto))


def delta(top: Project, table: str, change: Change, context: EpochContext) -> Change:
    """Return the signed change of the fragment's table: of each touched group the old rows go and the new ones come."""
    node = top.input
    assert isinstance(node, TopN) and node.partition
    keys = list(zip(node.partition, context.tables[table].distribution_key, strict=True))
    return recompute_groups(top, table, keys, change.rows, lambda rows: batch(node, rows), context)

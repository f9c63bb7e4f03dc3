"""Frames over partitions: the difference that some make when they are computed again, and which ones an epoch touches."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame

from engine.hummock import Table
from engine.operators.change import Change, sum_terms
from engine.operators.compile import batch
from engine.operators.context import EpochContext, select
from engine.operators.flow import COMES, append_columns, as_frame, compute
from engine.operators.full_refresh import diff_rows
from engine.operators.lookups.scan import delta, read_snapshot
from engine.operators.materialize import AGAIN, OPERATION, WAS
from engine.runtime.executor import RecomputedPartitions
from engine.runtime.spark.analyze import build_whole_frame
from engine.sql.expression.nodes import FALSE, TRUE, Expr, Literal
from engine.sql.expression.template import as_columns
from engine.sql.plan import Scan


def append_partitions(
    change: Change | None, again: RecomputedPartitions, table: Table, context: EpochContext
) -> Change:
    """Return a change of other partitions together with the difference that those computed `again` make, marked as such."""
    whole = build_whole_frame(again.fragment, context)
    if table.name not in context.tables or context.old is None:
        difference_made = append_columns(whole, COMES)
    else:
        difference_made = diff_rows(whole, table.name, context, again.mine)
    columns = [*table.schema.names, "_w"]
    if change is None:
        return Change(select(difference_made, columns, (AGAIN, TRUE)))
    if OPERATION in change.rows.columns:
        constants: tuple[tuple[str, Expr], ...] = (
            ("_w", Literal("0", "bigint")),
            *as_columns((WAS, OPERATION)),
            (AGAIN, FALSE),
        )
        others = select(change.rows, list(table.schema.names), *constants)
        marked = select(difference_made, columns, (WAS, FALSE), (OPERATION, Literal("0")), (AGAIN, TRUE))
    else:
        others = select(change.rows, columns, (AGAIN, FALSE))
        marked = select(difference_made, columns, (AGAIN, TRUE))
    merged = sum_terms([others, marked], 0, (change,), context)
    assert merged is not None
    return merged


def count_rows_read(again: RecomputedPartitions, context: EpochContext) -> int:
    """Count the input rows, at the new epoch, of the partitions that were computed again."""
    frames = [batch(node, context).selectExpr("1 AS `one`") for node in again.counted]
    return reduce(DataFrame.union, frames).count() if frames else 0


def find_touched_partitions(
    keys: Sequence[tuple[Scan, Expr]], context: EpochContext, most: int
) -> tuple[str, ...]:
    """Return at most `most` of the partitions of the rows that change in an epoch, or of all rows of a first build.

    A row whose key is null is in none.
    """
    frames = []
    for scan, key in keys:
        change = Change(read_snapshot(scan, context)) if context.old is None else delta(scan, context)
        if change is not None:
            frames.append(as_frame(compute(change.rows, [("key", key)])))
    if not frames:
        return ()
    found = reduce(DataFrame.union, frames).where("key IS NOT NULL").distinct().limit(most).collect()
    return tuple(sorted(row.key for row in found))

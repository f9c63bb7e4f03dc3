"""From plan nodes to Spark frames: `batch` computes a node from whole tables, `delta` its signed change in one epoch."""

from __future__ import annotations

from typing import assert_never

from pyspark.sql import DataFrame

from engine.operators import (
    constant_rows,
    dynamic_filter,
    full_refresh,
    linear,
    temporal_filter,
    union_all,
    unnest,
)
from engine.operators.change import Change
from engine.operators.context import EpochContext
from engine.operators.flow import Rows, as_frame
from engine.operators.grouping import aggregate, top_n, windows
from engine.operators.joins import asof_join, cross_join, join, semi_join, temporal_join
from engine.operators.lookups import scan
from engine.sql.plan import (
    Aggregate,
    DynamicFilter,
    Filter,
    Join,
    Node,
    Over,
    Project,
    Recompute,
    Scan,
    TemporalFilter,
    TopN,
    UnionAll,
    Unnest,
    Values,
    list_children,
    list_scans,
)


def batch(node: Node, context: EpochContext) -> DataFrame:
    """Return all rows of `node` at the context's new epoch: the definition that every incremental rule must equal."""
    return as_frame(compute_whole(node, context))


def compute_whole(node: Node, context: EpochContext) -> Rows:
    """Return the same; what stands right on a scan and is known to Arrow is computed where the scan is read."""
    match node:
        case Scan():
            return scan.read_snapshot(node, context)
        case Filter():
            return linear.filter_rows(node, compute_whole(node.input, context))
        case Project():
            return linear.project(node, compute_whole(node.input, context))
        case UnionAll() if _is_driven(node, context):
            return union_all.batch(node, [_compute_driver_branch(child, context) for child in node.inputs])
        case DynamicFilter():  # of its bounds only a number is read, where it runs
            return dynamic_filter.batch(node, batch(node.input, context), context)
    return compute_over(node, [batch(child, context) for child in list_children(node)], context)


def _is_driven(node: Node, context: EpochContext) -> bool:
    """Tell whether the scan that a step of a backfill reads in pieces stands below a node."""
    return any(context.is_driver(one) for one in list_scans(node))


def _compute_driver_branch(branch: Node, context: EpochContext) -> DataFrame:
    """Return the rows that a branch gives in a step of a backfill: none, if another branch is read."""
    rows = batch(branch, context)
    return rows if _is_driven(branch, context) else rows.where("FALSE")


def compute_over(node: Node, inputs: list[DataFrame], context: EpochContext) -> DataFrame:
    """Return the rows of `node` over given rows of its inputs."""
    match node:
        case Scan():
            raise AssertionError("a scan has no inputs")
        case Filter():
            return as_frame(linear.filter_rows(node, inputs[0]))
        case Project():
            return as_frame(linear.project(node, inputs[0]))
        case Join():
            return join.batch(node, inputs[0], inputs[1], context)
        case UnionAll():
            return union_all.batch(node, inputs)
        case Values():
            return constant_rows.batch(node, context)
        case Unnest():
            return as_frame(unnest.unnest(node, inputs[0]))
        case TopN():
            return as_frame(top_n.batch(node, inputs[0]))
        case Over():
            return as_frame(windows.batch(node, inputs[0]))
        case DynamicFilter():
            return dynamic_filter.batch(node, inputs[0], context)
        case TemporalFilter():
            return temporal_filter.batch(node, inputs[0], context)
        case Recompute():
            return full_refresh.batch(node, inputs, context)
        case Aggregate():
            return aggregate.batch(node, inputs[0])


def delta(node: Node, context: EpochContext) -> Change | None:
    """Return the signed change of `node` in (old, new] with its weight `_w` (+1 or -1), or None when nothing changed.

    Rows may cancel each other; aggregates stand only at the top of a fragment and have their own rules.
    """
    above: list[Filter | Project | Unnest] = []
    while isinstance(node, Filter | Project | Unnest):
        above.append(node)
        node = node.input
    match node:
        case Scan():
            change = scan.delta(node, context)
        case Join():
            left, right = delta(node.left, context), None
            if not node.at_arrival:
                right = delta(node.right, context)
            elif left is not None:
                left = left.with_rows(temporal_join.filter_inserts(left.rows))
            if node.nearest is not None:
                change = asof_join.delta(node, node.nearest, left, right, context)
            elif not node.on and not cross_join.is_for_one_task(node, left, right, context):
                change = cross_join.delta(node, left, right, context, batch)
            elif node.kind in ("semi", "anti"):
                change = semi_join.delta(node, left, right, context)
            else:
                change = join.delta(node, left, right, context)
        case DynamicFilter():
            change = dynamic_filter.delta(node, delta(node.input, context), context)
        case Values():
            change = None
        case UnionAll():
            change = union_all.delta(node, [delta(child, context) for child in node.inputs], context, batch)
        case Recompute():
            raise AssertionError("a query that is recomputed is a fragment of its own")
        case TopN():
            raise AssertionError("the first rows of groups have a state table of their own")
        case TemporalFilter():
            raise AssertionError("a filter on now() has a state table of its own")
        case Over():
            raise AssertionError("calls over windows have a table of their own")
        case Aggregate():
            raise AssertionError("an aggregate below the top of a fragment has a state table of its own")
        case _:
            assert_never(node)
    for one in reversed(above):
        change = None if change is None else change.with_rows(_apply(one, change.rows))
    return change


def _apply(node: Filter | Project | Unnest, rows: Rows) -> Rows:
    """Return what a linear node makes of the signed rows of its input."""
    match node:
        case Filter():
            return linear.filter_rows(node, rows)
        case Project():
            return linear.project(node, rows, "_w")
        case Unnest():
            return unnest.unnest(node, rows, "_w")

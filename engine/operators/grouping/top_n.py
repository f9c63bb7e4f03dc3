"""The first rows of each group: of a group that a change touches they follow from those that are stored, or it is read anew.

>>> change("SELECT id, price FROM bid ORDER BY price DESC LIMIT 2")
- id=2 price=50
+ id=3 price=20
"""

from __future__ import annotations

from pyspark.sql.types import BooleanType, StructField, StructType

from engine.operators.arrow.first_rows import keep_first_rows
from engine.operators.arrow.over_windows import compile_sorting
from engine.operators.change import Change
from engine.operators.context import EpochContext, select
from engine.operators.flow import COMES, WEIGHT, Flow, Rows, as_frame, compute, keep
from engine.operators.grouping.stored_first_rows import SHORT, MergeFirstRows
from engine.operators.grouping.touched_groups import (
    can_read_group,
    pair_group_keys,
    recompute_groups,
    separate_groups,
)
from engine.operators.linear import project
from engine.operators.lookups.expand import can_read_whole, expand
from engine.operators.lookups.lookup import Probe
from engine.sql.expression.nodes import And, Column, Comparison, Expr, Literal, Not
from engine.sql.expression.spark_sql import quote
from engine.sql.plan import Project, TopN

_RANK = "_rank"


def batch(node: TopN, rows: Rows) -> Rows:
    """Return the first rows of every group of a whole input."""
    if isinstance(rows, Flow):
        bounds = (node.offset, node.limit)
        found = keep_first_rows(rows, node.partition, node.key, node.order, bounds)
        if found is not None:
            return select(found, node.columns)
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


def delta(top: Project, table: str, change: Change, context: EpochContext) -> Change | None:
    """Return the signed change of the fragment's table, None if all rows have to be ordered again."""
    node = top.input
    assert isinstance(node, TopN)
    found = _merge_into_stored(top, table, change.rows, context)
    if found is not None:
        return found
    if not node.partition and not can_read_group(node.input, table, change.rows, context):
        return None
    keys = pair_group_keys(node.partition, table, context)
    return recompute_groups(top, table, keys, change.rows, lambda rows: batch(node, rows), context)


def _merge_into_stored(top: Project, table: str, rows: Rows, context: EpochContext) -> Change | None:
    """Return the signed change by the rows that are stored, None where Spark has to order rows or not all of them are stored."""
    node = top.input
    assert isinstance(node, TopN)
    stored = {expr.column: name for name, expr in top.items if expr.column is not None}
    if node.limit is None or not node.follows_from_stored or context.hides_rows(table):
        return None
    if context.piece is not None or not node.key or not stored.keys() >= set(node.columns):
        return None
    if not node.partition and not can_read_whole(node.input, context):
        return None
    change = separate_groups(rows, node.partition, context) if node.partition else rows
    if not isinstance(change, Flow):
        return None
    sorting = compile_sorting(change, node.partition, node.key, node.order)
    if sorting is None:
        return None
    columns = tuple((column, stored[column]) for column in node.columns)
    body = MergeFirstRows(
        context.url,
        dict(context.options),
        context.find_source(table),
        columns,
        node.partition,
        node.key,
        sorting,
        node.limit,
    )
    kinds = {field.name: field for field in change.schema.fields}
    fields = [kinds[column] for column in (*node.columns, WEIGHT)]
    merged = change.then(body, StructType([*fields, StructField(SHORT, BooleanType(), False)]))
    done = project(top, keep(merged, Not(Column(SHORT))), WEIGHT)
    anew = context.union([done, _read_anew(top, keep(merged, Column(SHORT)), context)])
    return None if anew is None else Change(anew)


def _read_anew(top: Project, groups: Rows, context: EpochContext) -> Rows:
    """Return the first rows of some groups, which come, from all rows that these have now."""
    node = top.input
    assert isinstance(node, TopN)
    drivers = [(context.fresh("group"), column) for column in node.partition]
    alone = [(context.fresh("group"), Literal("1"))]
    keys = compute(groups, [(driver, Column(column)) for driver, column in drivers] or alone)
    rows, hit = expand(node.input, keys, Probe(tuple(drivers), "new", null_safe=True), context)
    found = batch(node, select(keep(rows, Column(hit)), node.input.columns))
    return select(project(top, found), top.columns, COMES)

"""As-of joins: each left row with the one right row of its key that is nearest to it in an order.

Rule: d(A * B) = dA * B_new + A_touched * B_new - A_touched * B_old, where only the left rows between a right row that changes and
its neighbour are touched. Both sides are states in the order of what is compared, so that the nearest row and the touched ones
are found by binary search; of right rows that are level, the one of the lowest key counts.

>>> change("SELECT b.id, a.id AS a FROM bid b ASOF JOIN auction a ON b.price >= a.id * 3")
- id=2 a=9
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from engine.operators.change import Change, sum_terms
from engine.operators.context import At, EpochContext, select
from engine.operators.flow import SIDE, WEIGHT, Rows, append_columns, as_frame, compute, duplicate_sides, keep
from engine.operators.lookups.lookup import Probe, ProbeRange, lookup
from engine.sql.expression.nearest import Nearest
from engine.sql.expression.nodes import Column
from engine.sql.expression.spark_sql import quote
from engine.sql.expression.template import fill_template
from engine.sql.plan import Join, Scan

_LEFT, _RIGHT, _AT, _PRIORITY = "_left", "_right", "_at", "_turn"


def batch(node: Join, nearest: Nearest, left: DataFrame, right: DataFrame) -> DataFrame:
    """Return the join of two whole inputs: one pass over the rows of both in the order of what is compared."""
    keys = [f"_by_{n}" for n in range(len(node.on))]
    priorities = (1, 0) if nearest.level else (0, 1)  # whose turn it is where rows of both sides are level
    sides = []
    for n, (side, at) in enumerate(((left, nearest.left), (right, nearest.right))):
        row = F.struct(*(F.col(quote(column)) for column in side.columns)).alias((_LEFT, _RIGHT)[n])
        by = [F.col(quote(pair[n])).alias(key) for pair, key in zip(node.on, keys, strict=True)]
        sides.append(
            side.select(row, *by, F.col(quote(at)).alias(_AT), F.lit(priorities[n]).alias(_PRIORITY))
        )
    rows = sides[0].unionByName(sides[1], allowMissingColumns=True)
    lowest_last = [F.col(_RIGHT).getField(column).desc_nulls_last() for column in node.right.key]
    onwards = F.col(_AT).asc() if nearest.before else F.col(_AT).desc()
    order = Window.partitionBy(*keys).orderBy(onwards, F.col(_PRIORITY), *lowest_last)
    passed = F.last(_RIGHT, ignorenulls=True).over(order.rowsBetween(Window.unboundedPreceding, 0))
    compares = F.col(_AT).isNotNull()
    for key in keys:
        compares &= F.col(key).isNotNull()
    rows = rows.select(_LEFT, F.when(compares, passed).alias(_RIGHT)).where(F.col(_LEFT).isNotNull())
    if node.kind == "inner":
        rows = rows.where(F.col(_RIGHT).isNotNull())
    left_columns = [F.col(_LEFT).getField(column).alias(column) for column in left.columns]
    return rows.select(
        *left_columns, *(F.col(_RIGHT).getField(column).alias(column) for column in right.columns)
    )


def delta(
    node: Join, nearest: Nearest, left: Change | None, right: Change | None, context: EpochContext
) -> Change | None:
    """Return the signed change of the join; touched rows that find what they found before come twice and cancel each other."""
    terms, cancelling = [], 0
    if left is not None:
        terms.append(_join_nearest(node, nearest, left.rows, "new", context))
    if right is not None:
        touched = _find_touched(node, nearest, right.rows, context)
        terms.append(_join_nearest(node, nearest, touched, "side", context))
        cancelling = 2
    return sum_terms(terms, len(terms) + cancelling, (left, right), context)


def _join_nearest(node: Join, nearest: Nearest, rows: Rows, at: At, context: EpochContext) -> Rows:
    """Join signed left rows with their nearest right rows."""
    stored = _map_stored_columns(node.right)
    order = stored[nearest.right]
    compares, hit = context.fresh("compares"), context.fresh("hit")
    rows = append_columns(rows, (compares, fill_template(":at IS NOT NULL", at=Column(nearest.left))))
    pairs = tuple((a, stored[b]) for a, b in node.on)
    table, items = _find_scan(node.right).table, _find_scan(node.right).items
    if nearest.before:
        within = ProbeRange(order, high=nearest.left, includes=(True, nearest.level))
        last, found = context.fresh("last"), context.fresh("found")
        probe = Probe(pairs, at, compares, end="last", within=within)
        rows = lookup(rows, context, table, probe, ((last, order),), found)
        probe = Probe(
            (*pairs, (last, order)), at, found, end="first"
        )  # the lowest key of those that are level
    else:
        within = ProbeRange(order, low=nearest.left, includes=(nearest.level, True))
        probe = Probe(pairs, at, compares, end="first", within=within)
    rows = lookup(rows, context, table, probe, items, hit)
    return select(keep(rows, Column(hit)) if node.kind == "inner" else rows, [*node.columns, WEIGHT])


def _find_touched(node: Join, nearest: Nearest, right: Rows, context: EpochContext) -> Rows:
    """Return the left rows, as they were, from each right row that changes to its neighbour, each as of both of its ends."""
    names = {b: context.fresh("key") for _, b in node.on}
    at, neighbour, found = context.fresh("at"), context.fresh("neighbour"), context.fresh("found")
    side = fill_template("if(:weight = 1L, 1, 0)", weight=Column(WEIGHT))
    items = [*((name, Column(b)) for b, name in names.items()), (at, Column(nearest.right)), (SIDE, side)]
    changed = compute(right, items).distinct()
    stored = _map_stored_columns(node.right)
    order, pairs = stored[nearest.right], tuple((names[b], stored[b]) for _, b in node.on)
    if nearest.before:
        probe = Probe(pairs, "side", end="first", within=ProbeRange(order, low=at, includes=(False, True)))
        ends = (at, neighbour, (nearest.level, not nearest.level))
    else:
        probe = Probe(pairs, "side", end="last", within=ProbeRange(order, high=at, includes=(True, False)))
        ends = (neighbour, at, (not nearest.level, nearest.level))
    ranges = lookup(changed, context, _find_scan(node.right).table, probe, ((neighbour, order),), found)
    left, hit, mine = _find_scan(node.left), context.fresh("hit"), _map_stored_columns(node.left)
    probe = Probe(
        tuple((names[b], mine[a]) for a, b in node.on), "old", within=ProbeRange(mine[nearest.left], *ends)
    )
    rows = select(
        keep(lookup(ranges, context, left.table, probe, left.items, hit), Column(hit)), left.columns
    )
    once = as_frame(rows).dropDuplicates(list(left.key))  # ranges of one key may overlap
    return duplicate_sides(once)


def _find_scan(node: object) -> Scan:
    assert isinstance(node, Scan), "the sides of an as-of join are states"
    return node


def _map_stored_columns(node: object) -> dict[str, str]:
    """Return the columns of a state by the names that the plan has for them."""
    return dict(_find_scan(node).items)

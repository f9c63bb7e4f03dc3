"""Joins of several tables of a few rows, as of many scalar subqueries: all of their rows are made again.

Method: the change of a join of n tables takes n lookups, and one more for each two of them; all rows take n. Whatever the tables
hold, the rows are no more than the product of their numbers.

>>> change("SELECT 1 AS one, (SELECT min(price) FROM bid) AS low, (SELECT max(price) FROM bid) AS high")
- one=1 low=20 high=50
+ one=1 low=10 high=30
"""

from __future__ import annotations

from engine.operators.change import Change
from engine.operators.context import EpochContext, select
from engine.operators.flow import COMES, compute, keep
from engine.operators.grouping.touched_groups import can_compute_anew, read_stored_rows
from engine.operators.lookups import scan
from engine.operators.lookups.expand import expand
from engine.operators.lookups.lookup import Probe
from engine.operators.lookups.row_bounds import ProductBound
from engine.sql.expression.nodes import Column, Literal
from engine.sql.plan import Node, list_scans

LEAST_TABLES = 3
MOST_ROWS = 200


def can_join_anew(plan: Node, table: str, context: EpochContext) -> bool:
    """Tell whether a plan joins several tables of so few rows that one task makes all of its rows; a kept frame counts on it."""
    bound = ProductBound(plan, MOST_ROWS)
    return len(list_scans(plan)) >= LEAST_TABLES and can_compute_anew(plan, table, bound, context)


def delta(plan: Node, table: str, context: EpochContext) -> Change | None:
    """Return the signed change of a table that holds the rows of a plan, None if nothing changes."""
    alone = context.fresh("group")
    changes = [change.rows for one in list_scans(plan) if (change := scan.delta(one, context)) is not None]
    changed = context.union([compute(rows, [(alone, Literal("1"))]) for rows in changes])
    if changed is None:
        return None
    touched = changed.distinct()
    rows, hit = expand(plan, touched, Probe((), "new"), context)
    new = select(keep(rows, Column(hit)), plan.columns, COMES)
    merged = context.union([new, read_stored_rows(plan.columns, table, touched, (), context)])
    return None if merged is None else Change(merged)  # a key has one old and one new row at most

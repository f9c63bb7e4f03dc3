"""Temporal joins: a left row is joined with the right side as it is when the row comes, and keeps what it has found.

Rule: what comes of the left side is looked up in the right side at the new epoch; what goes takes the rows that it brought out of
the table, where they are found by its key. A change of the right side changes nothing.

>>> change("SELECT b.id, a.category FROM bid b JOIN auction FOR SYSTEM_TIME AS OF PROCTIME() a ON a.id = b.auction")
- id=2 category=art
+ id=4 category=books
"""

from __future__ import annotations

from engine.operators.context import EpochContext, select
from engine.operators.flow import COMES, GOES, WEIGHT, Rows, compute, keep
from engine.operators.lookups.lookup import Probe, lookup
from engine.sql.expression.nodes import Column, Comparison, Expr
from engine.sql.plan import Node

_COMING: Expr = Comparison("=", Column(WEIGHT), COMES[1])
_GOING: Expr = Comparison("=", Column(WEIGHT), GOES[1])


def filter_inserts(change: Rows) -> Rows:
    """Return the rows of a signed change that come."""
    return keep(change, _COMING)


def find_removed(
    left: Node, change: Rows, table: str, by: tuple[str, ...], columns: tuple[str, ...], context: EpochContext
) -> Rows:
    """Return the rows of `table`, as they go, that the left rows brought that go in `change`; `by` holds the key of `left`."""
    names = {column: context.fresh("left") for column in left.key}
    keys = compute(keep(change, _GOING), [(name, Column(c)) for c, name in names.items()]).distinct()
    found = context.fresh("found")
    stored = {column: context.fresh("old") for column in columns}
    probe = Probe(tuple(zip(names.values(), by, strict=True)), "old", null_safe=True)
    items = tuple((name, column) for column, name in stored.items())
    looked = lookup(keys, context, table, probe, items, found)
    rows = compute(keep(looked, Column(found)), [(column, Column(name)) for column, name in stored.items()])
    return select(rows, columns, GOES)

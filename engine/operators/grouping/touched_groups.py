"""Touched groups computed again from their rows: the stored rows of each go, the new ones come.

>>> change("SELECT auction, percentile(price, 0.5) AS median FROM bid GROUP BY auction")
- auction=7 median=40.0
+ auction=7 median=30.0
+ auction=9 median=10.0
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from engine.operators.arrow.compiler import Item
from engine.operators.change import Change
from engine.operators.context import EpochContext, select
from engine.operators.flow import COMES, GOES, Flow, Rows, compute, keep
from engine.operators.linear import project
from engine.operators.lookups.expand import can_read_whole, expand
from engine.operators.lookups.lookup import Probe, lookup
from engine.operators.lookups.row_bounds import PairBound, RowBound
from engine.sql.expression.nodes import Column, Literal
from engine.sql.plan import Node, Project, list_children

MOST_ROWS_OF_A_GROUP = 100_000
"""Where all rows are one group, one of more is for Spark, which shares it out to all cores."""


def recompute_groups(
    top: Project,
    table: str,
    keys: Sequence[tuple[str, str]],
    change: Rows,
    grouped: Callable[[Rows], Rows],
    context: EpochContext,
) -> Change:
    """Return the signed change of a table that holds `top` over groups, of which `change` touches some.

    `keys` = (column of what is grouped, column of the table) of each group key; without any all rows are one group.
    `grouped` makes the groups of whole rows.
    """
    source = list_children(top.input)[0]
    drivers = [(column, stored, context.fresh("group")) for column, stored in keys]
    if keys:
        change = separate_groups(change, [column for column, _ in keys], context)
    alone = [(context.fresh("group"), Literal("1"))]
    touched = compute(change, [(d, Column(column)) for column, _, d in drivers] or alone).distinct()
    pairs = tuple((d, column) for column, _, d in drivers)
    rows, hit = expand(source, touched, Probe(pairs, "new", null_safe=True), context)
    new = project(top, grouped(select(keep(rows, Column(hit)), source.columns)))
    pairs_of_table = [(d, stored) for _, stored, d in drivers]
    old = read_stored_rows(top.columns, table, touched, pairs_of_table, context)
    merged = context.union([select(new, top.columns, COMES), old])
    assert merged is not None
    return Change(merged)  # a key has one old and one new row at most


def read_stored_rows(
    columns: Sequence[str],
    table: str,
    touched: Rows,
    pairs: Sequence[tuple[str, str]],
    context: EpochContext,
) -> Rows:
    """Return the rows of a table that stand for touched groups, as they were, as rows that go.

    `pairs` = (column of `touched`, column of the table); without any these are all of its rows.
    """
    found = context.fresh("found")
    names = {column: context.fresh("old") for column in columns}
    probe = Probe(tuple(pairs), "old", null_safe=True)
    items = tuple((name, column) for column, name in names.items())
    looked = lookup(touched, context, table, probe, items, found)
    stored: list[Item] = [(column, Column(name)) for column, name in names.items()]
    return compute(keep(looked, Column(found)), [*stored, GOES])


def pair_group_keys(columns: Sequence[str], table: str, context: EpochContext) -> list[tuple[str, str]]:
    """Return the columns of groups, each with the column of the table that is distributed by them; of one group none."""
    return list(zip(columns, context.tables[table].distribution_key, strict=True)) if columns else []


def can_read_group(source: Node, table: str, change: Rows, context: EpochContext) -> bool:
    """Tell whether the task that has a change of `source` reads all rows of it and of `table`, as one group: they are few.

    A frame that is kept counts on it.
    """
    bound = PairBound(source, 1, source, MOST_ROWS_OF_A_GROUP)
    alone = isinstance(change, Flow) and change.single and not change.groups
    return alone and can_compute_anew(source, table, bound, context)


def can_compute_anew(plan: Node, table: str, bound: RowBound, context: EpochContext) -> bool:
    """Tell whether one task may compute all rows of a plan anew and hold them against those of `table`.

    A frame that is kept counts on the `bound` of their number.
    """
    if context.hides_rows(table) or not context.is_small or context.piece is not None:
        return False
    if not bound.holds(context.tables) or not can_read_whole(plan, context):
        return False
    if context.parameters is not None:
        context.parameters.bounds.add(bound)
    return True


def separate_groups(change: Rows, by: Sequence[str], context: EpochContext) -> Rows:
    """Return a change of which, where it is worth it, each task has the rows of other groups by some columns."""
    readers = context.count_readers()
    if not isinstance(change, Flow) or not change.single or readers == 1:
        return change
    found = change.separate_by_vnode(by, readers)
    return change if found is None else replace(found, single=True, groups=True)

"""Touched groups computed again from their rows: the stored rows of each go, the new ones come.

>>> change("SELECT auction, percentile(price, 0.5) AS median FROM bid GROUP BY auction")
- auction=7 median=40.0
+ auction=7 median=30.0
+ auction=9 median=10.0
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from engine.operators.change import Change
from engine.operators.context import EpochContext, select
from engine.operators.flow import COMES, GOES, Flow, Rows, compute, keep
from engine.operators.linear import project
from engine.operators.lookups.expand import expand
from engine.operators.lookups.lookup import Probe, lookup
from engine.sql.expression.nodes import Column
from engine.sql.plan import Project, list_children


def recompute_groups(
    top: Project,
    table: str,
    keys: Sequence[tuple[str, str]],
    change: Rows,
    grouped: Callable[[Rows], Rows],
    context: EpochContext,
) -> Change:
    """Return the signed change of a table that holds `top` over groups, of which `change` touches some.

    `keys` = (column of what is grouped, column of the table) of each group key; `grouped` makes the groups of whole rows.
    """
    source = list_children(top.input)[0]
    drivers = [(column, stored, context.fresh("group")) for column, stored in keys]
    change = separate_groups(change, [column for column, _ in keys], context)
    touched = compute(change, [(d, Column(column)) for column, _, d in drivers]).distinct()
    pairs = tuple((d, column) for column, _, d in drivers)
    rows, hit = expand(source, touched, Probe(pairs, "new", null_safe=True), context)
    new = project(top, grouped(select(keep(rows, Column(hit)), source.columns)))
    found = context.fresh("found")
    names = {column: context.fresh("old") for column in top.columns}
    probe = Probe(tuple((d, stored) for _, stored, d in drivers), "old", null_safe=True)
    items = tuple((name, column) for column, name in names.items())
    looked = lookup(touched, context, table, probe, items, found)
    old = compute(keep(looked, Column(found)), [*((c, Column(name)) for c, name in names.items()), GOES])
    merged = context.union([select(new, top.columns, COMES), old])
    assert merged is not None
    return Change(merged)  # a key has one old and one new row at most


def separate_groups(change: Rows, by: Sequence[str], context: EpochContext) -> Rows:
    """Return a change of which, where it is worth it, each task has the rows of other groups by some columns."""
    readers = context.count_readers()
    if not isinstance(change, Flow) or not change.single or readers == 1:
        return change
    found = change.separate_by_vnode(by, readers)
    return change if found is None else replace(found, single=True, groups=True)

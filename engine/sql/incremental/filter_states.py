"""States of filters against what moves, the clock or a bound: their input in the order of the bounds, in parts."""

from __future__ import annotations

import msgspec

from engine.sql.expression.clock import TIME_AT, TIME_PART
from engine.sql.expression.nodes import Column
from engine.sql.incremental.fragments import Fragment
from engine.sql.incremental.rules import Linear, TimedRows
from engine.sql.incremental.table_columns import sanitised
from engine.sql.incremental.temporal import RESERVED, Bounds, part_of, rows_inside, temporal_filter
from engine.sql.plan import Bound, DynamicFilter, Node, Project, Scan


def timed_state(source: Node, bounds: Bounds, table: str) -> tuple[Fragment, Node]:
    """Return the state of a filter on now() over `source`, and the rows of it that are there."""
    names = sanitised(source.columns, RESERVED)
    plan = temporal_filter(source, bounds, names)
    why = "rows that cross a bound of now() are found by it, others on changes alone"
    fragment = Fragment(table, TimedRows(), plan, (TIME_PART, TIME_AT, *plan.key), (TIME_PART,), why)
    return fragment, rows_inside(table, plan, source, names)


def filter_state(
    node: DynamicFilter, source: Node, row: Node | None, table: str
) -> tuple[Fragment, DynamicFilter]:
    """Return the state of a filter against a bound over `source`, and the filter over it.

    `row` has the one row that the filter is against, if it is against a plan.
    """
    if row is not None:
        node = msgspec.structs.replace(node, bounds=(_bound_of_row(row, node.at),), against=None)
    names = sanitised(source.columns, RESERVED)
    part = (TIME_PART, part_of(source.key))
    plan = Project(source, (part, *((names[column], Column(column)) for column in source.columns)))
    key = tuple(names[column] for column in source.key)
    why = f"rows in the order of {names[node.at]}, which is held against a bound that moves"
    state = tuple(dict.fromkeys((TIME_PART, names[node.at], *key)))
    scan = Scan(table, tuple(names.items()), key, (), node.input.append_only)
    return Fragment(table, Linear(), plan, state, (TIME_PART,), why), msgspec.structs.replace(
        node, input=scan
    )


def _bound_of_row(node: Node, column: str) -> Bound:
    """Return the bound that is a column of a plan, which hands columns of a scan on as they are."""
    while isinstance(node, Project):
        found = dict(node.items)[column].column
        assert found is not None, f"{column} is computed"
        node, column = node.input, found
    assert isinstance(node, Scan)
    return Bound(node, dict(node.items)[column])

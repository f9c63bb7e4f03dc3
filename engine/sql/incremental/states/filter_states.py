"""States of filters against what moves, the clock or a bound: their input in the order of the bounds, in parts."""

from __future__ import annotations

import msgspec

from engine.sql.expression.clock import TIME_AT, TIME_PART
from engine.sql.expression.nodes import Column
from engine.sql.incremental.fragments import Fragment
from engine.sql.incremental.rules import Linear, TimedRows
from engine.sql.incremental.states.table_columns import sanitize_names
from engine.sql.incremental.temporal_filters import (
    RESERVED,
    MomentBounds,
    build_temporal_filter,
    compute_part,
    scan_rows_inside,
)
from engine.sql.plan import Bound, DynamicFilter, Node, Project, Scan


def build_timed_state(source: Node, bounds: MomentBounds, table: str) -> tuple[Fragment, Node]:
    """Return the state of a filter on now() over `source`, and the rows of it that are there."""
    names = sanitize_names(source.columns, RESERVED)
    plan = build_temporal_filter(source, bounds, names)
    why = "rows that cross a bound of now() are found by it, others on changes alone"
    fragment = Fragment(table, TimedRows(), plan, (TIME_PART, TIME_AT, *plan.key), (TIME_PART,), why)
    return fragment, scan_rows_inside(table, plan, source, names)


def build_filter_state(
    node: DynamicFilter, source: Node, row: Node | None, table: str
) -> tuple[Fragment, DynamicFilter]:
    """Return the state of a filter against a bound over `source`, and the filter over it.

    `row` has the one row that the filter is against, if it is against a plan.
    """
    if row is not None:
        bound = msgspec.structs.replace(_find_row_bound(row, node.at), steps=node.steps)
        node = msgspec.structs.replace(node, bounds=(bound,), against=None, steps=())
    names = sanitize_names(source.columns, RESERVED)
    part = (TIME_PART, compute_part(source.key))
    plan = Project(source, (part, *((names[column], Column(column)) for column in source.columns)))
    key = tuple(names[column] for column in source.key)
    why = f"rows in the order of {names[node.at]}, which is held against a bound that moves"
    state = tuple(dict.fromkeys((TIME_PART, names[node.at], *key)))
    scan = Scan(table, tuple(names.items()), key, (), node.input.append_only)
    return Fragment(table, Linear(), plan, state, (TIME_PART,), why), msgspec.structs.replace(
        node, input=scan
    )


def _find_row_bound(node: Node, column: str) -> Bound:
    """Return the bound that is a column of a plan, which hands columns of a scan on as they are."""
    while isinstance(node, Project):
        found = dict(node.items)[column].column
        assert found is not None, f"{column} is computed"
        node, column = node.input, found
    assert isinstance(node, Scan)
    return Bound(node, dict(node.items)[column])

"""Which states of a view that emits on window close let go of rows below the watermark, and by which column.

A state may if nobody looks below: rows are looked up by columns among which the watermark's is, or it is the state whose rows
wait for their window to close. What a join looks up, and what is computed as a whole, keeps its rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec

from engine.sql.catalog import Catalog
from engine.sql.incremental.fragments import Fragment, IncrementalPlan, StateExpiry
from engine.sql.incremental.rules import FirstRows, KeyedRecompute, Linear, StoredPartials, WindowRecompute
from engine.sql.incremental.watermarks.column_progress import Found
from engine.sql.incremental.watermarks.watermark_columns import build_scan_lookup, find_progress, list_bounds
from engine.sql.plan import DynamicFilter, Join, Node, Scan, list_children, list_scans


def add_expiry(plan: IncrementalPlan, catalog: Catalog) -> IncrementalPlan:
    """Return a plan in which states say of which rows nobody has need any more."""
    if not any(find_closing_filters(fragment.plan) for fragment in plan.fragments):
        return plan
    found: dict[str, Found] = {}
    of_catalog_scan = build_scan_lookup(catalog)

    def find_scan_progress(scan: Scan) -> Found:
        if scan.table not in found:
            return of_catalog_scan(scan)
        mine = found[scan.table]
        return {name: mine[source] for name, source in scan.items if source in mine}

    for fragment in plan.fragments:
        found[fragment.table] = find_progress(fragment.plan, find_scan_progress)
    retained = {table for fragment in plan.fragments for table in _find_tables_read_below(fragment)}
    waiting = {node.input.table for node in _find_waiting_filters(plan) if isinstance(node.input, Scan)}
    fragments = tuple(
        fragment
        if fragment.table in retained or _is_whole(fragment)
        else _expire_rows(fragment, found[fragment.table], waiting)
        for fragment in plan.fragments[:-1]
    )
    return msgspec.structs.replace(plan, fragments=(*fragments, plan.fragments[-1]))


def find_closing_filters(node: Node) -> tuple[DynamicFilter, ...]:
    """Return the filters of a plan that let rows through as their window closes."""
    mine = (node,) if isinstance(node, DynamicFilter) and node.closes else ()
    return (*mine, *(found for child in list_children(node) for found in find_closing_filters(child)))


def _find_waiting_filters(plan: IncrementalPlan) -> Iterator[DynamicFilter]:
    for fragment in plan.fragments:
        if isinstance(fragment.rule, Linear):
            yield from find_closing_filters(fragment.plan)


def _is_whole(fragment: Fragment) -> bool:
    """Tell whether a state holds the first of all rows, below which none of the later ones may take a place."""
    return isinstance(fragment.rule, FirstRows) and not fragment.rule.by


def _expire_rows(fragment: Fragment, found: Found, waiting: Collection[str]) -> Fragment:
    """Return a state with the column by which it lets go of rows, if it has one."""
    by: Collection[str] = fragment.distribution_key
    if fragment.table in waiting:
        by = [column for column in fragment.key if column in found and found[column].unit == "ones"]
    usable = [column for column in by if column in found]
    if not usable:
        return fragment
    column = min(usable, key=lambda name: found[name].coarseness)
    return msgspec.structs.replace(fragment, expiry=StateExpiry(column, list_bounds(found[column])))


def _find_tables_read_below(fragment: Fragment) -> Iterator[str]:
    """Yield the tables of which a fragment may read rows below the watermark."""
    match fragment.rule:
        case Linear():
            yield from _find_joined_tables(fragment.plan)
        case (
            StoredPartials()
            | KeyedRecompute(by=(_, *_))
            | FirstRows(by=(_, *_))
            | WindowRecompute(by=(_, *_))
        ):
            yield from _find_joined_tables(fragment.plan)
            for node in find_closing_filters(fragment.plan):
                yield from (scan.table for scan in list_scans(node))
        case _:
            yield from (scan.table for scan in list_scans(fragment.plan))


def _find_joined_tables(node: Node) -> Iterator[str]:
    if isinstance(node, Join):
        yield from (scan.table for scan in list_scans(node))
        return
    for child in list_children(node):
        yield from _find_joined_tables(child)

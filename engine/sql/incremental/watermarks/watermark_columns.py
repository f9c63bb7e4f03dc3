"""Which columns of a plan carry a watermark: rows change only at or above a bound of them, from any epoch on.

A column of a table with a watermark carries it; what rises with such a column carries it on, through groups, partitions and
joins by it. What may change rows below the bound ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from engine.sql.catalog import WATERMARK, WATERMARK_KEY, Carried, Catalog, watermark_name
from engine.sql.expression.monotone_steps import MonotoneStep
from engine.sql.expression.nodes import Expr
from engine.sql.incremental.watermarks.column_progress import ColumnProgress, Found, Sources
from engine.sql.incremental.watermarks.monotone_expressions import (
    Unit,
    find_unit,
    match_first_item,
    match_rising,
)
from engine.sql.incremental.watermarks.ordered_joins import find_ordered_progress
from engine.sql.plan import (
    Aggregate,
    Bound,
    DynamicFilter,
    Filter,
    Join,
    Node,
    Over,
    Project,
    Scan,
    TopN,
    UnionAll,
    Unnest,
)

OfScan = Callable[[Scan], Found]


def build_scan_lookup(catalog: Catalog) -> OfScan:
    """Return what tells the columns of a relation's scan that carry a watermark."""

    def find_carried(scan: Scan) -> Found:
        relation = catalog.relations.get(scan.table)
        if relation is None:
            return {}
        kinds = {column.storage_name: column.type for column in relation.columns}
        carried: dict[str, Sources] = {one.column: one.sources for one in relation.carried}
        if relation.watermark is not None:
            carried[relation.watermark.column] = ((relation.name, ()),)
        found: Found = {}
        for name, source in scan.items:
            unit = find_unit(kinds.get(source, ""))
            if source in carried and unit is not None:
                found[name] = ColumnProgress(unit, carried[source])
        return found

    return find_carried


def find_progress(node: Node, of_scan: OfScan) -> Found:
    """Return the columns of a plan that carry a watermark."""
    match node:
        case Scan():
            return of_scan(node)
        case Filter():
            return _derive_filter(node, of_scan)
        case Project():
            return _derive_computed(dict(node.items), find_progress(node.input, of_scan))
        case Unnest():
            below = find_progress(node.input, of_scan)
            least = None if node.outer else match_first_item(node.array, _map_units(below))
            if least is None:
                return below
            return below | {node.item: below[least.column].shift(least.unit, least.steps)}
        case Aggregate():
            return _derive_computed(dict(node.keys), find_progress(node.input, of_scan))
        case TopN() | Over():  # a row that comes changes others of its partition, and none of another
            below = find_progress(node.input, of_scan)
            first = [_find_order_column(node)] if isinstance(node, TopN) else []
            return {name: below[name] for name in (*node.partition, *first) if name in below}
        case DynamicFilter(closes=True):
            below = find_progress(node.input, of_scan)
            at = below.get(node.at)
            return {name: one for name, one in below.items() if at is not None and one.sources == at.sources}
        case Join(at_arrival=True):  # a row keeps what it met when it came
            return find_progress(node.left, of_scan)
        case Join():
            return _derive_join(node, find_progress(node.left, of_scan), find_progress(node.right, of_scan))
        case UnionAll():
            return _derive_union(node, [find_progress(child, of_scan) for child in node.inputs])
    return {}


def list_bounds(carried: ColumnProgress) -> tuple[Bound, ...]:
    """Return the bound of a column that carries a watermark."""
    return tuple(build_watermark_bound(table, steps) for table, steps in carried.sources)


def build_watermark_bound(table: str, steps: tuple[MonotoneStep, ...] = ()) -> Bound:
    """Return the watermark of a table, moved by steps, as a bound."""
    return Bound(_scan_watermark(table), WATERMARK, steps)


def _scan_watermark(table: str) -> Scan:
    """Return the scan of a table's watermark."""
    name = watermark_name(table)
    items = ((f"{name}:at", WATERMARK), (f"{name}:key", WATERMARK_KEY))
    return Scan(name, items, (WATERMARK_KEY,), ())


def list_carried_columns(found: Found, names: Mapping[str, str]) -> tuple[Carried, ...]:
    """Return what a relation notes of columns that carry a watermark; `names` are its columns' by the plan's."""
    return tuple(Carried(names[name], one.sources) for name, one in found.items() if name in names)


def _map_units(found: Found) -> dict[str, Unit]:
    return {name: one.unit for name, one in found.items()}


def _derive_computed(items: Mapping[str, Expr], below: Found) -> Found:
    units, found = _map_units(below), Found()
    for name, expr in items.items():
        value = match_rising(expr, units)
        if value is not None:
            found[name] = below[value.column].shift(value.unit, value.steps)
    return found


def _find_order_column(node: TopN) -> str | None:
    """Return the column that first rows go along: a row that comes moves only those behind it, nulls last."""
    first = node.order[0] if node.order else None
    return None if first is None or first.descending or first.nulls_first else first.column


def _derive_filter(node: Filter, of_scan: OfScan) -> Found:
    """Return the columns of a filter, which may be a condition on the pairs of the join below it."""
    predicates, below = [node.predicate], node.input
    while isinstance(below, Filter):
        predicates.append(below.predicate)
        below = below.input
    if isinstance(below, Join) and below.kind == "inner" and not below.at_arrival:
        return _derive_join(
            below, find_progress(below.left, of_scan), find_progress(below.right, of_scan), predicates
        )
    return find_progress(below, of_scan)


def _derive_join(node: Join, left: Found, right: Found, predicates: Sequence[Expr] = ()) -> Found:
    """A pair of rows comes with either of them; only where both sides have come so far no more come below."""
    conditions = (*predicates, *([] if node.residual is None else [node.residual]))
    found = find_ordered_progress(node, conditions, left, right)
    for one, other in node.on:
        if one in left and other in right and left[one].unit == right[other].unit:
            merged = left[one].combine(right[other])
            found[one] = merged
            if node.kind == "inner":
                found[other] = merged
    return found


def _derive_union(node: UnionAll, branches: list[Found]) -> Found:
    found: Found = {}
    for n, name in enumerate(node.names):
        each = [one.get(child.columns[n]) for one, child in zip(branches, node.inputs, strict=True)]
        known = [one for one in each if one is not None]
        if len(known) == len(each) and len({one.unit for one in known}) == 1:
            merged = known[0]
            for one in known[1:]:
                merged = merged.combine(one)
            found[name] = merged
    return found

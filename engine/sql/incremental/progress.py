"""Which columns of a plan carry a watermark: rows change only at or above a bound of them, from any epoch on.

A column of a table with a watermark carries it; what rises with such a column carries it on, through groups, partitions and
joins by it. What may change rows below the bound ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from engine.sql.catalog import WATERMARK, WATERMARK_KEY, Carried, Catalog, watermark_name
from engine.sql.expression.nodes import Expr
from engine.sql.expression.steps import Step
from engine.sql.incremental.monotone import Unit, first_item, rising, unit_of
from engine.sql.incremental.ordered_joins import of_order
from engine.sql.incremental.progress_values import Found, Progress, Sources
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


def of_catalog(catalog: Catalog) -> OfScan:
    """Return what tells the columns of a relation's scan that carry a watermark."""

    def told(scan: Scan) -> Found:
        relation = catalog.relations.get(scan.table)
        if relation is None:
            return {}
        kinds = {column.source: column.type for column in relation.columns}
        carried: dict[str, Sources] = {one.column: one.sources for one in relation.carried}
        if relation.watermark is not None:
            carried[relation.watermark.column] = ((relation.name, ()),)
        found: Found = {}
        for name, source in scan.items:
            unit = unit_of(kinds.get(source, ""))
            if source in carried and unit is not None:
                found[name] = Progress(unit, carried[source])
        return found

    return told


def progress(node: Node, of_scan: OfScan) -> Found:
    """Return the columns of a plan that carry a watermark."""
    match node:
        case Scan():
            return of_scan(node)
        case Filter():
            return _of_filter(node, of_scan)
        case Project():
            return _computed(dict(node.items), progress(node.input, of_scan))
        case Unnest():
            below = progress(node.input, of_scan)
            least = None if node.outer else first_item(node.array, _units(below))
            if least is None:
                return below
            return below | {node.item: below[least.column].after(least.unit, least.steps)}
        case Aggregate():
            return _computed(dict(node.keys), progress(node.input, of_scan))
        case TopN() | Over():  # a row that comes changes others of its partition, and none of another
            below = progress(node.input, of_scan)
            first = [_along(node)] if isinstance(node, TopN) else []
            return {name: below[name] for name in (*node.partition, *first) if name in below}
        case DynamicFilter(closes=True):
            below = progress(node.input, of_scan)
            at = below.get(node.at)
            return {name: one for name, one in below.items() if at is not None and one.sources == at.sources}
        case Join(at_arrival=True):  # a row keeps what it met when it came
            return progress(node.left, of_scan)
        case Join():
            return _of_join(node, progress(node.left, of_scan), progress(node.right, of_scan))
        case UnionAll():
            return _of_union(node, [progress(child, of_scan) for child in node.inputs])
    return {}


def bounds_of(carried: Progress) -> tuple[Bound, ...]:
    """Return the bound of a column that carries a watermark."""
    return tuple(watermark_bound(table, steps) for table, steps in carried.sources)


def watermark_bound(table: str, steps: tuple[Step, ...] = ()) -> Bound:
    """Return the watermark of a table, moved by steps, as a bound."""
    return Bound(_watermark(table), WATERMARK, steps)


def _watermark(table: str) -> Scan:
    """Return the scan of a table's watermark."""
    name = watermark_name(table)
    items = ((f"{name}:at", WATERMARK), (f"{name}:key", WATERMARK_KEY))
    return Scan(name, items, (WATERMARK_KEY,), ())


def carried_columns(found: Found, names: Mapping[str, str]) -> tuple[Carried, ...]:
    """Return what a relation notes of columns that carry a watermark; `names` are its columns' by the plan's."""
    return tuple(Carried(names[name], one.sources) for name, one in found.items() if name in names)


def _units(found: Found) -> dict[str, Unit]:
    return {name: one.unit for name, one in found.items()}


def _computed(items: Mapping[str, Expr], below: Found) -> Found:
    units, found = _units(below), Found()
    for name, expr in items.items():
        value = rising(expr, units)
        if value is not None:
            found[name] = below[value.column].after(value.unit, value.steps)
    return found


def _along(node: TopN) -> str | None:
    """Return the column that first rows go along: a row that comes moves only those behind it, nulls last."""
    first = node.order[0] if node.order else None
    return None if first is None or first.descending or first.nulls_first else first.column


def _of_filter(node: Filter, of_scan: OfScan) -> Found:
    """Return the columns of a filter, which may be a condition on the pairs of the join below it."""
    predicates, below = [node.predicate], node.input
    while isinstance(below, Filter):
        predicates.append(below.predicate)
        below = below.input
    if isinstance(below, Join) and below.kind == "inner" and not below.at_arrival:
        return _of_join(below, progress(below.left, of_scan), progress(below.right, of_scan), predicates)
    return progress(below, of_scan)


def _of_join(node: Join, left: Found, right: Found, predicates: Sequence[Expr] = ()) -> Found:
    """A pair of rows comes with either of them; only where both sides have come so far no more come below."""
    conditions = (*predicates, *([] if node.residual is None else [node.residual]))
    found = of_order(node, conditions, left, right)
    for one, other in node.on:
        if one in left and other in right and left[one].unit == right[other].unit:
            merged = left[one].beside(right[other])
            found[one] = merged
            if node.kind == "inner":
                found[other] = merged
    return found


def _of_union(node: UnionAll, branches: list[Found]) -> Found:
    found: Found = {}
    for n, name in enumerate(node.names):
        each = [one.get(child.columns[n]) for one, child in zip(branches, node.inputs, strict=True)]
        known = [one for one in each if one is not None]
        if len(known) == len(each) and len({one.unit for one in known}) == 1:
            merged = known[0]
            for one in known[1:]:
                merged = merged.beside(one)
            found[name] = merged
    return found

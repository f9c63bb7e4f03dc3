"""How rows of a plan are found by the values of some of its columns: which tables are looked up, and by which columns."""

from __future__ import annotations

import hashlib

import msgspec

from engine.sql.plan import Filter, Join, Node, Project, Scan, UnionAll


class NotPushable(Exception):
    """The columns cannot be traced to tables; the node has to be arranged in a state table of its own."""


class Access(msgspec.Struct, frozen=True):
    """Which table answers a lookup: the scan's own, or its index; `pairs` are (scan output column, table column)."""

    table: str
    pairs: tuple[tuple[str, str], ...]


def index_name(table: str, columns: tuple[str, ...]) -> str:
    """Return the name of the index table of `table` by `columns`."""
    name = f"_index_{table}__{'_'.join(columns)}"
    return name if len(name) <= 120 else name[:100] + hashlib.sha256(name.encode()).hexdigest()[:20]


def build_arrange_key(distribution_key: tuple[str, ...], key: tuple[str, ...]) -> tuple[str, ...]:
    """Return the primary key of rows arranged by `distribution_key` and identified by `key`."""
    return tuple(dict.fromkeys(distribution_key + key))


def find_access_path(scan: Scan, columns: tuple[str, ...]) -> Access:
    """Return where rows of `scan` are found by its output `columns`; without any, all of them."""
    if not columns:
        return Access(scan.table, ())
    by_name = dict(scan.items)
    pairs = tuple(dict.fromkeys((column, by_name[column]) for column in columns))
    by = tuple(dict.fromkeys(column for _, column in pairs))
    if scan.distribution_key and set(scan.distribution_key) <= set(by):
        return Access(scan.table, pairs)
    return Access(index_name(scan.table, by), pairs)


def find_required_indexes(
    node: Node, columns: tuple[str, ...], null_safe: bool = False
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the indexes, (table, columns), that finding rows of `node` by `columns` needs; raises NotPushable.

    Through a join of every pair or a UNION ALL no row is found, but all of them are.
    """
    if isinstance(node, Scan):
        path = find_access_path(node, columns)
        if path.table == node.table:
            return ()
        return ((node.table, tuple(dict.fromkeys(column for _, column in path.pairs))),)
    if isinstance(node, Filter):
        return find_required_indexes(node.input, columns, null_safe)
    if isinstance(node, Project):
        return find_required_indexes(node.input, trace_through_project(node, columns), null_safe)
    if isinstance(node, Join) and (node.on or not columns) and node.nearest is None:
        near, far = choose_lookup_sides(node, columns, null_safe)
        near_node, far_node = (node.left, node.right) if near == "left" else (node.right, node.left)
        mine = tuple(column for column in columns if column in near_node.columns)
        other = tuple((left, right)[far == "right"] for left, right in node.on)
        return find_required_indexes(near_node, mine, null_safe) + find_required_indexes(
            far_node, other, node.null_safe
        )
    if isinstance(node, UnionAll) and not columns:
        return tuple(found for child in node.inputs for found in find_required_indexes(child, ()))
    raise NotPushable


def is_found_by(node: Node, columns: tuple[str, ...]) -> bool:
    """Tell whether rows of a node are found by `columns` in tables that are there, or in indexes of them."""
    try:
        find_required_indexes(node, columns)
    except NotPushable:
        return False
    return True


def is_in_place(node: Node, columns: tuple[str, ...]) -> bool:
    """Tell whether rows of a node are found by `columns` in tables that are there anyway."""
    try:
        return not find_required_indexes(node, columns)
    except NotPushable:
        return False


def list_join_columns(join: Join) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns that a join is joined by, of each side."""
    return tuple(left for left, _ in join.on), tuple(right for _, right in join.on)


def trace_through_project(node: Project, columns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the input columns that a projection's `columns` are copies of; raises NotPushable for a computed one."""
    items = dict(node.items)
    found = tuple(items[column].column for column in columns)
    if any(column is None for column in found):
        raise NotPushable
    return tuple(column for column in found if column is not None)


def choose_lookup_sides(node: Join, columns: tuple[str, ...], null_safe: bool = False) -> tuple[str, str]:
    """Return which side of a join is looked up first by `columns` and which follows: ("left", "right") or reversed.

    Without columns, for all rows, it is the left one.
    From the right side of a left join only matched rows are found, so a null-safe lookup must not start there.
    """
    if not columns or any(column in node.left.columns for column in columns):
        if null_safe and node.kind == "left" and any(column in node.right.columns for column in columns):
            raise NotPushable
        return "left", "right"
    if null_safe and node.kind == "left":
        raise NotPushable
    return "right", "left"


def is_chain(node: Node) -> bool:
    """Tell whether the node is a scan below nothing but filters and projections."""
    while isinstance(node, Filter | Project):
        node = node.input
    return isinstance(node, Scan)

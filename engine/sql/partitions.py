"""Partitions of a view: which rows of every table that it reads, and of its own states, belong to which partition.

A partition is a value of the `partition_by` columns, or with `partitions` = n one of n groups of vnodes of them. The columns are
followed from the view down to each scan; there a filter restricts a fragment to some partitions, and the rest of its plan
stays as it is. That is exact only where every operator works within a partition, which is checked when a view is created.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import msgspec

from engine.sql.fragments import Fragment, IncrementalPlan
from engine.sql.group_keys import is_global
from engine.sql.plan import (
    Aggregate,
    Expr,
    Filter,
    Join,
    Node,
    Project,
    Recompute,
    Scan,
    TopN,
    UnionAll,
    Unnest,
    Values,
)
from engine.sql.row_errors import safe
from engine.sql.view_options import column_list

PARTITION_BY, PARTITIONS = "partition_by", "partitions"
VNODES_BITS = 8
NULL_KEY = "null"
_TYPES = r"(tinyint|smallint|int|bigint|string|date|boolean|timestamp|timestamp_ntz|decimal\(.*\))"
_TOKENS = re.compile(r"'(?:[^'\\]|\\.|'')*'|`((?:[^`]|``)+)`")

By = tuple[Expr, ...]
Leaf = Callable[[Scan | Values, By], Node]


class NotPartitionable(Exception):
    """An operator mixes rows of several partitions; the text names it and what is missing."""


@dataclass(frozen=True)
class Partitioning:
    """How a view is cut: its `columns`, into `groups` of vnodes or (None) one partition a value.

    `tables` gives for the view and each of its states the expressions of these columns over the table's own.
    """

    view: str
    columns: tuple[str, ...]
    groups: int | None
    types: tuple[str, ...]
    tables: Mapping[str, By] = field(default_factory=dict)

    def key(self, by: By) -> str:
        """Return the text of a row's partition, as Spark SQL over `by`."""
        typed = [f"try_cast({e.sql} AS {kind})" for e, kind in zip(by, self.types, strict=True)]
        if self.groups is not None:
            bits = self.groups.bit_length() - 1
            group = f"shiftright(xxhash64({', '.join(typed)}), {64 - bits}) + {self.groups // 2}"
            return f"CAST({group} AS STRING)"
        texts = [f"coalesce(CAST({each} AS STRING), '{NULL_KEY}')" for each in typed]
        return texts[0] if len(texts) == 1 else f"concat_ws('|', {', '.join(texts)})"

    def within(self, by: By, keys: Collection[str], inside: bool = True) -> Expr:
        """Return the predicate that a row is in one of the partitions `keys`, or with `inside` False in none of them."""
        listed = ", ".join("'" + key.replace("\\", "\\\\").replace("'", "\\'") + "'" for key in sorted(keys))
        columns = tuple(dict.fromkeys(column for expr in by for column in expr.columns))
        if not listed:
            return Expr("FALSE" if inside else "TRUE")
        return Expr(f"({self.key(by)}) {'' if inside else 'NOT '}IN ({listed})", columns)

    def mine(self, table: str, keys: Collection[str], inside: bool = True) -> Expr:
        """Return the predicate that a stored row of the view, or of one of its states, is in the partitions `keys`, or not."""
        return self.within(self.tables[table], keys, inside)

    def restricted(self, fragment: Fragment, keys: Collection[str], inside: bool = True) -> Fragment:
        """Return a fragment over those rows alone that are in the partitions `keys`, or in none of them."""

        def leaf(node: Scan | Values, by: By) -> Node:
            return Filter(node, self.within(by, keys, inside))

        plan = followed(fragment.plan, self.tables[fragment.table], leaf)
        return msgspec.structs.replace(fragment, plan=plan)

    def sources(self, fragment: Fragment) -> tuple[tuple[Scan, str], ...]:
        """Return the scans of a fragment, each with the partition of its rows as Spark SQL over its columns."""
        found: list[tuple[Scan, str]] = []

        def leaf(node: Scan | Values, by: By) -> Node:
            if isinstance(node, Scan):
                found.append((node, self.key(by)))
            return node

        followed(fragment.plan, self.tables[fragment.table], leaf)
        return tuple(found)


def declared(options: Mapping[str, str]) -> bool:
    """Tell whether the options of a view cut it into partitions."""
    return PARTITION_BY in options or PARTITIONS in options


def partitioning(plan: IncrementalPlan, options: Mapping[str, str]) -> Partitioning | None:
    """Return how a view is cut, None if it is not; raises NotPartitionable with the operator that stands against it."""
    if not declared(options):
        return None
    return _partitioning(plan, options.get(PARTITION_BY), options.get(PARTITIONS))


@lru_cache(maxsize=1024)
def _partitioning(plan: IncrementalPlan, by: str | None, groups: str | None) -> Partitioning:
    view = plan.fragments[-1]
    kinds = {name.lower(): (name, kind) for name, kind in view.columns}
    wanted = column_list(by) if by is not None else tuple(name.lower() for name in view.distribution_key)
    names = tuple(kinds[name][0] for name in wanted)
    types = tuple(kinds[name][1].lower() for name in wanted)
    for name, kind in zip(names, types, strict=True):
        if re.fullmatch(_TYPES, kind) is None:
            raise NotPartitionable(f"column {name} is {kind}, whose values do not name partitions")
    tables: dict[str, By] = {view.table: tuple(Expr.of(name) for name in names)}
    states = {fragment.table for fragment in plan.fragments}

    def leaf(node: Scan | Values, of: By) -> Node:
        if isinstance(node, Scan) and node.table in states:
            columns = {name: Expr.of(column) for name, column in node.items}
            found = tuple(_substituted(expr, columns) for expr in of)
            if tables.setdefault(node.table, found) != found:
                raise NotPartitionable("one subquery is read twice, each time by other columns")
        return node

    for fragment in reversed(plan.fragments):
        if fragment.table not in tables:
            raise NotPartitionable("a subquery has rows of all partitions")
        followed(fragment.plan, tables[fragment.table], leaf)
    return Partitioning(view.table, names, None if groups is None else int(groups), types, tables)


def followed(node: Node, by: By, leaf: Leaf) -> Node:
    """Return `node` with each of its scans replaced by what `leaf` makes of it and of the expressions `by` over it."""
    match node:
        case Scan() | Values():
            return leaf(node, tuple(safe(expr) for expr in by))
        case Filter():
            below = by
        case Project():
            items = dict(node.items)
            below = tuple(_substituted(expr, items) for expr in by)
        case Unnest():
            _need(by, node.input.columns, "unnest", "not an element of the array")
            below = by
        case TopN():
            _need(by, node.partition, "the first rows of each group", "among the PARTITION BY columns")
            below = by
        case Aggregate():
            if not node.keys or is_global(node):
                raise NotPartitionable("the aggregate has no GROUP BY: its one row is made of all partitions")
            keys = dict(node.keys)
            _need(by, tuple(keys), "the aggregate", "among its GROUP BY columns")
            below = tuple(_substituted(expr, keys) for expr in by)
        case UnionAll():
            return _union(node, by, leaf)
        case Join():
            left, right = _sides(node, by)
            return msgspec.structs.replace(
                node, left=followed(node.left, left, leaf), right=followed(node.right, right, leaf)
            )
        case Recompute():
            raise NotPartitionable("refresh_policy = 'full' computes the query as a whole")
    return msgspec.structs.replace(node, input=followed(node.input, below, leaf))


def _union(node: UnionAll, by: By, leaf: Leaf) -> Node:
    _need(by, node.names, "UNION ALL", "a column of every branch")
    branches = []
    for child in node.inputs:
        names = {name: Expr.of(column) for name, column in zip(node.names, child.columns, strict=False)}
        branches.append(followed(child, tuple(_substituted(expr, names) for expr in by), leaf))
    return msgspec.structs.replace(node, inputs=tuple(branches))


def _sides(join: Join, by: By) -> tuple[By, By]:
    """Return the columns on the left and on the right side of a join."""
    to_left, to_right = {right: left for left, right in join.on}, dict(join.on)
    where = f"the join on {', '.join(_shown(left) for left, _ in join.on)}" if join.on else "the cross join"
    on = "among the columns that the two sides are joined by"

    def mapped(partners: Mapping[str, str], own: tuple[str, ...], may_map: bool) -> By:
        columns = {column: Expr.of(column) for column in own}
        if may_map:
            columns |= {theirs: Expr.of(ours) for theirs, ours in partners.items()}
        _need(by, tuple(columns), where, on)
        return tuple(_substituted(expr, columns) for expr in by)

    return mapped(to_left, join.left.columns, join.kind == "inner"), mapped(
        to_right, join.right.columns, True
    )


def _need(by: By, columns: tuple[str, ...], where: str, what: str) -> None:
    for expr in by:
        for column in expr.columns:
            if column not in columns:
                raise NotPartitionable(f"{where}: {_shown(column)} is not {what}")


def _shown(column: str) -> str:
    return re.sub(r"^_(group|key)_", "", column.rpartition(":")[2])


def _substituted(expr: Expr, items: Mapping[str, Expr]) -> Expr:
    """Return an expression over the columns that `items` are made of."""
    if expr.column is not None:
        return items[expr.column]

    def put(match: re.Match[str]) -> str:
        name = match[1].replace("``", "`") if match[1] is not None else None
        return match[0] if name is None or name not in items else f"({items[name].sql})"

    columns = dict.fromkeys(column for name in expr.columns for column in items[name].columns)
    return Expr(_TOKENS.sub(put, expr.sql), tuple(columns))


def usable_columns(plan: IncrementalPlan, shown: Collection[str]) -> tuple[str, ...]:
    """Return the columns of a view by each of which it could be cut."""
    found = []
    for name in shown:
        try:
            _partitioning(plan, name, None)
        except (NotPartitionable, KeyError):
            continue
        found.append(name)
    return tuple(found)

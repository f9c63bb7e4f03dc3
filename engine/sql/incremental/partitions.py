"""Partitions of a view: which rows of every table that it reads, and of its own states, belong to which partition.

A partition is a value of the `partition_by` columns, or with `partitions` = n one of n groups of vnodes of them. The columns are
followed from the view down to each scan; there a filter restricts a fragment to some partitions, and the rest of its plan
stays as it is. That is exact only where every operator works within a partition, which is checked when a view is created.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import msgspec

from engine.sql.column_names import to_storage_name
from engine.sql.expression.nodes import FALSE, TRUE, Cast, Column, Expr, In, Literal, Not
from engine.sql.expression.null_on_error import guard_expression
from engine.sql.expression.substitute import substitute, substitute_small
from engine.sql.expression.template import call, fill_template
from engine.sql.incremental.fragments import Fragment, IncrementalPlan
from engine.sql.incremental.group_keys import is_global
from engine.sql.plan import (
    Aggregate,
    DynamicFilter,
    Filter,
    Join,
    Node,
    Over,
    Project,
    Recompute,
    Scan,
    TemporalFilter,
    TopN,
    UnionAll,
    Unnest,
    Values,
)
from engine.sql.statements.options.view_options import parse_column_list
from engine.sql.typing.types import decimal_digits
from engine.sql.typing.whole_numbers import INTEGRAL

PARTITION_BY, PARTITIONS = "partition_by", "partitions"
NULL_KEY = "null"
_TYPES = (*INTEGRAL, "string", "date", "boolean", "timestamp", "timestamp_ntz")

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

    def build_key(self, by: By) -> Expr:
        """Return the text of a row's partition, an expression over `by`."""
        typed = [Cast(e, kind, attempt=True) for e, kind in zip(by, self.types, strict=True)]
        if self.groups is not None:
            away, half = 64 - (self.groups.bit_length() - 1), self.groups // 2
            group = fill_template(
                "shiftright(:hash, :away) + :half",
                hash=call("xxhash64", *typed),
                away=Literal(str(away)),
                half=Literal(str(half)),
            )
            return Cast(group, "string")
        none = Literal(NULL_KEY, "string")
        texts = [
            fill_template("coalesce(CAST(:value AS STRING), :none)", value=each, none=none) for each in typed
        ]
        return texts[0] if len(texts) == 1 else call("concat_ws", Literal("|", "string"), *texts)

    def build_predicate(self, by: By, keys: Collection[str], inside: bool = True) -> Expr:
        """Return the predicate that a row is in one of the partitions `keys`, or with `inside` False in none of them."""
        if not keys:
            return FALSE if inside else TRUE
        found = In(self.build_key(by), tuple(Literal(key, "string") for key in sorted(keys)))
        return found if inside else Not(found)

    def build_own_predicate(self, table: str, keys: Collection[str], inside: bool = True) -> Expr:
        """Return the predicate that a stored row of the view, or of one of its states, is in the partitions `keys`, or not."""
        return self.build_predicate(self.tables[table], keys, inside)

    def restrict(self, fragment: Fragment, keys: Collection[str], inside: bool = True) -> Fragment:
        """Return a fragment over those rows alone that are in the partitions `keys`, or in none of them."""

        def filter_leaf(node: Scan | Values, by: By) -> Node:
            return Filter(node, self.build_predicate(by, keys, inside))

        plan = trace_partitions(fragment.plan, self.tables[fragment.table], filter_leaf)
        return msgspec.structs.replace(fragment, plan=plan)

    def list_sources(self, fragment: Fragment) -> tuple[tuple[Scan, Expr], ...]:
        """Return the scans of a fragment, each with the partition of its rows, an expression over its columns."""
        found: list[tuple[Scan, Expr]] = []

        def collect_leaf(node: Scan | Values, by: By) -> Node:
            if isinstance(node, Scan):
                found.append((node, self.build_key(by)))
            return node

        trace_partitions(fragment.plan, self.tables[fragment.table], collect_leaf)
        return tuple(found)


def is_partitioned(options: Mapping[str, str]) -> bool:
    """Tell whether the options of a view cut it into partitions."""
    return PARTITION_BY in options or PARTITIONS in options


def derive_partitioning(plan: IncrementalPlan, options: Mapping[str, str]) -> Partitioning | None:
    """Return how a view is cut, None if it is not; raises NotPartitionable with the operator that stands against it."""
    if not is_partitioned(options):
        return None
    return _derive_partitioning(plan, options.get(PARTITION_BY), options.get(PARTITIONS))


@lru_cache(maxsize=1024)
def _derive_partitioning(plan: IncrementalPlan, by: str | None, groups: str | None) -> Partitioning:
    view = plan.fragments[-1]
    kinds = {name.lower(): (name, kind) for name, kind in view.columns}
    stored_names = (
        tuple(map(to_storage_name, parse_column_list(by)))
        if by is not None
        else tuple(name.lower() for name in view.distribution_key)
    )
    names = tuple(kinds[name][0] for name in stored_names)
    types = tuple(kinds[name][1].lower() for name in stored_names)
    for name, kind in zip(names, types, strict=True):
        if kind not in _TYPES and decimal_digits(kind) is None:
            raise NotPartitionable(f"column {name} is {kind}, whose values do not name partitions")
    tables: dict[str, By] = {view.table: tuple(Column(name) for name in names)}
    states = {fragment.table for fragment in plan.fragments}

    def record_leaf(node: Scan | Values, of: By) -> Node:
        if isinstance(node, Scan) and node.table in states:
            columns = {name: Column(column) for name, column in node.items}
            found = tuple(substitute(expr, columns) for expr in of)
            if tables.setdefault(node.table, found) != found:
                raise NotPartitionable("one subquery is read twice, each time by other columns")
        return node

    for fragment in reversed(plan.fragments):
        if fragment.table not in tables:
            raise NotPartitionable("a subquery has rows of all partitions")
        trace_partitions(fragment.plan, tables[fragment.table], record_leaf)
    return Partitioning(view.table, names, None if groups is None else int(groups), types, tables)


def trace_partitions(node: Node, by: By, leaf: Leaf) -> Node:
    """Return `node` with each of its scans replaced by what `leaf` makes of it and of the expressions `by` over it."""
    match node:
        case Scan(expires=True):
            raise NotPartitionable("rows leave a table that it reads, which nothing could compute again")
        case Scan(passes=True):
            raise NotPartitionable("rows of a source are not kept, so no partition could be computed again")
        case Scan() | Values():
            return leaf(node, tuple(guard_expression(expr) for expr in by))
        case Filter():
            below = by
        case Project():
            below = _substitute_items(by, dict(node.items))
        case Unnest():
            _require_columns(by, node.input.columns, "unnest", "not an element of the array")
            below = by
        case TopN():
            _require_columns(
                by, node.partition, "the first rows of each group", "among the PARTITION BY columns"
            )
            below = by
        case Over():
            _require_columns(by, node.partition, "the window", "among its PARTITION BY columns")
            below = by
        case Aggregate():
            if not node.keys or is_global(node):
                raise NotPartitionable("the aggregate has no GROUP BY: its one row is made of all partitions")
            keys = dict(node.keys)
            _require_columns(by, tuple(keys), "the aggregate", "among its GROUP BY columns")
            below = _substitute_items(by, keys)
        case UnionAll():
            return _trace_union(node, by, leaf)
        case Join(at_arrival=True):
            raise NotPartitionable("a temporal join has joined rows that nothing could compute again")
        case Join():
            left, right = _map_join_sides(node, by)
            return msgspec.structs.replace(
                node,
                left=trace_partitions(node.left, left, leaf),
                right=trace_partitions(node.right, right, leaf),
            )
        case DynamicFilter():
            raise NotPartitionable("rows of all partitions are held against one bound, which moves")
        case TemporalFilter():
            raise NotPartitionable("a filter on now() moves rows of all partitions at their time")
        case Recompute():
            raise NotPartitionable("refresh_policy = 'full' computes the query as a whole")
    return msgspec.structs.replace(node, input=trace_partitions(node.input, below, leaf))


def _substitute_items(by: By, items: Mapping[str, Expr]) -> By:
    found = [substitute_small(expr, items) for expr in by]
    substituted = tuple(expr for expr in found if expr is not None)
    if len(substituted) < len(found):
        raise NotPartitionable("its column is computed in so many steps that they cannot be said in one")
    return substituted


def _trace_union(node: UnionAll, by: By, leaf: Leaf) -> Node:
    _require_columns(by, node.names, "UNION ALL", "a column of every branch")
    branches = []
    for child in node.inputs:
        names = {name: Column(column) for name, column in zip(node.names, child.columns, strict=False)}
        branches.append(trace_partitions(child, tuple(substitute(expr, names) for expr in by), leaf))
    return msgspec.structs.replace(node, inputs=tuple(branches))


def _map_join_sides(join: Join, by: By) -> tuple[By, By]:
    """Return the columns on the left and on the right side of a join."""
    to_left, to_right = {right: left for left, right in join.on}, dict(join.on)
    where = (
        f"the join on {', '.join(_format_column(left) for left, _ in join.on)}"
        if join.on
        else "the cross join"
    )
    on = "among the columns that the two sides are joined by"

    def map_columns(partners: Mapping[str, str], own: tuple[str, ...], may_map: bool) -> By:
        columns = {column: Column(column) for column in own}
        if may_map:
            columns |= {theirs: Column(ours) for theirs, ours in partners.items()}
        _require_columns(by, tuple(columns), where, on)
        return tuple(substitute(expr, columns) for expr in by)

    return map_columns(to_left, join.left.columns, join.kind == "inner"), map_columns(
        to_right, join.right.columns, True
    )


def _require_columns(by: By, columns: tuple[str, ...], where: str, what: str) -> None:
    for expr in by:
        for column in expr.columns:
            if column not in columns:
                raise NotPartitionable(f"{where}: {_format_column(column)} is not {what}")


def _format_column(column: str) -> str:
    return column.rpartition(":")[2].removeprefix("_group_").removeprefix("_key_")


def list_usable_columns(plan: IncrementalPlan, visible: Collection[str]) -> tuple[str, ...]:
    """Return the columns of a view by each of which it could be cut."""
    found = []
    for name in visible:
        try:
            _derive_partitioning(plan, name, None)
        except (NotPartitionable, KeyError):
            continue
        found.append(name)
    return tuple(found)

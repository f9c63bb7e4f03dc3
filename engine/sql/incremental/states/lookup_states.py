"""The tables that the fragments of a view look rows up in: tables that are there, their indexes, and states of the view's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from engine.sql.expression.nodes import Column, Expr
from engine.sql.incremental.access_paths import (
    NotPushable,
    build_arrange_key,
    find_required_indexes,
    is_chain,
    is_in_place,
    list_join_columns,
)
from engine.sql.incremental.fragments import Fragment, StateExpiry
from engine.sql.incremental.rules import Linear, Lookups
from engine.sql.incremental.states.table_columns import reads_expiring, reads_pass_through, sanitize_names
from engine.sql.incremental.watermarks.column_progress import ColumnProgress
from engine.sql.incremental.watermarks.join_expiry import Going, find_releasable
from engine.sql.incremental.watermarks.watermark_columns import OfScan, find_progress, list_bounds
from engine.sql.plan import Join, Node, Project, Scan, list_nodes


class Analyzer(Protocol):
    """Knows the Spark types of a node's columns; every fragment is reported to it, since later nodes may scan its table."""

    def infer_types(self, node: Node) -> Mapping[str, str]:
        """Return the Spark type of each column of `node`."""
        ...

    def add_fragment(self, fragment: Fragment) -> Fragment:
        """Take note of a fragment; return it with its table's columns."""
        ...


class LookupStates:
    """The fragments of one view so far, and the shared indexes that their lookups need.

    `of_scan` tells which columns of tables carry a watermark; without it no join lets go of rows.
    """

    def __init__(self, view: str, analyzer: Analyzer, of_scan: OfScan | None = None) -> None:
        self.view = view
        self.analyzer = analyzer
        self.of_scan = of_scan
        self.fragments: list[Fragment] = []
        self.indexes: dict[tuple[str, tuple[str, ...]], None] = {}

    def _emit_fragment(
        self, table: str, plan: Node, by: tuple[str, ...], why: str = "", then: tuple[str, ...] = ()
    ) -> None:
        joins = sum(isinstance(part, Join) for part in list_nodes(plan))
        rule = Lookups() if joins else Linear()
        looked_up = f"the change of each input looked up in the others ({joins} joins)"
        why = why or (looked_up if joins else "on changes alone")
        self._add_fragment(Fragment(table, rule, plan, build_arrange_key(by + then, plan.key), by, why))

    def _make_state_name(self) -> str:
        return f"_state_{self.view}_{len(self.fragments) + 1}"

    def _add_fragment(self, fragment: Fragment) -> None:
        assert fragment.table not in {known.table for known in self.fragments}, fragment.table
        self.fragments.append(self.analyzer.add_fragment(fragment))

    def _find_releasable(
        self, join: Join, conditions: tuple[Expr, ...], left: Node, right: Node
    ) -> tuple[Going, Going]:
        """Return which rows the lowered sides of a join let go: of those that grow only, and would be a state or an index."""
        grow = left.append_only and right.append_only and not (reads_expiring(left) or reads_expiring(right))
        keyed = join.kind == "inner" or (join.kind == "left" and bool(join.on))
        if self.of_scan is None or not grow or not keyed or join.at_arrival:
            return None, None
        found = find_releasable(
            join, conditions, find_progress(join.left, self.of_scan), find_progress(join.right, self.of_scan)
        )
        stays = [
            bool(by) and is_in_place(side, by)
            for side, by in zip((left, right), list_join_columns(join), strict=True)
        ]
        if (
            stays[0] and join.kind == "left"
        ):  # it finds left rows for ever, and has to find what they have met
            return None, None
        return None if stays[0] else found[0], None if stays[1] else found[1]

    def _build_releasing_state(
        self, node: Node, columns: tuple[str, ...], at: str, bound: ColumnProgress
    ) -> Scan:
        """Return a state of a node's rows that lets go of those below a bound."""
        rows = self._arrange(node, columns or node.key)
        state = self.fragments[-1]
        expiry = StateExpiry(dict(rows.items)[at], list_bounds(bound), late=True)
        why = f"{state.why}, as long as the other side may meet them"
        self.fragments[-1] = msgspec.structs.replace(state, expiry=expiry, why=why)
        return msgspec.structs.replace(rows, expires=True)

    def _prepare_right_side(self, right: Node, join: Join) -> Node:
        """Return the right side of a join as what can be looked up by the columns that it is joined by."""
        by = tuple(right for _, right in join.on)
        if not by:
            return self._make_lasting(right)
        return (
            self._make_accessible(right, by, join.null_safe) if is_chain(right) else self._arrange(right, by)
        )

    def _make_accessible(self, node: Node, columns: tuple[str, ...], null_safe: bool = False) -> Node:
        """Return a node that can be read by `columns`: itself with its indexes recorded, or an arrangement of it."""
        if reads_expiring(node) or reads_pass_through(node):
            return self._arrange(node, columns)
        try:
            needed = find_required_indexes(node, columns, null_safe)
        except NotPushable:
            return self._arrange(node, columns)
        states = {fragment.table for fragment in self.fragments}
        if any(table in states for table, _ in needed):  # an index is of a table that the catalog knows
            return self._arrange(node, columns)
        self.indexes.update(dict.fromkeys(needed))
        return node

    def _make_lasting(self, node: Node) -> Node:
        """Return a node that can be read as a whole: rows that nobody keeps, or that hide by age, stay in a state."""
        return self._arrange(node, node.key) if reads_expiring(node) or reads_pass_through(node) else node

    def _arrange(self, node: Node, columns: tuple[str, ...], then: tuple[str, ...] = ()) -> Scan:
        """Return a state of a node's rows that is spread by some columns, in the order of them and of what comes `then`."""
        names = sanitize_names(node.columns)
        plan = Project(node, tuple((names[column], Column(column)) for column in node.columns))
        table = self._make_state_name()
        by, after = (tuple(names[column] for column in dict.fromkeys(some)) for some in (columns, then))
        order = f", in the order of {', '.join(after)}" if after else ""
        self._emit_fragment(table, plan, by, f"rows arranged by {', '.join(by)}{order}", after)
        key = tuple(names[column] for column in node.key) if then else self.fragments[-1].key
        return Scan(table, tuple((old, new) for old, new in names.items()), key, by, node.append_only)

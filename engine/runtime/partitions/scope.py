"""How an epoch of a view is cut: partitions that stay behind, and partitions that are computed again as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.runtime.executor import RecomputedPartitions
from engine.sql.expression.nodes import Expr
from engine.sql.incremental.fragments import Fragment
from engine.sql.incremental.partitions import Partitioning
from engine.sql.plan import Filter, Node, Scan, list_children


@dataclass(frozen=True)
class PartitionScope:
    """The partitions `behind` take no part in an epoch, those `again` are recomputed; of all others the change is computed.

    With `only` the change of those partitions alone is computed.
    """

    partitioning: Partitioning | None = None
    behind: frozenset[str] = frozenset()
    again: frozenset[str] = frozenset()
    only: frozenset[str] | None = None

    @property
    def leaves_out(self) -> bool:
        """Whether changes of some partitions are left out: what takes part may then meet their rows in the table."""
        return bool(self.behind or self.again) or self.only is not None

    def restrict_fragment(self, fragment: Fragment) -> Fragment:
        """Return the fragment over the partitions whose change is computed; itself where that is all of them."""
        if self.partitioning is None:
            return fragment
        if self.only is not None:
            return self.partitioning.restrict(fragment, self.only)
        out = self.behind | self.again
        return self.partitioning.restrict(fragment, out, inside=False) if out else fragment

    def plan_recompute(self, fragment: Fragment) -> RecomputedPartitions | None:
        """Return what is to be computed again of a fragment's table, None if nothing."""
        if self.partitioning is None or not self.again:
            return None
        narrowed = self.partitioning.restrict(fragment, self.again)
        states = self.partitioning.tables
        counted = tuple(node for node, table in _find_filtered_scans(narrowed.plan) if table not in states)
        return RecomputedPartitions(
            narrowed, self.partitioning.build_own_predicate(fragment.table, self.again), counted
        )

    def build_predicate(self, table: str) -> Expr | None:
        """Return the predicate of a table's rows whose change is computed; None where that is all of them."""
        if self.partitioning is None:
            return None
        if self.only is not None:
            return self.partitioning.build_own_predicate(table, self.only)
        out = self.behind | self.again
        return self.partitioning.build_own_predicate(table, out, inside=False) if out else None


PartitionScopes = Mapping[str, PartitionScope]
ALL_PARTITIONS = PartitionScope()
NO_SCOPES: PartitionScopes = {}


def _find_filtered_scans(node: Node) -> tuple[tuple[Filter, str], ...]:
    """Return the filters right over scans, each with the table that is scanned."""
    if isinstance(node, Filter) and isinstance(node.input, Scan):
        return ((node, node.input.table),)
    return tuple(found for child in list_children(node) for found in _find_filtered_scans(child))

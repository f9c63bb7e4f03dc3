"""How many rows a plan or a join without an equality makes at most, by the sizes of tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from engine.hummock import TableVersion
from engine.sql.incremental.states.partials import GLOBAL_KEY
from engine.sql.plan import Join, Node, Scan, list_children, list_scans


class RowBound(Protocol):
    """What a frame that is kept counts on."""

    def holds(self, tables: Mapping[str, TableVersion]) -> bool:
        """Tell whether it is so for these tables."""
        ...


@dataclass(frozen=True)
class ProductBound:
    """Joins of all tables of a plan make `most` rows at most, whatever the tables hold."""

    plan: Node
    most: int

    def holds(self, tables: Mapping[str, TableVersion]) -> bool:
        """Tell whether they do."""
        return math.prod(max(1, estimate_rows(one, tables)) for one in list_scans(self.plan)) <= self.most


@dataclass(frozen=True)
class PairBound:
    """A change of one side, of `most_changed` rows at most, makes `most` pairs at most with the rows of the other `side`."""

    changed: Node
    most_changed: int
    side: Node
    most: int

    def holds(self, tables: Mapping[str, TableVersion]) -> bool:
        """Tell whether it does."""
        changed = min(estimate_rows(self.changed, tables), self.most_changed)
        return changed * estimate_rows(self.side, tables) <= self.most


def estimate_rows(node: Node, tables: Mapping[str, TableVersion]) -> int:
    """Return about how many rows a plan has: of tables at most as many, of joins with an equality those of the larger side.

    An aggregate without GROUP BY has one.
    """
    if isinstance(node, Scan):
        table = tables[node.table]
        return 1 if all(name.startswith(GLOBAL_KEY) for name in table.primary_key) else table.row_count
    sides = [estimate_rows(child, tables) for child in list_children(node)]
    if isinstance(node, Join) and node.kind in ("semi", "anti"):
        return sides[0]
    if isinstance(node, Join) and not node.on:
        return sides[0] * sides[1]
    return max(sides, default=0)

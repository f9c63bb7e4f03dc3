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
        return math.prod(max(1, count_most_rows(one, tables)) for one in list_scans(self.plan)) <= self.most


@dataclass(frozen=True)
class PairBound:
    """A change of one side, of `most_changed` rows at most, makes `most` pairs at most with the rows of the other `side`."""

    changed: Node
    most_changed: int
    side: Node
    most: int

    def holds(self, tables: Mapping[str, TableVersion]) -> bool:
        """Tell whether it does."""
        changed = min(count_most_rows(self.changed, tables), self.most_changed)
        return changed * count_most_rows(self.side, tables) <= self.most


def count_most_rows(node: Node, tables: Mapping[str, TableVersion]) -> int:
    """Return how many rows a plan has at most; an aggregate without GROUP BY has one."""
    if isinstance(node, Scan):
        table = tables[node.table]
        return 1 if all(name.startswith(GLOBAL_KEY) for name in table.primary_key) else table.row_count
    counts = [count_most_rows(child, tables) for child in list_children(node)]
    return _count_most_pairs(node, *counts) if isinstance(node, Join) else sum(counts)


def _count_most_pairs(join: Join, left: int, right: int) -> int:
    if join.kind in ("semi", "anti") or join.nearest is not None:
        return left
    if set(join.right.key) <= {column for _, column in join.on}:
        return left  # at most one right row for each left row
    if set(join.left.key) <= {column for column, _ in join.on}:
        return right if join.kind == "inner" else left + right
    return left * (right if join.kind == "inner" else max(right, 1))

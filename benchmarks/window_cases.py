"""The cases of `benchmarks.epochs` that rank rows and look around them, and the list of all cases."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np
import pyarrow as pa

from benchmarks.epoch_cases import CHUNK, BenchmarkCase, BidGroups, Categories, Orders, Smaller, TableChange

READINGS = 20
"""Readings of a sensor in the case of many partitions."""
_NO_STREAM = "a stream has neither windows of rows nor deletions"
_TEN_TIMES = Smaller(10, 10_000, 1.3, "on a base 10 x smaller")


class _NumberedRows(BenchmarkCase):
    """One table whose rows, numbered from 0, are inserted (half of the changes), updated (a quarter) and deleted (a quarter)."""

    table: str
    group: str
    """The column of groups, numbered from 0."""
    key, times_recompute = ("id",), 10.0
    streaming_loses, merges = _NO_STREAM, False
    sizes, smaller = (1_000, 10_000), _TEN_TIMES

    def __init__(self, rows: int, groups: int, seed: int = 7) -> None:
        super().__init__(rows, seed)
        self.groups = max(groups, 1)
        self.columns = self._draw_columns(rows)
        self.alive = np.ones(rows, dtype=bool)

    @abstractmethod
    def _draw_columns(self, rows: int) -> dict[str, np.ndarray]:
        """Return the columns of so many rows but for their ids."""

    def generate_content(self, table: str) -> Iterator[pa.Table]:
        """Yield the table's rows as they are now, in chunks."""
        ids = np.flatnonzero(self.alive)
        for start in range(0, len(ids), CHUNK):
            yield self._build_rows(ids[start : start + CHUNK])

    def _build_rows(self, ids: np.ndarray) -> pa.Table:
        return pa.table({"id": ids, **{name: column[ids] for name, column in self.columns.items()}})

    def generate_changes(self, changes: int) -> list[TableChange]:
        """Return the changes of the next epoch, `changes` rows together, and remember them."""
        deletes = updates = changes // 4
        updated, deleted = np.split(self._pick_rows(updates + deletes), [updates])
        inserted = np.arange(len(self.alive), len(self.alive) + changes - updates - deletes)
        fresh, moved = self._draw_columns(len(inserted)), self._draw_columns(updates)
        self._settle(fresh, moved, updated, deleted)
        self.alive[deleted] = False
        self.alive = np.append(self.alive, np.ones(len(inserted), dtype=bool))
        for name, column in self.columns.items():
            column[updated] = moved[name]
            self.columns[name] = np.append(column, fresh[name])
        upserted = self._build_rows(np.concatenate([updated, inserted]))
        return [
            TableChange(self.table, "upsert", upserted),
            TableChange(self.table, "delete", pa.table({"id": deleted})),
        ]

    def _pick_rows(self, rows: int) -> np.ndarray:
        """Return rows of as many groups, as far as there are so many: as much is touched on a smaller base."""
        offered = self.chance.permutation(np.flatnonzero(self.alive))
        _, first = np.unique(self.columns[self.group][offered], return_index=True)
        rest = np.delete(offered, first)
        return np.concatenate([self.chance.permutation(offered[first]), rest])[:rows]

    def _settle(
        self,
        fresh: dict[str, np.ndarray],
        moved: dict[str, np.ndarray],
        updated: np.ndarray,
        deleted: np.ndarray,
    ) -> None:
        """Give the rows that come to groups that nothing else touches, and leave those that are updated to theirs."""
        groups, others = self.columns[self.group], np.ones(self.groups, dtype=bool)
        moved[self.group] = groups[updated]
        others[groups[np.concatenate([updated, deleted])]] = False
        free = self.chance.permutation(np.flatnonzero(others))[: len(fresh[self.group])]
        fresh[self.group][: len(free)] = free


class Top(_NumberedRows):
    """The three best bids of each auction, ten bids an auction."""

    name, title, table, group = "top", "top 3 bids by auction, with deletes", "bid", "auction"
    ddl: ClassVar[Mapping[str, str]] = {
        "bid": "CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT)"
    }
    query = (
        "SELECT id, auction, price FROM (SELECT id, auction, price, row_number() OVER "
        "(PARTITION BY auction ORDER BY price DESC, id) AS place FROM bid) q WHERE place <= 3"
    )
    most_seconds = 0.4

    def __init__(self, rows: int, seed: int = 7) -> None:
        super().__init__(rows, rows // 10, seed)

    def _draw_columns(self, rows: int) -> dict[str, np.ndarray]:
        return {
            "auction": self.chance.integers(0, self.groups, rows),
            "price": self.chance.integers(1, 10_000, rows),
        }


class _Readings(_NumberedRows):
    """Readings of sensors in the order of their times."""

    table, group = "reading", "sensor"
    ddl: ClassVar[Mapping[str, str]] = {
        "reading": "CREATE TABLE reading (id BIGINT PRIMARY KEY, sensor BIGINT, seen BIGINT, value BIGINT)"
    }

    def _draw_columns(self, rows: int) -> dict[str, np.ndarray]:
        return {
            "sensor": self.chance.integers(0, self.groups, rows),
            "seen": self.chance.integers(0, 10**9, rows),
            "value": self.chance.integers(-1_000, 1_000, rows),
        }


class Running(_Readings):
    """The reading before and a running sum, in many partitions."""

    name, title = "running", "lag and running sum by sensor, 20 readings each"
    query = (
        "SELECT id, sensor, seen, value, lag(value) OVER (PARTITION BY sensor ORDER BY seen, id) AS one_back, "
        "sum(value) OVER (PARTITION BY sensor ORDER BY seen, id ROWS UNBOUNDED PRECEDING) AS total FROM reading"
    )

    def __init__(self, rows: int, seed: int = 7) -> None:
        super().__init__(rows, rows // READINGS, seed)


class Long(_Readings):
    """Neighbours and moving sums in one partition of all rows, held against the same in small partitions."""

    name, title = "long", "lag, lead and sums of seven rows in one partition"
    query = (
        "SELECT id, sensor, seen, value, lag(value) OVER (PARTITION BY sensor ORDER BY seen, id) AS one_back, "
        "lead(value, 2) OVER (PARTITION BY sensor ORDER BY seen, id) AS two_on, "
        "sum(value) OVER (PARTITION BY sensor ORDER BY seen, id ROWS BETWEEN 3 PRECEDING AND 3 FOLLOWING) AS around, "
        "max(value) OVER (PARTITION BY sensor ORDER BY seen, id ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) AS high FROM reading"
    )
    sizes, smaller = (100,), Smaller(1, 100, 3.0, "in partitions of 20 rows")
    times_recompute = 5.0

    def __init__(self, rows: int, seed: int = 7, groups: int = 1) -> None:
        super().__init__(rows, groups, seed)

    def build_twin(self) -> BenchmarkCase:
        """Return as many rows in small partitions."""
        return Long(self.rows, groups=self.rows // READINGS)


CASES: Mapping[str, tuple[type[BenchmarkCase], int]] = {
    "groups": (BidGroups, 10_000_000),
    "categories": (Categories, 10_000_000),
    "wide": (Orders, 2_000_000),
    "top": (Top, 5_000_000),
    "running": (Running, 2_000_000),
    "long": (Long, 1_000_000),
}
"""Each case, and the rows of its largest table at full scale."""

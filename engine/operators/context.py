"""What the operators of one fragment's epoch share: the session, the tables' versions, and the epochs old and new."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from engine.hummock import TableVersion
from engine.operators.arrow.compiler import Item
from engine.operators.flow import MOST_READERS, Rows, as_frame, compute, union
from engine.operators.lookups.table_parameters import TableAt, TableParameters, TableSource
from engine.spark_internals import derive_spark_schema
from engine.sql.expression.spark_sql import quote
from engine.sql.expression.template import as_columns
from engine.sql.plan import Node, Scan

SMALL_CHANGE_ROWS = 150_000
SPREAD_ROWS = 4_000
"""From so many changed rows on the groups that they touch are worth a task on each core, also in a small epoch."""
ROWS_PER_PARTITION = 500_000
CHANGED_ROWS_PER_PARTITION = 250_000
"""Tasks of a change look keys up and sort: fewer rows fit the processor's caches, and more tasks even out what they take."""
At = Literal["old", "new", "side"]


@dataclass(frozen=True)
class EpochContext:
    """One epoch (old, new] of one fragment; `old` is None while the fragment's table has never been computed.

    `schemas` stands in for tables when a plan is only analysed: they read as empty, and `empty` keeps those frames. `piece` is a
    scan whose rows in a range of hashes count as the epoch's change, while nothing else changes: a step of a snapshot backfill.
    Scans that are `given` have these rows, of whatever epochs they are.
    With `parameters` the frame is to be kept: it leaves open which versions and epochs it reads. `exact` is that of Flow.
    With `any_input` it serves whichever of the fragment's inputs have changed. With `log_expired` the log of changes does not
    reach back to `old`, and states are as they are at `new`.
    """

    spark: SparkSession
    url: str
    options: Mapping[str, Any]
    tables: Mapping[str, TableVersion]
    old: int | None
    new: int
    parallelism: int
    rows_in: int
    schemas: Mapping[str, StructType] = field(default_factory=dict)
    empty: dict[Scan, DataFrame] = field(default_factory=dict)
    input_frames: Mapping[Scan, DataFrame] = field(default_factory=dict)
    piece: tuple[Scan, tuple[int, int]] | None = None
    parameters: TableParameters | None = None
    exact: bool = True
    any_input: bool = False
    log_expired: bool = False
    _names: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def estimate_rows(self, table: str) -> int:
        """Return about how many rows a table has."""
        return self.tables[table].row_count if table in self.tables else 0

    def may_change(self, table: str) -> bool:
        """Tell whether a table may have other rows at the new epoch than at the old one."""
        assert self.old is not None
        return self.any_input or bool(self.tables[table].list_changes(self.old, self.new))

    def hides_rows(self, table: str) -> bool:
        """Tell whether a table has rows that nobody sees any more, by their age or by a watermark."""
        options = self.tables[table].table.options
        return options.ttl_seconds is not None or options.watermark_column is not None

    def is_driver(self, scan: Scan) -> bool:
        """Tell whether a step of a backfill reads this very scan in pieces."""
        return self.piece is not None and scan is self.piece[0]

    @property
    def moment(self) -> Literal["old", "new"]:
        """Which of the epoch's ends whole tables are read at: the old one in a context that looks back."""
        return "old" if self.new == self.old else "new"

    def find_source(self, table: str) -> TableSource:
        """Return where a task finds a table; a frame that is to be kept leaves its version open."""
        version = self.tables[table]
        return (
            TableAt(version, self.old, self.new)
            if self.parameters is None
            else self.parameters.add_parameter(version)
        )

    def pin_version(self, table: str) -> TableAt:
        """Return a table with its version and epochs; a frame that reads it so cannot be kept."""
        if self.parameters is not None:
            self.parameters.closed = True
        return TableAt(self.tables[table], self.old, self.new)

    def for_whole_tables(self, tables: Iterable[str]) -> EpochContext:
        """Return the context of an epoch whose cost follows all rows of `tables`, not the changed ones; its frame is not kept."""
        return replace(self, rows_in=sum(self.estimate_rows(name) for name in tables), parameters=None)

    def with_empty_tables(self, tables: Iterable[str]) -> EpochContext:
        """Return the context in which some tables are empty, for frames of which only the types matter."""
        schemas = {name: derive_spark_schema(self.tables[name].schema) for name in tables}
        return replace(self, schemas=schemas, empty={}, parameters=None, piece=None)

    @property
    def is_small(self) -> bool:
        """Whether the epoch runs in one partition without a shuffle."""
        return self.rows_in <= SMALL_CHANGE_ROWS

    def count_readers(self) -> int:
        """Return how many tasks of a small epoch read its change, each for groups of its own."""
        if self.parameters is not None:
            self.parameters.sized = True
        spread = self.is_small and self.rows_in >= SPREAD_ROWS and self.piece is None
        return min(self.parallelism, MOST_READERS) if spread else 1

    @property
    def partitions(self) -> int:
        """Into how many partitions the epoch's rows are spread."""
        each = ROWS_PER_PARTITION if self.old is None else CHANGED_ROWS_PER_PARTITION
        return count_partitions(self.rows_in, self.parallelism, each)

    def fresh(self, prefix: str) -> str:
        """Return a column name that nothing else in this epoch has."""
        return f"_{prefix}_{next(self._names)}"

    def union(self, parts: list[Rows]) -> Rows | None:
        """Return the union by position of the parts that are there, in one partition when the epoch is small."""
        if not parts:
            return None
        merged = union(parts)
        return merged.coalesce(1) if self.is_small and len(parts) > 1 else merged


Batch = Callable[[Node, EpochContext], DataFrame]
"""What gives all rows of a plan: an operator that needs more of an input than its change is handed one."""


def count_partitions(rows: int, parallelism: int, rows_each: int = ROWS_PER_PARTITION) -> int:
    """Return a partition count for `rows`: one for few, else at least one per core, of at most `rows_each` rows."""
    if rows <= SMALL_CHANGE_ROWS:
        return 1
    return min(256, max(parallelism, ceil(rows / rows_each)))


def shuffle_by_vnode(frame: Rows, columns: Sequence[str], context: EpochContext, place: str) -> DataFrame:
    """Return `frame` with its rows in the partitions of the vnodes of `columns`, and a column `place` that names the partition.

    A GROUP BY of `place` and more needs no second shuffle.
    """
    key, n = ", ".join(quote(column) for column in columns), context.partitions
    vnode = f"CAST((shiftright(xxhash64({key}), 56) + 128) * {n} / 256 AS INT) AS {quote(place)}"
    return as_frame(frame).selectExpr("*", vnode).repartitionById(n, F.col(quote(place)))


def select(frame: Rows, columns: tuple[str, ...] | list[str], *items: Item) -> Rows:
    """Return `frame` with just `columns`, and after them `items`."""
    return compute(frame, [*as_columns(columns), *items])

"""Rows of a relation in the order of its files: by the hash of their key, then by the key, those of a hash in one task.

Spark spreads and sorts rows one by one. Many rows are *packed* instead, where equal hashes mean equal keys: a task makes Arrow
streams, each of many rows of one range of hashes; Spark spreads and sorts these few values; and the task that writes sorts the
rows of a range at a time, which is all that it holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from engine.arrow import as_stream, as_values, from_stream, to_positions
from engine.hummock.rows.ordering import one_chunk, order_by_key
from engine.jsonb.functions import PREFIX
from engine.operators.arrow.map_in_arrow import Body, map_in_arrow
from engine.operators.context import SMALL_CHANGE_ROWS, count_partitions
from engine.runtime.spark.session import EngineSpark
from engine.runtime.writes.spill import PLACE
from engine.sql.catalog import Relation, RelationColumn
from engine.sql.column_names import ADDED
from engine.sql.expression.spark_sql import quote

PACKED_FROM = SMALL_CHANGE_ROWS
"""Of so many rows on it pays to pack them."""
PACK_BYTES = 64 << 20
PACK_ROWS = 1_000_000
"""A task packs rows when it holds so much."""
RANGE_ROWS = 100_000
MOST_RANGES = 4096
"""About how many rows a range has, and how many ranges there are at most: a task holds the rows of one."""
HASH, RANGE, ROWS = (f"{ADDED}{part}" for part in ("hash", "range", "rows"))
PACKED = StructType([StructField(RANGE, IntegerType()), StructField(ROWS, BinaryType())])


@dataclass(frozen=True)
class KeyOrderedRows:
    """Rows that come to each task in the order of their keys; packed ones are sorted by `key` there."""

    rows: DataFrame
    key: tuple[str, ...] = ()

    def apply(self, body: Body, schema: StructType) -> DataFrame:
        """Return what a body makes of the rows of each task."""
        return map_in_arrow(self.rows, UnpackRows(self.key, body) if self.key else body, schema)


def sort_by_key(
    relation: Relation, rows: DataFrame, count: int, spark: SparkSession, *, placed: bool = True
) -> KeyOrderedRows:
    """Return rows of a relation in the order of its files: a key's in one task, if they are `placed` in the order of `_place`."""
    names = {column.storage_name: _render_stored(column) for column in relation.columns}
    hashed = f"xxhash64({', '.join(names[name] for name in relation.distribution_key)})"
    if needs_packing(relation, count):
        hashed_rows = rows.selectExpr("*", f"{hashed} AS {HASH}")
        return sort_packed(
            relation, count, spark, lambda body: map_in_arrow(hashed_rows, body, PACKED), placed=placed
        )
    parts = count_partitions(count, EngineSpark.of(spark).count_parallel_tasks())
    vnode = F.expr(f"CAST((shiftright({hashed}, 56) + 128) * {parts} / 256 AS INT)")
    order = [F.expr(hashed), *(F.expr(names[name]) for name in relation.primary_key)]
    order += [F.col(PLACE)] if placed else []
    return KeyOrderedRows(rows.repartitionById(parts, vnode).sortWithinPartitions(*order))


def needs_packing(relation: Relation, count: int) -> bool:
    """Tell whether so many rows of a relation are packed."""
    return count > PACKED_FROM and _is_hash_unique(relation)


def sort_packed(
    relation: Relation,
    count: int,
    spark: SparkSession,
    packed: Callable[[PackRows], DataFrame],
    *,
    placed: bool = True,
) -> KeyOrderedRows:
    """Return in the order of a relation's files the rows that tasks pack by a body, whose last column is then their hash."""
    parts = count_partitions(count, EngineSpark.of(spark).count_parallel_tasks())
    ranges = parts * math.ceil(min(count / RANGE_ROWS, MOST_RANGES) / parts)
    task = F.expr(f"CAST({RANGE} * {parts} DIV {ranges} AS INT)")
    together = packed(PackRows(ranges)).repartitionById(parts, task).sortWithinPartitions(RANGE)
    by_source = {column.storage_name: column.name for column in relation.columns}
    key = tuple(by_source[source] for source in relation.primary_key)
    return KeyOrderedRows(together, (*key, PLACE) if placed else key)


def _is_hash_unique(relation: Relation) -> bool:
    """Tell whether few rows have one hash and all of them one key, which stands in the rows as it is kept."""
    key = [column for column in relation.columns if column.storage_name in relation.primary_key]
    return set(relation.distribution_key) == set(relation.primary_key) and all(
        _render_stored(column) == quote(column.name) for column in key
    )


def _render_stored(column: RelationColumn) -> str:
    """Return a column as Spark SQL, texts as VARCHAR(n), CHAR(n) and JSONB keep them: keys that become equal have to meet."""
    name = quote(column.name)
    if column.sql_type == "jsonb":
        return f"{PREFIX}jsonb({name})"
    if column.length is None:
        return name
    return f"left({f'rtrim({name})' if column.fixed else name}, {column.length})"


@dataclass(frozen=True)
class PackRows:
    """A task's body: rows, of which the last column is their hash, become one stream for each range of hashes that they have."""

    ranges: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        gathered: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in batches:
            gathered.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows >= PACK_ROWS or size > PACK_BYTES:
                yield self._pack(gathered)
                gathered, rows, size = [], 0, 0
        if rows:
            yield self._pack(gathered)

    def _pack(self, batches: list[pa.RecordBatch]) -> pa.RecordBatch:
        rows = pa.Table.from_batches(batches).combine_chunks()
        hashes = _read_hashes(rows)
        order = np.argsort(hashes)
        numbers = ((np.right_shift(hashes[order], 32) + (1 << 31)) * self.ranges) >> 32
        starts = np.flatnonzero(np.concatenate([[True], numbers[1:] != numbers[:-1]])).tolist()
        arranged = rows.take(to_positions(order)).combine_chunks()
        ends = [*starts[1:], rows.num_rows]
        streams = [
            as_stream(arranged.slice(start, end - start)) for start, end in zip(starts, ends, strict=True)
        ]
        return pa.record_batch(
            [pa.array(numbers[starts], pa.int32()), pa.array(streams, pa.binary())], names=[RANGE, ROWS]
        )


@dataclass(frozen=True)
class UnpackRows:
    """A task's body: hands packed rows to another body, a range after the other, in the order of their hash and key."""

    key: tuple[str, ...]
    body: Body

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from self.body(self._unpack(batches))

    def _unpack(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        gathered: list[pa.Table] = []
        at = None
        for batch in batches:
            for number, stream in zip(as_values(batch.column(0)), batch.column(1), strict=True):
                if number != at:
                    yield from self._sort(gathered)
                    at, gathered = number, []
                gathered.append(from_stream(stream.as_buffer()))
        yield from self._sort(gathered)

    def _sort(self, tables: list[pa.Table]) -> Iterator[pa.RecordBatch]:
        if not tables:
            return
        rows = pa.concat_tables(tables).combine_chunks()
        tables.clear()
        order, _ = order_by_key(_read_hashes(rows), rows.select(list(self.key)))
        rows = rows.drop_columns([HASH])
        for start in range(0, len(order), PACK_ROWS):
            yield from rows.take(to_positions(order[start : start + PACK_ROWS])).combine_chunks().to_batches()


def _read_hashes(rows: pa.Table) -> np.ndarray:
    found: np.ndarray = one_chunk(rows.column(HASH)).to_numpy()
    return found

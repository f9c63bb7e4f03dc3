"""The changes of a range as a Spark frame: few of them are Arrow in this process, many are read from the log by tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from engine.arrow import as_values
from engine.connectors.sinks.contract import SinkBatch
from engine.hummock import Hummock, Reader, TableVersion
from engine.log_store.changes import Changes
from engine.log_store.sink import LogRange, read_changes
from engine.operators.arrow.map_in_arrow import make_task_frame, map_in_arrow
from engine.operators.context import SMALL_CHANGE_ROWS, count_partitions
from engine.operators.lookups.scan import split_hash_space
from engine.runtime.rows import create_frame
from engine.runtime.spark.session import EngineSpark
from engine.runtime.writes.driver_rows import DRIVER_LIMIT
from engine.spark_internals import derive_spark_schema

CODE = "op"
"""The column that says what became of a row, by the codes of `Changes`; the others are `c0`, `c1`, …"""


def name_column(number: int) -> str:
    """Return the name of a column of the view in a frame of changes."""
    return f"c{number}"


@dataclass(frozen=True)
class ReadChanges:
    """A task's body: reads the changes of a range for the hash ranges that its input rows name."""

    url: str
    options: Mapping[str, Any]
    table: TableVersion
    part: LogRange
    columns: tuple[str, ...]
    parts: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader, ranges = Reader.open(self.url, self.options), split_hash_space(self.parts)
        for batch in batches:
            for number in as_values(batch.column(0)):
                for changes in read_changes(reader, self.table, self.part, self.columns, ranges[number]):
                    yield from encode_changes(changes, self.table, self.columns).to_batches()


def encode_changes(changes: Changes, table: TableVersion, columns: Sequence[str]) -> pa.Table:
    """Return changes as the rows of a frame."""
    schema = _build_schema(table, columns)
    arrays = [pa.chunked_array([pa.array(changes.operations, pa.int8())]), *changes.rows.columns]
    return pa.Table.from_arrays(arrays, schema=schema).combine_chunks()


def is_small(portion: SinkBatch) -> bool:
    """Tell whether the changes of a range are few enough to be rows in this process."""
    table, part = portion.table, portion.log_range
    few = _count_rows(table, part) <= SMALL_CHANGE_ROWS
    return few and _estimate_bytes(table, part) <= DRIVER_LIMIT.read()


def collect_changes(portion: SinkBatch, columns: Sequence[str]) -> pa.Table:
    """Return the changes of a small range as the rows of a frame."""
    found = [encode_changes(changes, portion.table, columns) for changes in portion.changes]
    return pa.concat_tables([_build_schema(portion.table, columns).empty_table(), *found])


def build_change_frame(
    session: SparkSession,
    store: Hummock,
    portion: SinkBatch,
    columns: Sequence[str],
    small: pa.Table | None,
) -> tuple[DataFrame, int | None]:
    """Return the changes of a range as a frame, and how many they are where that is known: a `small` one's are given."""
    table, part = portion.table, portion.log_range
    if small is not None:
        return create_frame(session, small), small.num_rows
    parts = count_partitions(_count_rows(table, part), EngineSpark.of(session).count_parallel_tasks())
    body = ReadChanges(store.url, dict(store.options), table, part, tuple(columns), parts)
    schema = derive_spark_schema(_build_schema(table, columns))
    return map_in_arrow(make_task_frame(session, parts), body, schema), None


def build_empty_frame(session: SparkSession, table: TableVersion, columns: Sequence[str]) -> DataFrame:
    """Return a frame of changes without any."""
    return create_frame(session, _build_schema(table, columns).empty_table())


def count_tasks(session: SparkSession, portion: SinkBatch) -> int:
    """Return how many tasks a shuffle should have that may rewrite the rows of the whole table with those of a range."""
    rows = max(portion.table.row_count, _count_rows(portion.table, portion.log_range))
    return count_partitions(rows, EngineSpark.of(session).count_parallel_tasks())


def _build_schema(table: TableVersion, columns: Sequence[str]) -> pa.Schema:
    fields = [pa.field(name_column(n), table.schema.field(column).type) for n, column in enumerate(columns)]
    return pa.schema([pa.field(CODE, pa.int8()), *fields])


def _count_rows(table: TableVersion, part: LogRange) -> int:
    if part.snapshot:
        return sum(sst.rows for run in table.as_of(part.upto) for sst in run)
    return sum(entry.rows for entry in table.list_changes(part.after, part.upto))


def _estimate_bytes(table: TableVersion, part: LogRange) -> int:
    """Return how large the rows of a range are at most, in memory."""
    if part.snapshot:
        return sum(sst.size for run in table.as_of(part.upto) for sst in run)
    return sum(sst.size for entry in table.list_changes(part.after, part.upto) for sst in entry.ssts)

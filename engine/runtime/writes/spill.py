"""A query's rows on their way into a statement: few are handed over, many stay in files that no version names.

Spill files are sorted files like all others, of a table that does not exist; the collector finds them as orphans.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from engine.arrow import as_stream, as_values, from_stream
from engine.hummock import Hummock, Reader, SstInfo, Table
from engine.hummock.monitoring.driver_traffic import track_bytes
from engine.operators.arrow.map_in_arrow import map_in_arrow
from engine.operators.context import count_partitions
from engine.runtime.spark.errors import build_analysis_error, build_row_error
from engine.runtime.spark.session import EngineSpark
from engine.spark_internals import derive_arrow_schema, derive_spark_schema
from engine.sql.catalog import ROW_ID
from engine.sql.column_names import ADDED

PLACE = f"{ADDED}place"
"""The column that tells where a row stood in its query's answer: the task's number and the row's in it."""
SPILL_BYTES = 32 << 20
BATCH_ROWS = 65_536
_TASK_BITS = 40
ANSWER = "answer"
ANSWER_SCHEMA = StructType([StructField(ANSWER, BinaryType())])


class TaskRows(msgspec.Struct, frozen=True):
    """What one task had: its rows as an Arrow stream, or files of them."""

    task: int
    rows: bytes = b""
    files: tuple[SstInfo, ...] = ()


@dataclass(frozen=True)
class SpilledRows:
    """Rows in spill files: their columns' names and types, without `_place`, and each file's first row id if they have ids."""

    schema: pa.Schema
    files: tuple[SstInfo, ...]
    ids: tuple[int, ...] = ()

    @property
    def rows(self) -> int:
        """How many there are."""
        return sum(file.rows for file in self.files)

    def assign_row_ids(self, store: Hummock) -> SpilledRows:
        """Return the rows with ids that no other writer gives."""
        ids = []
        for file in self.files:
            row_ids = store.row_ids(file.rows)
            while (
                row_ids[-1] - row_ids[0] != file.rows - 1
            ):  # they were the end of one block and the start of another
                row_ids = store.row_ids(file.rows)
            ids.append(int(row_ids[0]))
        return replace(self, ids=tuple(ids))

    def to_frame(self, spark: SparkSession, url: str, options: Mapping[str, Any]) -> DataFrame:
        """Return the rows as a Spark frame, with `_place`, and `_row_id` if they have ids."""
        parts = min(
            len(self.files), count_partitions(self.rows, EngineSpark.of(spark).count_parallel_tasks())
        )
        body = ReadSpill(url, dict(options), self, parts)
        spark_schema = derive_spark_schema(pa.schema([field.with_nullable(True) for field in self.schema]))
        added = [PLACE, ROW_ID] if self.ids else [PLACE]
        schema = StructType([*spark_schema.fields, *(StructField(name, LongType()) for name in added)])
        return spark.range(0, parts, 1, parts).mapInArrow(body, schema)


@dataclass(frozen=True)
class ReadSpill:
    """A task's body: reads its share of the files."""

    url: str
    options: Mapping[str, Any]
    spilled: SpilledRows
    parts: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for part in as_values(batch.column(0)):
                for number in range(part, len(self.spilled.files), self.parts):
                    yield from self._read_file(number)

    def _read_file(self, number: int) -> Iterator[pa.RecordBatch]:
        reader, spilled = Reader.open(self.url, self.options), self.spilled
        table, start = build_spill_table(spilled.schema), 0
        for rows in reader.files.read_in_parts(spilled.files[number], table.schema.names, table.schema):
            named = rows.rename_columns([*spilled.schema.names, PLACE])
            if spilled.ids:
                first = spilled.ids[number] + start
                ids = pa.array(np.arange(first, first + rows.num_rows, dtype=np.int64))
                named = named.append_column(ROW_ID, ids)
            start += rows.num_rows
            yield from named.to_batches(BATCH_ROWS)


@dataclass(frozen=True)
class SpillTask:
    """A task's body: answers with its rows if they are at most `inline_bytes`, else with files of them."""

    url: str
    options: Mapping[str, Any]
    schema: pa.Schema
    inline_bytes: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        gathered: list[pa.RecordBatch] = []
        size, start = 0, 0
        files: list[SstInfo] = []
        for batch in batches:
            gathered.append(batch)
            size += batch.nbytes
            if size > max(self.inline_bytes, SPILL_BYTES):
                start += self._write(gathered, task, start, files)
                gathered, size = [], 0
        if files or size > self.inline_bytes:
            self._write(gathered, task, start, files)
            yield encode_answer(TaskRows(task, files=tuple(files)))
        elif any(batch.num_rows for batch in gathered):
            yield encode_answer(TaskRows(task, rows=as_stream(pa.Table.from_batches(gathered))))

    def _write(self, batches: list[pa.RecordBatch], task: int, start: int, files: list[SstInfo]) -> int:
        rows = pa.Table.from_batches(batches) if batches else None
        if rows is None or not rows.num_rows:
            return 0
        rows = rows.rename_columns(self.schema.names)
        files += write_spill(Reader.open(self.url, self.options), rows, task, start)
        return rows.num_rows


def gather_rows(
    frame: DataFrame,
    url: str,
    options: Mapping[str, Any],
    sql: str,
    inline_bytes: int,
) -> pa.Table | SpilledRows:
    """Run a query once and return its rows, or, if a task has more than `inline_bytes` of them, where they are.

    Raises SqlError or InvalidRow with the place in `sql`.
    """
    schema = derive_arrow_schema(frame.schema)
    body = SpillTask(url, options, schema, inline_bytes)
    found = collect_answers(map_in_arrow(frame, body, ANSWER_SCHEMA), TaskRows, sql)
    found.sort(key=lambda one: one.task)
    if not any(one.files for one in found):
        tables = [from_stream(one.rows).rename_columns(schema.names) for one in found]
        return pa.concat_tables(tables) if tables else schema.empty_table()
    reader, files = Reader.open(url, options), []
    for one in found:
        if one.rows:
            rows = from_stream(one.rows).rename_columns(schema.names)
            files += write_spill(reader, rows, one.task, 0)
        files += one.files
    return SpilledRows(schema, tuple(files))


def write_spill(reader: Reader, rows: pa.Table, task: int, start: int) -> list[SstInfo]:
    """Write rows of a task, of which `start` are written already, as spill files."""
    table = build_spill_table(rows.schema)
    first = (task << _TASK_BITS) + start
    places = pa.array(np.arange(first, first + rows.num_rows, dtype=np.int64))
    operations = pa.repeat(pa.scalar(0, pa.uint8()), rows.num_rows)
    whole = pa.table([*rows.columns, places, operations], names=[*table.schema.names, "_op"])
    return reader.write_run(table, whole)


def build_spill_table(schema: pa.Schema) -> Table:
    """Return the table that spill files are of: the columns by number, in the order of their place."""
    fields = [pa.field(f"c{n}", field.type) for n, field in enumerate(schema)]
    return Table("spilled", pa.schema([*fields, pa.field(PLACE, pa.int64())]), (PLACE,))


def collect_answers(frame: DataFrame, kind: type[Any], sql: str) -> list[Any]:
    """Run the tasks of a frame of answers; raises SqlError or InvalidRow with the place in `sql`."""
    try:
        found = frame.toArrow().column(ANSWER)
    except AnalysisException as error:
        raise build_analysis_error(error, sql) from error
    except PySparkException as error:
        raise build_row_error(error, sql) from error
    track_bytes(found.nbytes)
    return [msgspec.msgpack.decode(answer.as_buffer(), type=kind) for answer in itertools.chain(found)]


def encode_answer(answer: msgspec.Struct) -> pa.RecordBatch:
    """Return a task's answer as a batch of one row."""
    return pa.record_batch([pa.array([msgspec.msgpack.encode(answer)], pa.binary())], names=[ANSWER])


def concatenate_streams(streams: Sequence[bytes]) -> pa.Table | None:
    """Return the rows of several streams, None if there are none."""
    return pa.concat_tables([from_stream(one) for one in streams]) if streams else None

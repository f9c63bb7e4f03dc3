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
from engine.hummock.driver_traffic import passed
from engine.operators.context import partitions_for
from engine.operators.in_arrow import map_in_arrow
from engine.runtime.spark.errors import failed, refused
from engine.runtime.spark.session import parallelism
from engine.spark_internals import arrow_schema, spark_schema
from engine.sql.catalog import ROW_ID
from engine.sql.column_names import ADDED

PLACE = f"{ADDED}place"
"""The column that tells where a row stood in its query's answer: the task's number and the row's in it."""
SPILL_BYTES = 32 << 20
BATCH_ROWS = 65_536
_TASK_BITS = 40
ANSWER = "answer"
ANSWER_SCHEMA = StructType([StructField(ANSWER, BinaryType())])


class Gathered(msgspec.Struct, frozen=True):
    """What one task had: its rows as an Arrow stream, or files of them."""

    task: int
    rows: bytes = b""
    files: tuple[SstInfo, ...] = ()


@dataclass(frozen=True)
class Spilled:
    """Rows in spill files: their columns' names and types, without `_place`, and each file's first row id if they have ids."""

    schema: pa.Schema
    files: tuple[SstInfo, ...]
    ids: tuple[int, ...] = ()

    @property
    def rows(self) -> int:
        """How many there are."""
        return sum(file.rows for file in self.files)

    def numbered(self, store: Hummock) -> Spilled:
        """Return the rows with ids that no other writer gives."""
        ids = []
        for file in self.files:
            taken = store.row_ids(file.rows)
            while (
                taken[-1] - taken[0] != file.rows - 1
            ):  # they were the end of one block and the start of another
                taken = store.row_ids(file.rows)
            ids.append(int(taken[0]))
        return replace(self, ids=tuple(ids))

    def frame(self, spark: SparkSession, url: str, options: Mapping[str, Any]) -> DataFrame:
        """Return the rows as a Spark frame, with `_place`, and `_row_id` if they have ids."""
        parts = min(len(self.files), partitions_for(self.rows, parallelism(spark)))
        body = ReadSpilled(url, dict(options), self, parts)
        shown = spark_schema(pa.schema([field.with_nullable(True) for field in self.schema]))
        added = [PLACE, ROW_ID] if self.ids else [PLACE]
        schema = StructType([*shown.fields, *(StructField(name, LongType()) for name in added)])
        return spark.range(0, parts, 1, parts).mapInArrow(body, schema)


@dataclass(frozen=True)
class ReadSpilled:
    """A task's body: reads its share of the files."""

    url: str
    options: Mapping[str, Any]
    spilled: Spilled
    parts: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for part in as_values(batch.column(0)):
                for number in range(part, len(self.spilled.files), self.parts):
                    yield from self._read(number)

    def _read(self, number: int) -> Iterator[pa.RecordBatch]:
        reader, spilled = Reader.open(self.url, self.options), self.spilled
        table, start = spill_table(spilled.schema), 0
        for rows in reader.files.in_parts(spilled.files[number], table.schema.names, table.schema):
            named = rows.rename_columns([*spilled.schema.names, PLACE])
            if spilled.ids:
                first = spilled.ids[number] + start
                ids = pa.array(np.arange(first, first + rows.num_rows, dtype=np.int64))
                named = named.append_column(ROW_ID, ids)
            start += rows.num_rows
            yield from named.to_batches(BATCH_ROWS)


@dataclass(frozen=True)
class Spill:
    """A task's body: answers with its rows if they are at most `inline_bytes`, else with files of them."""

    url: str
    options: Mapping[str, Any]
    schema: pa.Schema
    inline_bytes: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        held: list[pa.RecordBatch] = []
        size, start = 0, 0
        files: list[SstInfo] = []
        for batch in batches:
            held.append(batch)
            size += batch.nbytes
            if size > max(self.inline_bytes, SPILL_BYTES):
                start += self._write(held, task, start, files)
                held, size = [], 0
        if files or size > self.inline_bytes:
            self._write(held, task, start, files)
            yield answered(Gathered(task, files=tuple(files)))
        elif any(batch.num_rows for batch in held):
            yield answered(Gathered(task, rows=as_stream(pa.Table.from_batches(held))))

    def _write(self, held: list[pa.RecordBatch], task: int, start: int, files: list[SstInfo]) -> int:
        rows = pa.Table.from_batches(held) if held else None
        if rows is None or not rows.num_rows:
            return 0
        rows = rows.rename_columns(self.schema.names)
        files += write_spill(Reader.open(self.url, self.options), rows, task, start)
        return rows.num_rows


def gathered(
    frame: DataFrame,
    url: str,
    options: Mapping[str, Any],
    sql: str,
    inline_bytes: int,
) -> pa.Table | Spilled:
    """Run a query once and return its rows, or, if a task has more than `inline_bytes` of them, where they are.

    Raises SqlError or InvalidRow with the place in `sql`.
    """
    schema = arrow_schema(frame.schema)
    body = Spill(url, options, schema, inline_bytes)
    found = answers(map_in_arrow(frame, body, ANSWER_SCHEMA), Gathered, sql)
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
    return Spilled(schema, tuple(files))


def write_spill(reader: Reader, rows: pa.Table, task: int, start: int) -> list[SstInfo]:
    """Write rows of a task, of which `start` are written already, as spill files."""
    table = spill_table(rows.schema)
    first = (task << _TASK_BITS) + start
    places = pa.array(np.arange(first, first + rows.num_rows, dtype=np.int64))
    operations = pa.repeat(pa.scalar(0, pa.uint8()), rows.num_rows)
    whole = pa.table([*rows.columns, places, operations], names=[*table.schema.names, "_op"])
    return reader.write_run(table, whole)


def spill_table(schema: pa.Schema) -> Table:
    """Return the table that spill files are of: the columns by number, in the order of their place."""
    fields = [pa.field(f"c{n}", field.type) for n, field in enumerate(schema)]
    return Table("spilled", pa.schema([*fields, pa.field(PLACE, pa.int64())]), (PLACE,))


def answers(frame: DataFrame, kind: type[Any], sql: str) -> list[Any]:
    """Run the tasks of a frame of answers; raises SqlError or InvalidRow with the place in `sql`."""
    try:
        found = frame.toArrow().column(ANSWER)
    except AnalysisException as error:
        raise refused(error, sql) from error
    except PySparkException as error:
        raise failed(error, sql) from error
    passed(found.nbytes)
    return [msgspec.msgpack.decode(answer.as_buffer(), type=kind) for answer in itertools.chain(found)]


def answered(answer: msgspec.Struct) -> pa.RecordBatch:
    """Return a task's answer as a batch of one row."""
    return pa.record_batch([pa.array([msgspec.msgpack.encode(answer)], pa.binary())], names=[ANSWER])


def concatenated(streams: Sequence[bytes]) -> pa.Table | None:
    """Return the rows of several streams, None if there are none."""
    return pa.concat_tables([from_stream(one) for one in streams]) if streams else None

"""Reading tables inside Spark tasks: a snapshot at an epoch, or the signed rows of a change log range.

>>> split_hash_space(2)
[(-9223372036854775808, -1), (0, 9223372036854775807)]
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from engine.arrow import as_values
from engine.hummock import Reader, TableVersion
from engine.hummock.reads.merge import HASHES, LOWEST
from engine.hummock.reads.write_times import WRITTEN_AT, WRITTEN_AT_TYPE
from engine.hummock.rows.expiry import disable_expiry
from engine.operators.arrow.map_in_arrow import make_task_frame
from engine.operators.change import Change
from engine.operators.context import CHANGED_ROWS_PER_PARTITION, EpochContext, count_partitions
from engine.operators.flow import COMES, Flow, Rows, append_columns
from engine.operators.lookups.table_parameters import TableAt, TableSource
from engine.spark_internals import derive_spark_schema
from engine.sql.expression.spark_sql import quote
from engine.sql.plan import Scan


def split_hash_space(parts: int, within: tuple[int, int] | None = None) -> list[tuple[int, int]]:
    """Cut the 64-bit hash space, or the inclusive range `within`, into `parts` inclusive ranges."""
    low, hashes = (LOWEST, HASHES) if within is None else (within[0], within[1] - within[0] + 1)
    bounds = [low + hashes * i // parts for i in range(parts + 1)]
    return [(low, high - 1) for low, high in itertools.pairwise(bounds)]


@dataclass(frozen=True)
class ReadTable:
    """A task's body: reads the hash ranges named by its input rows of one table, as a snapshot or as a change.

    `within` is an inclusive range of hashes to read, cut into `parts`. With `came` a change has the rows that have come to the
    table, be they hidden by now; of a state what is hidden is nobody's any more.
    """

    url: str
    options: Mapping[str, Any]
    source: TableSource
    items: tuple[tuple[str, str], ...]
    at: Literal["old", "new"] = "new"
    change: bool = False
    parts: int = 1
    within: tuple[int, int] | None = None
    came: bool = False

    def everything(self) -> ReadTable:
        """Return the body that reads all ranges in each task."""
        return replace(self, parts=1)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader, table = Reader.open(self.url, self.options), self.source.now()
        columns = list(dict.fromkeys(column for _, column in self.items))
        ranges = split_hash_space(self.parts, self.within)
        names = [name for name, _ in self.items] + (["_w"] if self.change else [])
        for batch in batches:
            for part in as_values(batch.column(0)):
                for rows in self._read(
                    reader, table, columns, ranges[part] if self.parts > 1 else self.within
                ):
                    arrays = [rows.column(column) for _, column in self.items]
                    if self.change:
                        arrays.append(rows.column("_w"))
                    yield pa.RecordBatch.from_arrays(arrays, names=names)

    def _read(
        self, reader: Reader, table: TableAt, columns: list[str], hash_range: tuple[int, int] | None
    ) -> Iterator[pa.RecordBatch]:
        if self.change:
            assert table.old is not None
            version = disable_expiry(table.version) if self.came else table.version
            return reader.read_changes(version, table.old, table.new, columns=columns, hash_range=hash_range)
        epoch = table.old if self.at == "old" else table.new
        assert epoch is not None
        stored = [column for column in columns if column != WRITTEN_AT]
        return reader.scan(
            table.version,
            epoch,
            columns=stored,
            hash_range=hash_range,
            written_at=len(stored) < len(columns),
        )


def read_table(spark: SparkSession, body: ReadTable, schema: pa.Schema, *, exact: bool = True) -> Flow:
    """Return a table's columns, `items` of the body = (output name, table column), of those in `schema`.

    The flow holds the rows at the source's old or new epoch, or of a change the signed rows between them and `_w`.
    `exact` is that of Flow.
    """
    if any(column == WRITTEN_AT for _, column in body.items):
        schema = schema.append(pa.field(WRITTEN_AT, WRITTEN_AT_TYPE))
    fields = [schema.field(column).with_name(name).with_nullable(True) for name, column in body.items]
    spark_schema = derive_spark_schema(pa.schema(fields))
    if body.change:
        spark_schema = StructType([*spark_schema.fields, StructField("_w", LongType())])
    one = body.parts == 1
    return Flow(make_task_frame(spark, body.parts), (body,), spark_schema, single=one, exact=exact)


def read_snapshot(scan: Scan, context: EpochContext) -> Rows:
    """Return all rows of the scanned table at the new epoch; of the scan that a step of a backfill reads in pieces, its piece."""
    if scan in context.input_frames:
        return context.input_frames[scan]
    if scan.table in context.schemas:
        if scan not in context.empty:
            context.empty[scan] = _make_empty(scan, context)
        return context.empty[scan]
    table, within = context.tables[scan.table], None
    rows = table.row_count
    if context.piece is not None and context.is_driver(scan):
        within = context.piece[1]
        rows = rows * (within[1] - within[0] + 1) // HASHES
    body = ReadTable(
        context.url,
        dict(context.options),
        context.pin_version(scan.table),  # how many tasks read it follows its size
        scan.items,
        at=context.moment,
        parts=count_partitions(rows, context.parallelism),
        within=within,
    )
    return read_table(context.spark, body, table.schema, exact=context.exact)


def _make_empty(scan: Scan, context: EpochContext) -> DataFrame:
    """Return no rows of the scanned table, with its types."""
    schema = context.schemas[scan.table]
    kinds = {field.name: field.dataType.simpleString() for field in schema.fields}
    if any("struct<" in kind for kind in kinds.values()):  # names of fields may need quotes
        empty = context.spark.createDataFrame([], schema)
        return empty.selectExpr(*(f"{quote(column)} AS {quote(name)}" for name, column in scan.items))
    items = [f"CAST(NULL AS {kinds[column]}) AS {quote(name)}" for name, column in scan.items]
    return context.spark.range(0).selectExpr(*items)


def delta(scan: Scan, context: EpochContext) -> Change | None:
    """Return the signed rows of the table's change in (old, new], or None if there is none."""
    table = context.tables[scan.table]
    if context.piece is not None and context.is_driver(scan):
        return Change(_read_piece(scan, table, context.piece[1], context))
    if not context.may_change(scan.table):
        return None
    assert context.old is not None
    rows = table.count_changed_rows(context.old, context.new)
    parts = 1 if context.is_small else count_partitions(rows, context.parallelism, CHANGED_ROWS_PER_PARTITION)
    source = context.find_source(scan.table)
    body = ReadTable(
        context.url,
        dict(context.options),
        source,
        scan.items,
        change=True,
        parts=parts,
        came=scan.expires,
    )
    return Change(read_table(context.spark, body, table.schema, exact=context.exact))


def _read_piece(scan: Scan, table: TableVersion, within: tuple[int, int], context: EpochContext) -> Rows:
    """Return the rows of a range of hashes as rows that came in."""
    body = ReadTable(
        context.url,
        dict(context.options),
        context.pin_version(scan.table),
        scan.items,
        parts=context.partitions,
        within=within,
    )
    return append_columns(read_table(context.spark, body, table.schema, exact=context.exact), COMES)

"""The Parquet files of a Delta table's version, read by tasks as they are, where that gives the rows which Delta gives.

Spark hands rows to Python one by one, which takes as long as its own copy of them; Arrow reads columns. A version's files are
its rows if no row of them is deleted, no column is named or kept otherwise in them, and whoever wrote them counted days as we
do. What is not known to be so is read by Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from engine.arrow import as_values
from engine.connectors.delta.log import Metadata
from engine.connectors.delta.types import has_plain_values
from engine.hummock.rows.row_hash import xxhash64
from engine.runtime.writes.key_order import HASH, PackRows
from engine.sql.catalog import Relation, RelationColumn
from engine.sql.typing.types import to_arrow

MOST_FILES = 1_000
"""The footers of so many files are looked at by the process that loads."""
SPLIT_BYTES = 64 << 20
BATCH_ROWS = 131_072
_LEGACY = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_WRITER = b"org.apache.spark.version"
_FIRST_PROLEPTIC = (3, 1)
_LAYOUTS: Mapping[pa.DataType, pa.DataType] = {
    **{pa.large_string(): pa.string(), pa.string_view(): pa.string()},
    **{pa.large_binary(): pa.binary(), pa.binary_view(): pa.binary()},
}
"""Types of the same values in another layout, which is cast."""


@dataclass(frozen=True)
class FileSplit:
    """Some row groups of a file."""

    path: str
    groups: tuple[int, ...]


def plan_splits(
    relation: Relation, metadata: Metadata, columns: Mapping[str, str], files: Sequence[str], count: int
) -> tuple[FileSplit, ...] | None:
    """Return what to read of a version's files, which have `count` rows by Delta; None where Spark has to read them.

    `columns` gives the Delta column of each column.
    """
    if metadata.is_mapped or metadata.partition_columns or not has_plain_values(metadata.schema_string):
        return None
    if not 0 < len(files) <= MOST_FILES:
        return None
    visible = [(column, columns[column.name]) for column in relation.visible_columns]
    if len(visible) != len(relation.columns):
        return None
    rows, splits = 0, list[FileSplit]()
    for file in files:
        parts = urlsplit(file)
        path = unquote(parts.path)
        if parts.scheme != "file" or parts.netloc:
            return None
        try:
            footer = pq.read_metadata(path)
        except (OSError, pa.ArrowException):
            return None  # Spark tells what is the matter
        if not has_columns(footer, visible):
            return None
        rows += footer.num_rows
        splits += _split_file(path, footer)
    return tuple(splits) if rows == count else None  # else some are deleted


def _split_file(path: str, footer: pq.FileMetaData) -> Iterator[FileSplit]:
    groups, size = list[int](), 0
    for number in range(footer.num_row_groups):
        groups.append(number)
        size += footer.row_group(number).total_byte_size
        if size >= SPLIT_BYTES:
            yield FileSplit(path, tuple(groups))
            groups, size = [], 0
    if groups:
        yield FileSplit(path, tuple(groups))


def has_columns(footer: pq.FileMetaData, expected: Sequence[tuple[RelationColumn, str]]) -> bool:
    """Tell whether a file has these columns as they are, under their names; texts and times may have to be cast."""
    said = footer.metadata or {}
    if any(word in said for word in _LEGACY) or not _is_proleptic(said.get(_WRITER)):
        return False
    schema = footer.schema.to_arrow_schema()
    physical = {footer.schema.column(at).path: footer.schema.column(at) for at in range(len(footer.schema))}
    for column, name in expected:
        if schema.names.count(name) != 1:
            return False
        kind, actual = to_arrow(column.type), schema.field(name).type
        actual = _LAYOUTS.get(actual, actual)
        if column.type == "timestamp" and name in physical and physical[name].physical_type == "INT96":
            continue
        if actual != kind:
            return False
    return True


def _is_proleptic(writer: bytes | None) -> bool:
    """Tell whether a version of Spark, or what is no Spark, writes days of the proleptic calendar unless it says otherwise."""
    if writer is None:
        return True
    numbers = writer.decode("ascii", "replace").split(".")
    if not all(number.isdigit() for number in numbers[:2]):
        return False
    return tuple(int(number) for number in numbers[:2]) >= _FIRST_PROLEPTIC


@dataclass(frozen=True)
class PackFiles:
    """A task's body: packs the rows of the splits whose numbers it gets."""

    splits: tuple[FileSplit, ...]
    relation: Relation
    columns: Mapping[str, str]
    parts: int
    packed: PackRows

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from self.packed(self._read_rows(batches))

    def _read_rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for part in as_values(batch.column(0)):
                for split in self.splits[part :: self.parts]:
                    with pq.ParquetFile(split.path, coerce_int96_timestamp_unit="us") as file:
                        named = [self.columns[column.name] for column in self.relation.columns]
                        for rows in file.iter_batches(
                            BATCH_ROWS, row_groups=list(split.groups), columns=named
                        ):
                            yield self._cast_rows(rows)

    def _cast_rows(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        arrays: dict[str, pa.Array[Any]] = {}
        for column in self.relation.columns:
            values, kind = rows.column(self.columns[column.name]), to_arrow(column.type)
            arrays[column.name] = values if values.type == kind else values.cast(kind)
        by_source = {column.storage_name: column.name for column in self.relation.columns}
        hashed = xxhash64([arrays[by_source[source]] for source in self.relation.distribution_key])
        return pa.record_batch([*arrays.values(), pa.array(hashed)], names=[*arrays, HASH])

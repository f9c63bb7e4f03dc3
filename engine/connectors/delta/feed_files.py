"""A small range of a change data feed, read from its files by Arrow: a job of Spark takes a quarter of a second for it.

Method: Delta's protocol. The changes of a version are the rows of its change files, each of which says what it is; of a version
that has none they are the rows of the files that it added or removed. Spark reads what asks for more of a reader: removed files,
deletion vectors, partitions, mapped columns, nested types, types that were widened, and times of another calendar.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.arrow import to_mask
from engine.connectors.delta.file_changes import DataFile
from engine.connectors.delta.log import DeltaCommit, DeltaLog, Metadata
from engine.connectors.delta.steps import DeltaStep
from engine.connectors.delta.types import UNREAD, list_fields
from engine.connectors.delta.values import MatchedColumn
from engine.errors import SourceError, StorageError
from engine.runtime.writes.spill import PLACE
from engine.sql.catalog import Relation
from engine.sql.expression.spark_sql import quote
from engine.sql.typing.types import to_arrow

KIND = "_change_type"
_COMES = pa.array(["insert", "update_postimage"])
_GOES = pa.array(["delete", "update_preimage"])
_DAYS = (pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"))
_WRITER = re.compile(rb"(\d+)\.(\d+)")
_OF_JULIAN_DAYS = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_FIRST_GREGORIAN = (3, 1)
"""The first version of Spark whose files hold all days by the calendar of today, unless they say otherwise."""


class NotPlain(Exception):
    """A feed holds what Spark has to read."""


@dataclass(frozen=True)
class _Column:
    """A column of a table: its own name, that in the files, and its type."""

    name: str
    stored: str
    type: pa.DataType


def read_feed_files(
    log: DeltaLog, relation: Relation, step: DeltaStep, columns: Mapping[str, MatchedColumn], most_rows: int
) -> pa.Table | None:
    """Return what the versions of a step have changed, with the place of each change; None where Spark has to read it."""
    try:
        wanted = _list_columns(step.then.metadata, relation, columns)
        found, rows = [_build_schema(wanted).empty_table()], 0
        for commit in step.commits:
            for file in _list_files(commit):
                opened = _open_file(log, file)
                rows += opened.metadata.num_rows
                if rows > most_rows:
                    return None
                found.append(_read_changes(opened, wanted, commit))
        return pa.concat_tables(found)
    except (NotPlain, pa.ArrowException, OSError, StorageError, SourceError):
        return None  # Spark reads it, or says why it cannot


def _list_columns(
    metadata: Metadata, relation: Relation, columns: Mapping[str, MatchedColumn]
) -> tuple[_Column, ...]:
    """Return the columns that are read; raises NotPlain for those whose values are not in the files as they are taken."""
    fields = {field["name"]: field for field in list_fields(metadata.schema_string)}
    if metadata.is_mapped or metadata.partition_columns:
        raise NotPlain
    found = []
    for column in relation.visible_columns:
        matched = columns[column.name]
        field = fields[matched.name]
        is_taken_as_it_is = matched.value == quote(matched.name) and not matched.unfit
        told = msgspec.json.encode(field).decode()
        if not isinstance(field["type"], str) or not is_taken_as_it_is or "." in matched.name:
            raise NotPlain
        if any(mark in told for mark in UNREAD):
            raise NotPlain
        found.append(_Column(column.name, matched.name, to_arrow(matched.type)))
    return tuple(found)


def _build_schema(wanted: Iterable[_Column]) -> pa.Schema:
    return pa.schema([*(pa.field(one.name, one.type) for one in wanted), pa.field(PLACE, pa.int64())])


def _list_files(commit: DeltaCommit) -> Sequence[DataFile]:
    """Return the files that hold what a version has changed."""
    if commit.elsewhere:
        raise NotPlain
    if commit.feed:
        return commit.feed
    added = [file for file in commit.actions.added if file.data_change]
    if any(file.data_change for file in commit.actions.removed):
        raise NotPlain
    if any(file.deletion_vector is not None for file in added):
        raise NotPlain
    return added


def _open_file(log: DeltaLog, file: DataFile) -> pq.ParquetFile:
    data = log.read_file(file.path)
    if data is None:
        raise NotPlain
    return pq.ParquetFile(pa.BufferReader(data), coerce_int96_timestamp_unit="us")


def _read_changes(file: pq.ParquetFile, wanted: Sequence[_Column], commit: DeltaCommit) -> pa.Table:
    """Return the rows of a file of a version, with their places."""
    names = [one.stored for one in wanted] + ([KIND] if commit.feed else [])
    schema = file.schema_arrow
    if len(set(schema.names)) < len(schema.names) or not {*names} <= {*schema.names}:
        raise NotPlain
    if any(one.type in _DAYS for one in wanted) and not _is_of_todays_calendar(file):
        raise NotPlain
    whole = file.read(columns=names)
    whole.validate(full=True)  # a text that is none is Spark's to read
    arrays = [_take_column(file, whole, one) for one in wanted]
    comes = _find_coming(whole.column(KIND)) if commit.feed else np.ones(whole.num_rows, dtype=bool)
    places = pa.chunked_array([pa.array(commit.version * 2 + comes.astype(np.int64))])
    return pa.Table.from_arrays([*arrays, places], schema=_build_schema(wanted))


def _take_column(file: pq.ParquetFile, whole: pa.Table, one: _Column) -> pa.ChunkedArray[Any]:
    """Return the values of a column; raises NotPlain where a file has it in another type."""
    values = whole.column(one.stored)
    if one.type in _DAYS and _find_physical_type(file, one.stored) == "INT96":
        if one.type != pa.timestamp("us", "UTC"):
            raise NotPlain
        return values.cast(one.type)
    if values.type != one.type:
        raise NotPlain
    return values


def _find_physical_type(file: pq.ParquetFile, name: str) -> str:
    found = (file.schema.column(n) for n in range(len(file.schema)))
    return next(str(column.physical_type) for column in found if column.path == name)


def _find_coming(kinds: pa.ChunkedArray[Any]) -> np.ndarray:
    """Tell of which changes the row is one that comes."""
    comes, goes = (to_mask(pc.is_in(kinds, value_set=words)) for words in (_COMES, _GOES))
    if not (comes | goes).all():
        raise NotPlain
    return comes


def _is_of_todays_calendar(file: pq.ParquetFile) -> bool:
    """Tell whether a file says that its days are those of today's calendar, however far back."""
    told = file.metadata.metadata or {}
    version = _WRITER.match(told.get(b"org.apache.spark.version", b""))
    if version is None or any(mark in told for mark in _OF_JULIAN_DAYS):
        return False
    return (int(version[1]), int(version[2])) >= _FIRST_GREGORIAN

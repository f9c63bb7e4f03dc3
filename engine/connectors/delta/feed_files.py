"""A small range of a change data feed, read from its files by Arrow: a job of Spark takes a quarter of a second for it.

Method: Delta's protocol. The changes of a version are the rows of its change files, each of which says what it is; of a version
that has none they are the rows of the files that it added or removed. Spark reads what asks for more of a reader: removed files,
deletion vectors, partitions, mapped columns, types that were widened, and times of another calendar.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.arrow import to_mask
from engine.connectors.delta.file_changes import DataFile
from engine.connectors.delta.files import has_columns
from engine.connectors.delta.log import DeltaCommit, DeltaLog, Metadata
from engine.connectors.delta.steps import DeltaStep
from engine.connectors.delta.types import has_plain_values
from engine.connectors.delta.values import MatchedColumn
from engine.errors import SourceError, StorageError
from engine.runtime.writes.spill import PLACE
from engine.sql.catalog import Relation, RelationColumn
from engine.sql.expression.spark_sql import quote
from engine.sql.typing.types import to_arrow

MOST_FILES = 100
"""So many files are read by the process that polls, one after another."""
_KIND = RelationColumn("_change_type", "string")
_COMES = pa.array(["insert", "update_postimage"])
_GOES = pa.array(["delete", "update_preimage"])


class NotPlain(Exception):
    """A feed holds what Spark has to read."""


def read_feed_files(
    log: DeltaLog, relation: Relation, step: DeltaStep, columns: Mapping[str, MatchedColumn], most_rows: int
) -> pa.Table | None:
    """Return what the versions of a step have changed, with the place of each change; None where Spark has to read it."""
    try:
        _check_columns(step.then.metadata, columns)
        named = [(column, columns[column.name].name) for column in relation.visible_columns]
        schema = pa.schema([*((c.name, to_arrow(c.type)) for c, _ in named), (PLACE, pa.int64())])
        files = [(commit, file) for commit in step.commits for file in _list_files(commit)]
        if len(files) > MOST_FILES or any(file.size is None for _, file in files):
            return None
        found, rows = [schema.empty_table()], 0
        for commit, file in files:
            opened = _open_file(log, file)
            rows += opened.metadata.num_rows
            if rows > most_rows:
                return None
            found.append(_read_changes(opened, named, commit, schema))
        return pa.concat_tables(found)
    except (NotPlain, pa.ArrowException, OSError, StorageError, SourceError):
        return None  # Spark reads it, or says why it cannot


def _check_columns(metadata: Metadata, columns: Mapping[str, MatchedColumn]) -> None:
    """Raise NotPlain if values are not in the files as they are taken."""
    if metadata.is_mapped or metadata.partition_columns or not has_plain_values(metadata.schema_string):
        raise NotPlain
    if any(matched.unfit or matched.value != quote(matched.name) for matched in columns.values()):
        raise NotPlain


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


def _read_changes(
    file: pq.ParquetFile, named: Sequence[tuple[RelationColumn, str]], commit: DeltaCommit, schema: pa.Schema
) -> pa.Table:
    """Return the rows of a file of a version, with their places."""
    told = [(_KIND, _KIND.name)] if commit.feed else []
    if not has_columns(file.metadata, [*named, *told]):
        raise NotPlain
    whole = file.read(columns=[name for _, name in (*named, *told)])
    whole.validate(full=True)  # a text that is none is Spark's to read
    comes = _find_coming(whole.column(_KIND.name)) if commit.feed else np.ones(whole.num_rows, dtype=bool)
    places = pa.chunked_array([pa.array(commit.version * 2 + comes.astype(np.int64))])
    arrays = [whole.column(name).cast(schema.field(column.name).type) for column, name in named]
    return pa.Table.from_arrays([*arrays, places], schema=schema)


def _find_coming(kinds: pa.ChunkedArray[Any]) -> np.ndarray:
    """Tell of which changes the row is one that comes."""
    comes, goes = (to_mask(pc.is_in(kinds, value_set=words)) for words in (_COMES, _GOES))
    if not (comes | goes).all():
        raise NotPlain
    return comes

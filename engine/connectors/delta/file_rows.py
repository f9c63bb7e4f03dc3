"""The rows that came and went with the files of a Delta table, as Spark frames, for versions that have no change data feed.

Files are read as Parquet, as Delta itself reads them: columns by their physical names or numbers, values of partitions from the
log, rows without those that a deletion vector hides. Where the table tracks its rows, those that a commit has only written again
are known by their ids and versions, and are not compared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from engine.connectors.delta.file_changes import DataFile, FileChanges, have_row_ids
from engine.connectors.delta.frames import has_row_ids, render_columns, render_reasons, render_row_ids
from engine.connectors.delta.log import DeltaLog, Metadata
from engine.connectors.delta.steps import DeltaPosition
from engine.connectors.delta.types import (
    COLUMN_ID,
    find_physical_name,
    has_plain_values,
    list_fields,
    parse_schema,
)
from engine.connectors.delta.values import MatchedColumn, match_column
from engine.connectors.delta.vectors import decode_rows
from engine.errors import SourceError
from engine.runtime.rows import create_frame
from engine.runtime.writes.change_tasks import COMES
from engine.runtime.writes.spill import PLACE
from engine.sql.catalog import Relation
from engine.sql.column_names import ADDED
from engine.sql.expression.spark_sql import quote
from engine.sql.typing.types import quote_type

MOST_HIDDEN = 5_000_000
"""So many rows that vectors hide are told apart by their numbers; versions with more are compared as a whole."""
BROADCAST_ROWS = 1_000_000
"""Numbers of so many rows are handed to each task; more are spread."""
_NUMBER, _ROW, _FILE, _ID, _VERSION, _PART = (
    f"{ADDED}{part}" for part in ("number", "row", "file", "id", "version", "part")
)
_READING = {
    "recursiveFileLookup": "true",
    "__globPaths__": "false",
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
}
"""How Spark is to read files: partitions are those of the log, names are no patterns, and what can't be read is told."""


class FilesNotFollowed(SourceError):
    """The files of a Delta table do not tell, to this reader, in what two versions differ."""


class ChangedRows(NamedTuple):
    """Rows with their places: those that went, and those that came.

    `compares` tells that some of them may be the same, `tracked` that they are few beside the rows of their files.
    """

    rows: DataFrame
    compares: bool
    tracked: bool


@dataclass(frozen=True)
class FileVersions:
    """Two versions of a Delta table whose files are compared, and how the columns of a table are taken at the later one."""

    log: DeltaLog
    relation: Relation
    before: DeltaPosition
    then: DeltaPosition
    columns: Mapping[str, MatchedColumn]


def read_changed_rows(
    session: SparkSession, versions: FileVersions, changes: FileChanges, *, whole: bool
) -> ChangedRows:
    """Return the rows that differ; of those that went the key alone if nothing is compared, unless `whole` rows are asked for.

    Raises FilesNotFollowed where the files cannot be read so.
    """
    before, then, log, relation = versions.before, versions.then, versions.log, versions.relation
    gone, come = changes.list_gone(), changes.list_come()
    tracked = is_tracked(before.metadata, then.metadata, changes)
    by_id = has_row_ids(relation)
    if by_id and not (tracked and have_row_ids(changes.iterate_files())):
        raise FilesNotFollowed("its row tracking is off, or not all of its files tell the ids of their rows")
    known = tracked and not changes.brings_back  # else an old version of a row is no sign that it was there
    fresh = [f for f in come if known and (f.default_row_commit_version or 0) > before.version]
    again = [f for f in come if f not in fresh]
    compares = bool(gone and again)
    shown = _decode_changes(log, changes)
    was = match_known_columns(relation, before.metadata, versions.columns)
    lacking = [name for name in _list_keys(relation) if name not in was]
    if lacking:
        raise FilesNotFollowed(f"the Delta table had no column {lacking[0]}, of the key, or another one")
    keys = (
        _list_keys(relation) if not (whole or compares) else tuple(c.name for c in relation.visible_columns)
    )
    old = FileReader(session, log, before.metadata, tuple(was[name].name for name in keys if name in was))
    new = FileReader(session, log, then.metadata, tuple(c.name for c in versions.columns.values()))
    went, came = list[DataFrame](), list[DataFrame]()
    if gone:
        went.append(old.read_rows(gone, tracked=by_id or bool(fresh)))
    if shown.went:
        went.append(old.read_some(shown.went, tracked=by_id or bool(fresh)))
    if fresh:  # a row that went from one place may have been copied to another
        ids = FileReader(session, log, then.metadata, ())
        copied = ids.read_rows(fresh, tracked=True).where(f"{_VERSION} <= {before.version}")
        went = [rows.join(copied, [_ID, _VERSION], "left_anti") for rows in went]
        came.append(new.read_rows(fresh, tracked=True).where(f"{_VERSION} > {before.version}"))
    if again:
        came.append(new.read_rows(again, tracked=by_id))
    if shown.came:
        came.append(new.read_some(shown.came, tracked=by_id))
    frames = [
        *(_render_gone(rows, relation, {name: was.get(name) for name in keys}, compares) for rows in went),
        *(
            rows.selectExpr(
                *render_columns(relation, versions.columns),
                *render_row_ids(relation, _ID),
                *render_reasons(relation, versions.columns, "TRUE"),
                f"CAST({COMES} AS BIGINT) AS {PLACE}",
            )
            for rows in came
        ),
    ]
    return ChangedRows(
        reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), frames),
        compares,
        bool(fresh) and not again,
    )


def is_tracked(before: Metadata, then: Metadata, changes: FileChanges) -> bool:
    """Tell whether rows of files that came and went are known by their ids and versions."""
    told = all(m.tracks_rows and all(m.row_columns) for m in (before, then))
    return told and have_row_ids((*changes.list_come(), *changes.list_gone()))


def match_known_columns(
    relation: Relation, metadata: Metadata, columns: Mapping[str, MatchedColumn]
) -> dict[str, MatchedColumn]:
    """Return how the columns of a table are taken at an earlier version; one that was not there, or was another, is left out."""
    there = {column.name.lower(): column for column in parse_schema(metadata.schema_string)}
    found = {}
    for name, column in columns.items():
        was = there.get(column.name.lower())  # which may have been written in another case
        matched = None if was is None else match_column(was, column.type)
        if matched is not None:
            found[name] = matched
    return found


class _ShownRows(NamedTuple):
    """Files of both versions, each with the numbers of its rows that only the earlier, or only the later one has."""

    went: list[tuple[DataFile, np.ndarray]]
    came: list[tuple[DataFile, np.ndarray]]


def _decode_changes(log: DeltaLog, changes: FileChanges) -> _ShownRows:
    found = _ShownRows([], [])
    for old, new in changes.list_changed():
        hidden = [_decode_hidden(log, file) for file in (old, new)]
        for file, rows, target in (
            (old, np.setdiff1d(hidden[1], hidden[0], assume_unique=True), found.went),
            (new, np.setdiff1d(hidden[0], hidden[1], assume_unique=True), found.came),
        ):
            if len(rows):
                target.append((file, rows))
    return found


def _decode_hidden(log: DeltaLog, file: DataFile) -> np.ndarray:
    vector = file.deletion_vector
    if vector is None:
        return np.zeros(0, dtype=np.int64)
    if vector.cardinality > MOST_HIDDEN:
        raise FilesNotFollowed(f"more than {MOST_HIDDEN:,} rows of {file.path} are deleted")
    try:
        if not vector.is_inline:
            log.place.check_files([path for path in [vector.path] if path.startswith(("/", "file:"))])
        return decode_rows(log.read_vector(vector))
    except SourceError as error:
        raise FilesNotFollowed(str(error)) from error


def _list_keys(relation: Relation) -> tuple[str, ...]:
    return tuple(c.name for c in relation.columns if c.storage_name in relation.primary_key and not c.hidden)


def _render_gone(
    rows: DataFrame, relation: Relation, taken: Mapping[str, MatchedColumn | None], compares: bool
) -> DataFrame:
    """Return rows that went in the columns of a table; one that is not taken, or was not there, is null."""
    known = {name: column for name, column in taken.items() if column is not None}
    items = {column.name: f"CAST(NULL AS {quote_type(column.type)})" for column in relation.visible_columns}
    items |= {name: column.item for name, column in known.items()}
    reasons = render_reasons(relation, known, "TRUE" if compares else "FALSE")
    named = [f"{item} AS {quote(name)}" for name, item in items.items()]
    named += render_row_ids(relation, _ID)
    return rows.selectExpr(*named, *reasons, f"CAST(0 AS BIGINT) AS {PLACE}")


@dataclass(frozen=True)
class FileReader:
    """Reads rows of files that a version of a Delta table names, in those of its columns that are asked for."""

    session: SparkSession
    log: DeltaLog
    metadata: Metadata
    columns: tuple[str, ...]

    def read_rows(self, files: Sequence[DataFile], *, tracked: bool = False) -> DataFrame:
        """Return the rows of files that their vectors do not hide; `tracked` with the id and the version of each."""
        hidden = [(n, _decode_hidden(self.log, file)) for n, file in enumerate(files)]
        hidden = [(n, rows) for n, rows in hidden if len(rows)]
        frame = self._open(files, numbered=bool(hidden), tracked=tracked)
        if not hidden:
            return frame
        return frame.join(self._frame_numbers(hidden), [_NUMBER, _ROW], "left_anti")

    def read_some(self, some: Sequence[tuple[DataFile, np.ndarray]], *, tracked: bool) -> DataFrame:
        """Return those rows of files whose numbers are given."""
        frame = self._open([file for file, _ in some], numbered=True, tracked=tracked)
        numbers = self._frame_numbers([(n, rows) for n, (_, rows) in enumerate(some)])
        return frame.join(numbers, [_NUMBER, _ROW], "left_semi")

    def _frame_numbers(self, rows: Sequence[tuple[int, np.ndarray]]) -> DataFrame:
        count = sum(len(each) for _, each in rows)
        if count > MOST_HIDDEN:
            raise FilesNotFollowed(f"more than {MOST_HIDDEN:,} rows of its files are deleted")
        numbers = np.repeat([n for n, _ in rows], [len(each) for _, each in rows]).astype(np.int32)
        table = pa.table(
            {_NUMBER: pa.array(numbers), _ROW: pa.array(np.concatenate([each for _, each in rows]))}
        )
        frame = create_frame(self.session, table)
        return F.broadcast(frame) if count <= BROADCAST_ROWS else frame

    def _open(self, files: Sequence[DataFile], *, numbered: bool, tracked: bool) -> DataFrame:
        """Return all rows of files, with their numbers, the file's and the row's, if these are asked for."""
        fields = {field["name"]: field for field in list_fields(self.metadata.schema_string)}
        inside = [fields[name] for name in self.columns if name not in self.metadata.partition_columns]
        parts = [fields[name] for name in self.columns if name in self.metadata.partition_columns]
        frame, texts = self._read_files(files, inside, tracked=tracked)
        items = [self._render_column(field) for field in inside]
        if not (numbered or tracked or parts):
            return frame.selectExpr(*items)
        told: dict[str, Any] = {
            _FILE: texts,
            _NUMBER: pa.array(range(len(files)), pa.int32()),
            _ID: pa.array([file.base_row_id for file in files], pa.int64()),
            _VERSION: pa.array([file.default_row_commit_version for file in files], pa.int64()),
        }
        for n, field in enumerate(parts):
            values = [_find_partition_value(file, find_physical_name(field)) for file in files]
            told[f"{_PART}{n}"] = pa.array(values, pa.string())
        placed = frame.withColumns(
            {_FILE: F.expr("_metadata.file_path"), _ROW: F.expr("_metadata.row_index")}
        )
        joined = placed.join(F.broadcast(create_frame(self.session, pa.table(told))), _FILE, "left")
        lost = f"raise_error(concat('the log names no such file: ', {_FILE}))"

        def require_file(item: str) -> str:  # each looks itself: an item that nobody asks for is not computed
            return f"IF({_NUMBER} IS NULL, {lost}, {item})"

        items += [
            f"CAST({require_file(f'{_PART}{n}')} AS {render_type(field['type'])}) AS {quote(field['name'])}"
            for n, field in enumerate(parts)
        ]
        items += [f"CAST({require_file(_NUMBER)} AS INT) AS {_NUMBER}", _ROW]
        if tracked:
            ids, versions = (quote(name) for name in self.metadata.row_columns)
            for column, value in (
                (_ID, f"coalesce({ids}, {_ID} + {_ROW})"),
                (_VERSION, f"coalesce({versions}, {_VERSION})"),
            ):
                items.append(f"CAST({require_file(value)} AS BIGINT) AS {column}")
        return joined.selectExpr(*items)

    def _read_files(
        self, files: Sequence[DataFile], fields: Sequence[Mapping[str, Any]], *, tracked: bool
    ) -> tuple[DataFrame, list[str]]:
        """Return files as Spark reads Parquet, and what each is called in `_metadata.file_path`."""
        mapping = self.metadata.mapping
        kept = self._list_stored(fields, tracked=tracked)
        schema = StructType.fromJson(
            {"type": "struct", "fields": [_build_physical(field, mapping) for field in kept]}
        )
        places = [self._locate(file) for file in files]
        frame = self.session.read.schema(schema).options(**_READING).parquet(*places)
        found = [re.sub(r"^file:/+", "file:/", name) for name in frame.inputFiles()]
        self.log.place.check_files(found)
        by_place = {unquote(name): name for name in found}
        if by_place.keys() != {*places}:
            raise FilesNotFollowed("Spark finds other files than the log names")
        return frame, [by_place[place] for place in places]

    def _list_stored(
        self, fields: Sequence[Mapping[str, Any]], *, tracked: bool
    ) -> Sequence[Mapping[str, Any]]:
        if not all(has_plain_values(msgspec.json.encode(field).decode()) for field in fields):
            raise FilesNotFollowed("a column is of a type CHAR, VARCHAR, or has a collation")
        if any(find_physical_name(field).lower() == "_metadata" for field in fields):
            raise FilesNotFollowed("a column is called _metadata, as what Spark tells of a file")
        own = self.metadata.row_columns if tracked else ()
        return [*fields, *({"name": name, "type": "long", "metadata": {}} for name in own)]

    def _locate(self, file: DataFile) -> str:
        """Return where a file is, as Spark takes it."""
        parts = urlsplit(file.path)
        if parts.scheme in ("s3", "s3a", "s3n"):
            return f"s3a://{unquote(file.path.partition('://')[2])}"
        if parts.scheme == "file" or (not parts.scheme and file.path.startswith("/")):
            return f"file:{unquote(parts.path)}"
        if parts.scheme:
            raise FilesNotFollowed(f"{file.path} is at an address that is not known here")
        return f"{self.log.place.spark}/{unquote(file.path)}"

    def _render_column(self, field: Mapping[str, Any]) -> str:
        """Return a column as Spark SQL over the file's, with the names that the table has, also of what is in it."""
        physical, name = quote(find_physical_name(field)), quote(field["name"])
        if not self.metadata.is_mapped or isinstance(field["type"], str):
            return f"{physical} AS {name}"
        return f"CAST({physical} AS {render_type(field['type'])}) AS {name}"


def _find_partition_value(file: DataFile, name: str) -> str | None:
    if file.partition_values is None:
        raise FilesNotFollowed(f"the log does not tell of which partition {file.path} was")
    return file.partition_values.get(name) or None  # the log may leave nulls out


def render_type(kind: Any) -> str:
    """Return a type, as a log has it, in Spark SQL."""
    if isinstance(kind, str):
        return {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}.get(kind, kind)
    if kind["type"] == "struct":
        fields = (f"{quote(field['name'])}: {render_type(field['type'])}" for field in kind["fields"])
        return f"struct<{', '.join(fields)}>"
    if kind["type"] == "map":
        return f"map<{render_type(kind['keyType'])}, {render_type(kind['valueType'])}>"
    return f"array<{render_type(kind['elementType'])}>"


def _build_physical(field: Mapping[str, Any], mapping: str) -> dict[str, Any]:
    """Return a field of a schema as files hold it."""
    metadata = field.get("metadata") or {}
    named = {"parquet.field.id": metadata[COLUMN_ID]} if mapping == "id" and COLUMN_ID in metadata else {}
    kind = _build_physical_type(field["type"], mapping)
    return {"name": find_physical_name(field), "type": kind, "nullable": True, "metadata": named}


def _build_physical_type(kind: Any, mapping: str) -> Any:
    if isinstance(kind, str):
        return kind
    if kind["type"] == "struct":
        return {**kind, "fields": [_build_physical(field, mapping) for field in kind["fields"]]}
    parts = ("elementType", "keyType", "valueType")
    return {**kind, **{part: _build_physical_type(kind[part], mapping) for part in parts if part in kind}}

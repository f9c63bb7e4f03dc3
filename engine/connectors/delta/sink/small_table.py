"""Few changes of a small Delta table, merged or appended in this process by delta-rs: a MERGE of Spark takes seconds for them.

Method: MERGE with copy-on-write, as Spark's. A commit carries the transaction of the sink, as Spark's idempotent writes do, so
that a range counts once, whichever of the two has written it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import (
    ColumnProperties,
    CommitProperties,
    DeltaTable,
    PostCommitHookProperties,
    Transaction,
    WriterProperties,
    write_deltalake,
)
from deltalake.exceptions import CommitFailedError, DeltaError

from engine.connectors.delta.sink.changes import CODE, name_column
from engine.connectors.delta.sink.panics import panics_as_errors
from engine.connectors.delta.sink.tables import OWNER, to_spark_path
from engine.errors import Conflict
from engine.log_store.changes import DELETE
from engine.sql.catalog import RelationColumn
from engine.sql.typing.types import to_arrow

MOST_BYTES = 32 << 20
"""How large the files of a table may be that is written here; larger ones are rewritten by Spark's tasks."""
CHECKPOINT_VERSIONS = 10
"""After so many versions the log gets a checkpoint, as Spark's writers make them."""
_FEATURES = {"appendOnly", "invariants", "timestampNtz"}
_LOG_RETENTION = "delta.logRetentionDuration"
_SETTINGS = {_LOG_RETENTION, "delta.checkpointInterval"}
_NOT_A_NAME = re.compile(r"\.|^__delta_rs_")
"""Columns with a dot are mistaken for fields by readers of Parquet that look for words in a file's dictionary; others are
delta-rs's own."""
_BOUNDED = (pa.types.is_integer, pa.types.is_boolean, pa.types.is_string)
"""Columns whose least and largest values are written: of the others delta-rs's are not Spark's (it has no NaN among them, floats
for decimals, milliseconds for times, and no day after the year 262,000)."""
_KEYS = (*_BOUNDED, pa.types.is_date, pa.types.is_decimal, pa.types.is_timestamp, pa.types.is_binary)
"""Columns whose values are equal to DataFusion where they are to Spark; of floating point numbers the zeros are not."""
_LOG = logging.getLogger(__name__)


class SmallTable:
    """A sink's own Delta table, with the columns of its view, that is small enough to be written in this process."""

    def __init__(self, table: DeltaTable, columns: Sequence[RelationColumn], app: str) -> None:
        self._table, self._columns, self._app = table, columns, app

    @classmethod
    def open(cls, url: str, columns: Sequence[RelationColumn], app: str) -> SmallTable | None:
        """Open the table of a sink in a local folder; None if it is to be written by Spark, which says what is wrong with it."""
        if not url.startswith("file:") or "%" in to_spark_path(url):  # of which delta-rs makes other names
            return None
        try:
            with panics_as_errors():
                table = DeltaTable(to_spark_path(url))
                fits = (
                    _is_plain(table, app)
                    and _has_columns(table, columns)
                    and _measure(table) <= MOST_BYTES
                    and not _has_wrapped_times(table, columns)
                )
        except (DeltaError, OSError, pa.ArrowException) as reason:
            # it is not there, or has what delta-rs does not know
            _LOG.debug("%s is left to Spark: %s", url, reason)
            return None
        return cls(table, columns, app) if fits else None

    def has(self, number: int) -> bool:
        """Tell whether the table has the sink's transaction of this number, or a later one."""
        version = self._table.transaction_version(self._app)
        return version is not None and version >= number

    def merge(self, changes: pa.Table, key: Sequence[str], number: int, comment: str) -> int:
        """Bring net changes to the rows with their `key`; return how many rows became others. Raises Conflict."""
        own = "_"
        while any(column.name.startswith(own) for column in self._columns):
            own += "_"
        names = {column.name: f"{own}{name_column(n)}" for n, column in enumerate(self._columns)}
        given = changes.rename_columns([f"{own}{name}" for name in changes.column_names])
        code = f"s.{own}{CODE}"
        meet = [
            f"(t.{_quote(name)} {'IS NOT DISTINCT FROM' if given.column(new).null_count else '='} s.{new})"
            for name, new in names.items()
            if name in key
        ]
        values = {_quote(name): f"s.{new}" for name, new in names.items()}
        merging = self._table.merge(
            given,
            " AND ".join(meet) or "TRUE",
            source_alias="s",
            target_alias="t",
            writer_properties=self._build_properties(),
            commit_properties=self._begin(number, comment),
            post_commithook_properties=_NO_HOOKS,
        )
        merging = merging.when_matched_delete(f"{code} = {DELETE}").when_matched_update(values)
        with self._commit():
            done = merging.when_not_matched_insert(values, f"{code} <> {DELETE}").execute()
        return sum(int(done[f"num_target_rows_{what}"]) for what in ("inserted", "updated", "deleted"))

    def append(self, changes: pa.Table, number: int, comment: str) -> int:
        """Add the rows that changes bring; return how many. Raises Conflict."""
        stays = pc.not_equal(changes.column(CODE), pa.scalar(DELETE, pa.int8()))
        rows = changes.filter(stays).drop_columns([CODE])
        with self._commit():
            write_deltalake(
                self._table,
                rows.rename_columns([column.name for column in self._columns]),
                mode="append",
                writer_properties=self._build_properties(),
                commit_properties=self._begin(number, comment),
                post_commithook_properties=_NO_HOOKS,
            )
        return rows.num_rows

    def _begin(self, number: int, comment: str) -> CommitProperties:
        return CommitProperties(
            custom_metadata={"userMetadata": comment},
            max_commit_retries=0,
            app_transactions=[Transaction(self._app, number)],
        )

    def _build_properties(self) -> WriterProperties:
        bounded = {
            column.name: ColumnProperties(statistics_enabled="CHUNK")
            for column in self._columns
            if _is_one_of(to_arrow(column.type), _BOUNDED)
        }
        nothing = ColumnProperties(statistics_enabled="NONE")
        return WriterProperties(
            compression="SNAPPY", default_column_properties=nothing, column_properties=bounded
        )

    @contextmanager
    def _commit(self) -> Iterator[None]:
        """Look after the log once a commit is made; raises Conflict if there is another one in its place."""
        try:
            with panics_as_errors():
                yield
        except CommitFailedError as reason:
            uri = self._table.table_uri
            if DeltaTable(uri).version() > self._table.version():
                raise Conflict(f"another has written {uri} at the same time") from reason
            raise
        self._tidy_log()

    def _tidy_log(self) -> None:
        """Shorten what readers of the log have to read; where that fails, the next version's writer does it.

        Where somebody has said how long the log is kept, Spark deletes what is older: delta-rs does not know all words of that.
        """
        try:
            with panics_as_errors():
                self._table.update_incremental()
                if self._table.version() % CHECKPOINT_VERSIONS == 0:
                    self._table.create_checkpoint()
                    if _LOG_RETENTION not in self._table.metadata().configuration:
                        self._table.cleanup_metadata()
        except (DeltaError, OSError) as reason:
            _LOG.warning("the log of %s got no checkpoint: %s", self._table.table_uri, reason)


_NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
"""A commit is not to fail by what comes after it."""


def may_be_key(column: RelationColumn) -> bool:
    """Tell whether rows are found by a column here as Spark finds them."""
    return _is_one_of(to_arrow(column.type), _KEYS)


def _is_plain(table: DeltaTable, app: str) -> bool:
    """Tell whether a table is the sink's own, whole, and without features that a writer has to heed."""
    metadata, protocol = table.metadata(), table.protocol()
    settings = {name for name in metadata.configuration if name.startswith("delta.")}
    features = {*(protocol.writer_features or ()), *(protocol.reader_features or ())}
    return (
        metadata.configuration.get(OWNER) == app
        and not metadata.partition_columns
        and settings <= _SETTINGS
        and (protocol.min_writer_version <= 2 or (protocol.min_writer_version == 7 and features <= _FEATURES))
    )


def _has_columns(table: DeltaTable, columns: Sequence[RelationColumn]) -> bool:
    """Tell whether a table has the columns of a view and no others, without rules of their own."""
    there = table.schema()
    exported: Any = there.to_arrow()
    types = pa.schema(exported)
    return (
        types.names == [column.name for column in columns]
        and not any(map(_NOT_A_NAME.search, types.names))
        and all(field.nullable and not field.metadata for field in there.fields)
        and all(types.field(column.name).type == to_arrow(column.type) for column in columns)
    )


def _measure(table: DeltaTable) -> int:
    """Return the bytes of a table's files."""
    files = pa.table(table.get_add_actions(flatten=True))
    return int(pc.sum(files.column("size_bytes")).as_py() or 0)


def _has_wrapped_times(table: DeltaTable, columns: Sequence[RelationColumn]) -> bool:
    """Tell whether a file has times of 96 bits, as Spark wrote them for long: delta-rs makes nanoseconds of 64 bits of them."""
    if not any("timestamp" in column.type for column in columns):
        return False
    schemas = (pq.read_metadata(unquote(path)).schema for path in table.file_uris())
    return any(schema.column(n).physical_type == "INT96" for schema in schemas for n in range(len(schema)))


def _is_one_of(kind: pa.DataType, tests: Sequence[Callable[[pa.DataType], bool]]) -> bool:
    return any(test(kind) for test in tests)


def _quote(name: str) -> str:
    """Return a column's name as SQL of DataFusion."""
    return '"' + name.replace('"', '""') + '"'

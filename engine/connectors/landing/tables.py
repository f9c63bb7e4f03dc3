"""The two system tables of the landing source: which files were taken, and the rows that were set aside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.hummock import Commit, Hummock, Table, Version
from engine.hummock.manifests.alter import apply_alter
from engine.hummock.manifests.preconditions import require_unaltered
from engine.hummock.transact import commit_once
from engine.meta.status.dead_letters import (
    DEAD_LETTER_COLUMNS,
    DEAD_LETTER_TABLE,
    build_arrow_schema,
    create_system_table,
    describe_system_table,
)

FILES = "_landing_files"
CHANGED_FILE_LINE = -1

FILES_COLUMNS = {
    "source": "string",
    "path": "string",
    "table_id": "bigint",
    "size": "bigint",
    "mtime_ns": "bigint",
    "seen_size": "bigint",
    "seen_mtime_ns": "bigint",
    "rows": "bigint",
    "dead_rows": "bigint",
    "position": "bigint",
    "seen_etag": "string",
}
FILES_SCHEMA = build_arrow_schema(FILES_COLUMNS)
TABLES = (
    (Table(FILES, FILES_SCHEMA, ("source", "path"), ()), FILES_COLUMNS),
    (DEAD_LETTER_TABLE, DEAD_LETTER_COLUMNS),
)


@dataclass(frozen=True)
class FileRecord:
    """The record of a file: what it was when it was taken, and what it was when it was last looked at.

    `table_id` tells a table from one of the same name that was dropped before it. `position` is None once the file is taken as a
    whole; while a large one is half taken, its first `position` records are, and the next commit goes on behind them. Whether it
    is still the same file tells `seen_etag`, of one in a folder, which has none, its time.
    """

    source: str
    path: str
    table_id: int
    size: int
    mtime_ns: int
    seen_size: int
    seen_mtime_ns: int
    rows: int
    dead_rows: int
    position: int | None = None
    seen_etag: str | None = None


def ensure_landing_tables(store: Hummock) -> None:
    """Create the system tables where they are missing, and add columns that they lack; SQL reads them as any table."""
    for table, columns in TABLES:
        create_system_table(store, table, columns)
        commit_once(store, partial(_add_columns, store, table, columns))


def _add_columns(store: Hummock, table: Table, columns: Mapping[str, str]) -> None:
    """Add the columns that a system table of an earlier version lacks."""
    known = store.version.tables[table.name]
    if lacking := [field for field in table.schema if field.name not in known.schema.names]:
        described, changed = describe_system_table(table, columns), apply_alter(known.table, lacking)
        store.commit(
            Commit(alter={table.name: changed}, catalog=described, precondition=require_unaltered(known))
        )


def find_file_records(
    store: Hummock, version: Version, source: str, table_id: int, paths: Sequence[str]
) -> dict[str, FileRecord]:
    """Return the records of those of these files that were taken for a table, by path; costs what is asked for."""
    records = version.tables.get(FILES)
    if records is None or not paths:
        return {}
    keys = pa.table({"source": pa.repeat(source, len(paths)), "path": pa.array(paths, pa.string())})
    _, found = store.reader.lookup(records, keys, records.committed_epoch)
    return {row["path"]: parse_record(row) for row in found.to_pylist() if row["table_id"] == table_id}


def parse_record(row: Mapping[str, Any]) -> FileRecord:
    """Return a row of the files table as a record."""
    fields: dict[str, Any] = {name: row.get(name) for name in FILES_SCHEMA.names}
    return FileRecord(**fields)


def read_file_records(store: Hummock, source: str, table_id: int) -> pa.Table:
    """Return path, size, time and etag of all files that were taken as a whole for a table, as they were last seen."""
    columns = ["path", "table_id", "seen_size", "seen_mtime_ns"]
    empty = pa.table({name: pa.array([], FILES_SCHEMA.field(name).type) for name in [*columns, "seen_etag"]})
    records = store.version.tables.get(FILES)
    if records is None:
        return empty
    there = [*columns, *(name for name in ("position", "seen_etag") if name in records.schema.names)]
    batches = list(store.iter(FILES, prefix={"source": source}, columns=there))
    if not batches:
        return empty
    found = pa.Table.from_batches(batches, batches[0].schema)
    mine = pc.equal(found.column("table_id"), pa.scalar(table_id, pa.int64()))
    if "position" in there:
        mine = pc.and_(mine, pc.is_null(found.column("position")))
    if "seen_etag" not in there:  # of a store that knew no buckets
        found = found.append_column("seen_etag", pa.nulls(found.num_rows, pa.string()))
    return found.filter(mine).select(empty.column_names)


def build_record_rows(records: list[FileRecord]) -> pa.Table:
    """Return records as rows of the files table."""
    return pa.Table.from_pylist(
        [{name: getattr(record, name) for name in FILES_SCHEMA.names} for record in records], FILES_SCHEMA
    )

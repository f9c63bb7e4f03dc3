"""The two system tables of the landing source: which files were taken, and the rows that were set aside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from engine.errors import Conflict, TableExists
from engine.hummock import Commit, Hummock, Table, Version
from engine.meta.catalog_store import entries
from engine.sql.catalog import Column, Relation
from engine.sql.types import to_arrow

FILES = "_landing_files"
DEAD_LETTER = "_dead_letter"
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
}
DEAD_LETTER_COLUMNS = {
    "source": "string",
    "file": "string",
    "line": "bigint",
    "reason": "string",
    "raw": "string",
}


def _schema(columns: Mapping[str, str]) -> pa.Schema:
    return pa.schema([(name, to_arrow(kind)) for name, kind in columns.items()])


FILES_SCHEMA = _schema(FILES_COLUMNS)
DEAD_LETTER_SCHEMA = _schema(DEAD_LETTER_COLUMNS)
TABLES = (
    (Table(FILES, FILES_SCHEMA, ("source", "path"), ()), FILES_COLUMNS),
    (Table(DEAD_LETTER, DEAD_LETTER_SCHEMA, ("source", "file", "line"), ()), DEAD_LETTER_COLUMNS),
)


@dataclass(frozen=True)
class TakenFile:
    """The record of a file: what it was when it was taken, and what it was when it was last looked at.

    `table_id` tells a table from one of the same name that was dropped before it.
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


def ensure_tables(store: Hummock) -> None:
    """Create the system tables where they are missing; they can be read by SQL as any table."""
    for table, columns in TABLES:
        if table.name in store.version.tables:
            continue
        try:
            described = entries({table.name: _relation(table, columns)}, {})
            store.commit(Commit(create=(table,), catalog=described, precondition=_absent(table)))
        except (TableExists, Conflict):
            store.refresh()  # another poller was faster


def taken_files(store: Hummock, source: str, table_id: int) -> dict[str, TakenFile]:
    """Return the records of the files that were taken for a table, by path."""
    if FILES not in store.version.tables:
        return {}
    found = {}
    for batch in store.iter(FILES, prefix={"source": source}):
        for row in batch.select(FILES_SCHEMA.names).to_pylist():
            if row["table_id"] == table_id:
                found[row["path"]] = TakenFile(**row)
    return found


def rows_of(records: list[TakenFile]) -> pa.Table:
    """Return records as rows of the files table."""
    return pa.Table.from_pylist(
        [{name: getattr(record, name) for name in FILES_SCHEMA.names} for record in records], FILES_SCHEMA
    )


def _relation(table: Table, columns: Mapping[str, str]) -> Relation:
    return Relation(
        name=table.name,
        kind="table",
        columns=tuple(Column(name, kind, name not in table.primary_key) for name, kind in columns.items()),
        primary_key=table.primary_key,
    )


def _absent(table: Table) -> Callable[[Version], None]:
    def check(version: Version) -> None:
        if table.name in version.tables:
            raise Conflict(f"{table.name} was created by another process at the same time")

    return check


def source_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return a relation's options with lower-case names."""
    return {name.lower(): value for name, value in options.items()}

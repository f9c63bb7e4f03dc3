"""The table of rows that were set aside: whose they are, where they came from, why, and as they were written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pyarrow as pa

from engine.errors import TableExists
from engine.hummock import Commit, Hummock, Table
from engine.hummock.manifests.preconditions import require_absent_table
from engine.hummock.transact import commit_once
from engine.meta.catalog.stored_catalog import encode_entries
from engine.sql.catalog import Relation, RelationColumn
from engine.sql.typing.types import to_arrow

DEAD_LETTER = "_dead_letter"
DEAD_LETTER_COLUMNS = {
    "source": "string",
    "file": "string",
    "line": "bigint",
    "reason": "string",
    "raw": "string",
}


def build_arrow_schema(columns: Mapping[str, str]) -> pa.Schema:
    """Return the Arrow schema of a system table's columns, which are Spark types by name."""
    return pa.schema([(name, to_arrow(kind)) for name, kind in columns.items()])


DEAD_LETTER_SCHEMA = build_arrow_schema(DEAD_LETTER_COLUMNS)
DEAD_LETTER_TABLE = Table(DEAD_LETTER, DEAD_LETTER_SCHEMA, ("source", "file", "line"), ())


class DeadLetter(NamedTuple):
    """A row that was set aside: where it came from, at which line of it, why, and as it was written."""

    file: str
    line: int
    reason: str
    raw: str


def build_letter_rows(source: str, letters: Iterable[DeadLetter]) -> pa.Table:
    """Return letters of one source as rows of the table."""
    rows = [{"source": source, **letter._asdict()} for letter in letters]
    return pa.Table.from_pylist(rows, DEAD_LETTER_SCHEMA)


def describe_system_table(table: Table, columns: Mapping[str, str]) -> dict[str, str | None]:
    """Return the catalog entry that shows a system table to SQL."""
    relation = Relation(
        name=table.name,
        kind="table",
        columns=tuple(
            RelationColumn(name, kind, name not in table.primary_key) for name, kind in columns.items()
        ),
        primary_key=table.primary_key,
    )
    return encode_entries({table.name: relation}, {})


def create_system_table(store: Hummock, table: Table, columns: Mapping[str, str]) -> None:
    """Create a system table where it is missing; SQL reads it as any table."""
    if table.name in store.version.tables:
        return
    made = Commit(
        create=(table,),
        catalog=describe_system_table(table, columns),
        precondition=require_absent_table(table.name),
    )
    commit_once(store, lambda: store.commit(made), TableExists)


def ensure_dead_letters(store: Hummock) -> None:
    """Create the table where it is missing."""
    create_system_table(store, DEAD_LETTER_TABLE, DEAD_LETTER_COLUMNS)

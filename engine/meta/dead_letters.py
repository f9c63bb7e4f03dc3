"""The table of rows that were set aside: whose they are, where they came from, why, and as they were written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pyarrow as pa

from engine.errors import Conflict, TableExists
from engine.hummock import Commit, Hummock, Table, Version
from engine.hummock.preconditions import Precondition
from engine.meta.catalog_store import entries
from engine.sql.catalog import Column, Relation
from engine.sql.typing.types import to_arrow

DEAD_LETTER = "_dead_letter"
DEAD_LETTER_COLUMNS = {
    "source": "string",
    "file": "string",
    "line": "bigint",
    "reason": "string",
    "raw": "string",
}


def schema_of(columns: Mapping[str, str]) -> pa.Schema:
    """Return the Arrow schema of a system table's columns, which are Spark types by name."""
    return pa.schema([(name, to_arrow(kind)) for name, kind in columns.items()])


DEAD_LETTER_SCHEMA = schema_of(DEAD_LETTER_COLUMNS)
DEAD_LETTER_TABLE = Table(DEAD_LETTER, DEAD_LETTER_SCHEMA, ("source", "file", "line"), ())


class DeadLetter(NamedTuple):
    """A row that was set aside: where it came from, at which line of it, why, and as it was written."""

    file: str
    line: int
    reason: str
    raw: str


def letter_rows(source: str, letters: Iterable[DeadLetter]) -> pa.Table:
    """Return letters of one source as rows of the table."""
    rows = [{"source": source, **letter._asdict()} for letter in letters]
    return pa.Table.from_pylist(rows, DEAD_LETTER_SCHEMA)


def described(table: Table, columns: Mapping[str, str]) -> dict[str, str | None]:
    """Return the catalog entry that shows a system table to SQL."""
    relation = Relation(
        name=table.name,
        kind="table",
        columns=tuple(Column(name, kind, name not in table.primary_key) for name, kind in columns.items()),
        primary_key=table.primary_key,
    )
    return entries({table.name: relation}, {})


def ensure_dead_letters(store: Hummock) -> None:
    """Create the table where it is missing."""
    if DEAD_LETTER in store.version.tables:
        return
    shown = described(DEAD_LETTER_TABLE, DEAD_LETTER_COLUMNS)
    try:
        store.commit(
            Commit(create=(DEAD_LETTER_TABLE,), catalog=shown, precondition=absent(DEAD_LETTER_TABLE))
        )
    except (TableExists, Conflict):
        store.refresh()  # another process was faster


def absent(table: Table) -> Precondition:
    """Return the precondition that a table is not there."""

    def check(version: Version) -> None:
        if table.name in version.tables:
            raise Conflict(f"{table.name} was created by another process at the same time")

    return check

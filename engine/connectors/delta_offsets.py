"""How far each Delta table is taken: a table of the store, written in the same commit as the rows."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import pyarrow as pa

from engine.connectors.delta_log import Metadata
from engine.connectors.delta_steps import Position
from engine.errors import Conflict, TableExists
from engine.hummock import Commit, Hummock, Table, TableVersion, Version
from engine.meta.dead_letters import absent, described, schema_of
from engine.meta.source_notes import DELTA_OFFSETS

COLUMNS = {
    "table_id": "bigint",
    "source": "string",
    "version": "bigint",
    "digest": "string",
    "metadata": "string",
    "told": "string",
    "note": "string",
    "error": "string",
}
"""By the table's number, which a new name does not change.

`metadata` is the Delta table's at `version`, `told` the columns of which it was said that they are left out."""
SCHEMA = schema_of(COLUMNS)
TABLE = Table(DELTA_OFFSETS, SCHEMA, ("table_id",), ())


@dataclass(frozen=True)
class Offset:
    """Where a source stands; `note` is what is to be known of it, `error` why it does not go on."""

    at: Position
    told: tuple[str, ...] = field(default=())
    note: str = ""
    error: str = ""


def ensure_offsets(store: Hummock) -> None:
    """Create the table where it is missing; it can be read by SQL as any table."""
    if DELTA_OFFSETS in store.version.tables:
        return
    try:
        store.commit(Commit(create=(TABLE,), catalog=described(TABLE, COLUMNS), precondition=absent(TABLE)))
    except (TableExists, Conflict):
        store.refresh()  # another poller was faster


def offset_of(store: Hummock, version: Version, table: TableVersion) -> Offset | None:
    """Return where the source of a table stands; None before its first poll, also if a table of its name was dropped."""
    records = version.tables.get(DELTA_OFFSETS)
    if records is None:
        return None
    key = pa.table({"table_id": pa.array([table.table_id], pa.int64())})
    _, found = store.reader.lookup(records, key, records.committed_epoch)
    for row in found.to_pylist():
        metadata = msgspec.json.decode(row["metadata"], type=Metadata)
        told = tuple(msgspec.json.decode(row["told"], type=list[str]))
        return Offset(Position(row["version"], row["digest"], metadata), told, row["note"], row["error"])
    return None


def row_of(table: TableVersion, offset: Offset) -> pa.Table:
    """Return an offset as a row of the table."""
    row = {
        "source": table.name,
        "table_id": table.table_id,
        "version": offset.at.version,
        "digest": offset.at.digest,
        "metadata": msgspec.json.encode(offset.at.metadata).decode(),
        "told": msgspec.json.encode(offset.told).decode(),
        "note": offset.note,
        "error": offset.error,
    }
    return pa.Table.from_pylist([row], SCHEMA)

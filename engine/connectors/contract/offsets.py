"""How far each source is taken: a table of the store, written in the same commit as the rows.

Landing folders have records of their own (`tables.py`), since a file is more than an offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from engine.hummock import Hummock, Table, TableVersion, Version
from engine.meta.status.dead_letters import build_arrow_schema, create_system_table
from engine.meta.status.source_notes import OFFSETS

COLUMNS = {
    "table_id": "bigint",
    "split": "string",
    "source": "string",
    "offset": "string",
    "note": "string",
    "error": "string",
}
"""By the table's number, so that a table that is dropped and made again begins anew; `source` is its name."""
SCHEMA = build_arrow_schema(COLUMNS)
TABLE = Table(OFFSETS, SCHEMA, ("table_id", "split"), ())


@dataclass(frozen=True)
class SourceOffset:
    """Where a split stands, in its source's own words; `note` is what is to be known, `error` why it does not go on."""

    text: str
    note: str = ""
    error: str = ""


def ensure_offsets(store: Hummock) -> None:
    """Create the table where it is missing; it can be read by SQL as any table."""
    create_system_table(store, TABLE, COLUMNS)


def find_offset(
    store: Hummock, version: Version, table: TableVersion, split: str = "", epoch: int | None = None
) -> SourceOffset | None:
    """Return where a split of a table's source stands, or stood at an epoch; None before its first commit."""
    return find_offsets(store, version, [table], split, epoch).get(table.name)


def find_offsets(
    store: Hummock,
    version: Version,
    tables: Sequence[TableVersion],
    split: str = "",
    epoch: int | None = None,
) -> dict[str, SourceOffset]:
    """Return by table where a split of each table's source stands, or stood at an epoch, of those that have committed."""
    records = version.tables.get(OFFSETS)
    if records is None:
        return {}
    ids = pa.array([table.table_id for table in tables], pa.int64())
    keys = pa.table({"table_id": ids, "split": [split] * len(tables)})
    places, found = store.reader.lookup(records, keys, records.committed_epoch if epoch is None else epoch)
    return {
        tables[place].name: SourceOffset(row["offset"], row["note"], row["error"])
        for place, row in zip(places, found.to_pylist(), strict=True)
    }


def build_offset_row(table: TableVersion, split: str, offset: SourceOffset) -> pa.Table:
    """Return an offset as a row of the table."""
    row = {
        "table_id": table.table_id,
        "split": split,
        "source": table.name,
        "offset": offset.text,
        "note": offset.note,
        "error": offset.error,
    }
    return pa.Table.from_pylist([row], SCHEMA)

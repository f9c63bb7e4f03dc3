"""What sources that keep their place in the store have to say: why one does not go on, and what is to be known of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from engine.hummock import Reader, Version

OFFSETS = "_source_offsets"


class SourceNote(NamedTuple):
    """Why the source of a table does not go on, and what is to be known of it; None where there is nothing to say."""

    error: str | None
    note: str | None


def read_source_notes(reader: Reader, version: Version) -> Mapping[str, SourceNote]:
    """Return the notes by table."""
    records = version.tables.get(OFFSETS)
    if records is None:
        return {}
    found: dict[str, SourceNote] = {}
    names = {table.table_id: name for name, table in version.tables.items()}
    for batch in reader.scan(records, records.committed_epoch, columns=["table_id", "note", "error"]):
        for row in batch.to_pylist():
            if (name := names.get(row["table_id"])) is not None:
                found[name] = SourceNote(row["error"] or None, row["note"] or None)
    return found

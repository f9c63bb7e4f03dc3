"""What sources that keep their place in the store have to say: why one does not go on, and what is to be known of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from engine.hummock import Reader, Version

OFFSETS = "_source_offsets"
MOST_TOLD = 5
"""So many notes of the splits of one table are told."""


class SourceNote(NamedTuple):
    """Why the source of a table does not go on, and what is to be known of it; None where there is nothing to say."""

    error: str | None
    note: str | None


def read_source_notes(reader: Reader, version: Version) -> Mapping[str, SourceNote]:
    """Return the notes by table; what several splits say is told together."""
    records = version.tables.get(OFFSETS)
    if records is None:
        return {}
    errors, notes = dict[str, list[str]](), dict[str, list[str]]()
    names = {table.table_id: name for name, table in version.tables.items()}
    for batch in reader.scan(records, records.committed_epoch, columns=["table_id", "note", "error"]):
        for row in batch.to_pylist():
            if (name := names.get(row["table_id"])) is not None:
                for said, text in ((errors, row["error"]), (notes, row["note"])):
                    texts = said.setdefault(name, [])
                    if text and text not in texts:
                        texts.append(text)
    return {name: SourceNote(_join(errors[name]), _join(notes[name])) for name in errors}


def _join(texts: Sequence[str]) -> str | None:
    """Return some texts as one, the first ones where there are many."""
    if not texts:
        return None
    more = f"; and {len(texts) - MOST_TOLD} more" if len(texts) > MOST_TOLD else ""
    return "; ".join(texts[:MOST_TOLD]) + more

"""Rows, position and dead letters of a source stand together, or not at all."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from engine.connectors.contract.intake import Intake, commit_intake
from engine.connectors.contract.offsets import SourceOffset, build_offset_row, ensure_offsets, find_offset
from engine.errors import Conflict
from engine.hummock import Hummock, Put, Version
from engine.hummock.manifests.preconditions import require
from engine.meta.status.dead_letters import DEAD_LETTER, DeadLetter, ensure_dead_letters
from engine.meta.status.source_notes import OFFSETS
from engine.testing.memory import MemoryObjectStore

SCHEMA = pa.schema([("id", pa.int64())])


def _count(store: Hummock, table: str) -> int:
    store.refresh()
    return sum(batch.num_rows for batch in store.iter(table))


def test_rows_position_and_letters_are_one_commit() -> None:
    store = Hummock.open("memory:", object_store=MemoryObjectStore())
    store.create_table("t", SCHEMA, ["id"])
    ensure_offsets(store)
    ensure_dead_letters(store)
    version = store.version
    table, letter = version.tables["t"], DeadLetter("f.csv", 3, "no number", "x")

    def is_behind(text: str | None, now: Version) -> bool:
        found = find_offset(store, now, now.tables["t"])
        return (None if found is None else found.text) == text

    first = Intake(
        {OFFSETS: [Put(build_offset_row(table, "", SourceOffset("1")))]},
        [None, require(lambda now: is_behind(None, now), "taken by another")],
        operations=[Put(pa.table({"id": [1, 2]}, SCHEMA))],
        letters=[letter],
    )
    made = commit_intake(store, version, table, first)
    assert made.number == version.number + 1
    assert (_count(store, "t"), _count(store, DEAD_LETTER)) == (2, 1)
    found = find_offset(store, store.version, table)
    assert found is not None and found.text == "1"

    again = replace(first, letters=[letter._replace(line=4)], operations=[Put(pa.table({"id": [9]}, SCHEMA))])
    with pytest.raises(Conflict, match="taken by another"):
        commit_intake(store, version, table, again)
    assert (_count(store, "t"), _count(store, DEAD_LETTER)) == (2, 1)

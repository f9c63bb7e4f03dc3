"""Changes of rows as Debezium writes them, each in an envelope with the row before and after it."""

from __future__ import annotations

from typing import Any, NamedTuple

from engine.sql.column_names import RESERVED

CHANGE = f"{RESERVED}change"
"""The column of the word that says what a change does to its row: no column of a table has this name."""
ENVELOPES = ("debezium",)
_COMES, _GOES = ("c", "r", "u"), "d"


class DebeziumChange(NamedTuple):
    """A row, and the word for what is done to it."""

    row: dict[str, Any]
    word: str


def parse_change(value: dict[str, Any]) -> DebeziumChange | str | None:
    """Return a change, why it is none, or None for a tombstone; a schema may lie around it."""
    payload = value.get("payload", value) if "op" not in value else value
    if payload is None:
        return None
    operation = payload.get("op") if isinstance(payload, dict) else None
    if not isinstance(operation, str):
        return "not a change as Debezium writes it: it has no op"
    if operation not in (*_COMES, _GOES):
        return f'the change "{operation[:20]}" of Debezium is not supported: it has no row'
    side = "before" if operation == _GOES else "after"
    row = payload.get(side)
    if not isinstance(row, dict):
        return f'the change "{operation}" of Debezium has no {side}: let the database send complete rows (REPLICA IDENTITY FULL)'
    return DebeziumChange(row, "delete" if operation == _GOES else "upsert")

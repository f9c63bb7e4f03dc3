"""Changes of rows as Debezium writes them, each in an envelope with the row before and after it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from engine.sql.column_names import RESERVED

CHANGE = f"{RESERVED}change"
"""The column of the word that says what a change does to its row: no column of a table has this name."""
SEQUENCE = f"{RESERVED}sequence"
"""The column of what orders the changes of a key, where it stands in the envelope: no column of a table has this name."""
ENVELOPES = ("debezium",)
_ORDERS = ("ts_ms", "ts_us", "ts_ns")
_ORDERS_BELOW = ("source.", "transaction.")
_COMES, _GOES = ("c", "r", "u"), "d"
_UPSERT, _DELETE = "upsert", "delete"
_OPERATIONS: Mapping[object, tuple[bool, str]] = {
    **dict.fromkeys(_COMES, (False, _UPSERT)),
    _GOES: (True, _DELETE),
}


class DebeziumChange(NamedTuple):
    """A row, the word for what is done to it, and what the envelope tells of the change."""

    row: dict[str, Any]
    word: str
    envelope: Mapping[str, Any]

    def at(self, path: str) -> Any:
        """Return what stands in the envelope at a dotted path, None where nothing does."""
        found: Any = self.envelope
        for name in path.split("."):
            found = found.get(name) if isinstance(found, dict) else None
        return found


def is_order(path: str) -> bool:
    """Tell whether a dotted path is that of something in an envelope that may order changes."""
    return path in _ORDERS or any(path.startswith(whole) and path != whole for whole in _ORDERS_BELOW)


def describe_operation(operation: object) -> tuple[bool, str]:
    """Return whether an operation deletes, and the word for it; raises KeyError for one that is none."""
    return _OPERATIONS[operation]


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
    return DebeziumChange(row, _DELETE if operation == _GOES else _UPSERT, payload)

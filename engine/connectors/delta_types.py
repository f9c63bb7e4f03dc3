"""Delta's schemas, as the log has them, in the types of CREATE TABLE; needs no Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from engine.errors import SourceError

_NAMES = {
    "integer": "int",
    "long": "bigint",
    "short": "smallint",
    "byte": "tinyint",
}
_SAME = ("string", "float", "double", "boolean", "binary", "date", "timestamp", "timestamp_ntz")
_PHYSICAL = "delta.columnMapping.physicalName"
_TEXT = re.compile(r"(?:var)?char\(\d+\)")
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")


class DeltaColumn(NamedTuple):
    """A column of a Delta table; `type` is None where CREATE TABLE has none for `given`."""

    name: str
    type: str | None
    nullable: bool
    given: str
    held_as: tuple[Any, ...] = ()
    """The names by which files hold it and the fields in it: another column that gets its name has others."""


def delta_columns(schema: str) -> tuple[DeltaColumn, ...]:
    """Return the columns of a schema as `schemaString` of a log has it; raises SourceError for a text that is none."""
    try:
        fields = msgspec.json.decode(schema)["fields"]
        return tuple(
            DeltaColumn(
                field["name"],
                _type(field["type"]),
                bool(field.get("nullable", True)),
                field["type"] if isinstance(field["type"], str) else str(field["type"].get("type")),
                _held_as(field),
            )
            for field in fields
        )
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError) as error:
        raise SourceError(
            f"the schema in the Delta log can't be read: {type(error).__name__}: {error}"
        ) from error


def renamed_columns(before: str, after: str) -> list[str]:
    """Return the columns of a schema whose names, or those of fields in them, were other columns' in an earlier one."""
    known = {column.name.lower(): column.held_as for column in delta_columns(before)}
    found = ((column, known.get(column.name.lower())) for column in delta_columns(after))
    return [column.name for column, held_as in found if held_as is not None and held_as != column.held_as]


def _held_as(field: Mapping[str, Any]) -> tuple[Any, ...]:
    physical = (field.get("metadata") or {}).get(_PHYSICAL, field["name"])
    return (physical, *_parts_held_as(field["type"]))


def _parts_held_as(kind: Any) -> tuple[Any, ...]:
    if isinstance(kind, str):
        return ()
    if "fields" in kind:
        return tuple((field["name"].lower(), _held_as(field)) for field in kind["fields"])
    return tuple(
        _parts_held_as(kind[part]) for part in ("elementType", "keyType", "valueType") if part in kind
    )


def _type(kind: Any) -> str | None:
    if isinstance(kind, str):
        if kind in _SAME:
            return kind
        if _TEXT.fullmatch(kind):
            return "string"
        if found := _DECIMAL.fullmatch(kind):
            return f"decimal({found[1]},{found[2]})"
        return _NAMES.get(kind)
    return _nested(kind)


def _nested(kind: Mapping[str, Any]) -> str | None:
    if kind["type"] == "array":
        inner = _type(kind["elementType"])
        return None if inner is None else f"array<{inner}>"
    if kind["type"] == "map":
        key, value = _type(kind["keyType"]), _type(kind["valueType"])
        return None if key is None or value is None else f"map<{key},{value}>"
    if kind["type"] == "struct":
        parts = [(field["name"], _type(field["type"])) for field in kind["fields"]]
        if not parts or any(inner is None or not re.fullmatch(r"\w+", name) for name, inner in parts):
            return None
        return f"struct<{','.join(f'{name}:{inner}' for name, inner in parts)}>"
    return None

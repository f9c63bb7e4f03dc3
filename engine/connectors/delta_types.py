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
_TEXT = re.compile(r"(?:var)?char\(\d+\)")
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")


class DeltaColumn(NamedTuple):
    """A column of a Delta table; `type` is None where CREATE TABLE has none for `given`."""

    name: str
    type: str | None
    nullable: bool
    given: str


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
            )
            for field in fields
        )
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError) as error:
        raise SourceError(
            f"the schema in the Delta log can't be read: {type(error).__name__}: {error}"
        ) from error


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

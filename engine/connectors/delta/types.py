"""Delta's schemas, as the log has them, in the types of CREATE TABLE; needs no Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from engine.errors import SourceError
from engine.jsonb.kinds import split_types
from engine.sql.typing.types import element_type, field_names, field_type

_NAMES = {
    "integer": "int",
    "long": "bigint",
    "short": "smallint",
    "byte": "tinyint",
}
_SAME = ("string", "float", "double", "boolean", "binary", "date", "timestamp", "timestamp_ntz")
_PHYSICAL = "delta.columnMapping.physicalName"
COLUMN_ID = "delta.columnMapping.id"
_UNREAD = ("__CHAR_VARCHAR_TYPE_STRING", "__COLLATIONS")
"""What a schema says of columns whose values are not in files as they are read."""
_TEXT = re.compile(r"(?:var)?char\(\d+\)")
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")


class DeltaColumn(NamedTuple):
    """A column of a Delta table; `type` is None where CREATE TABLE has none for `given`."""

    name: str
    type: str | None
    nullable: bool
    delta_type: str
    kind: Any = None
    """Its type as the log has it."""
    physical_name: str = ""
    """The name by which files hold it: another column that gets its name has another one."""


def parse_schema(schema: str) -> tuple[DeltaColumn, ...]:
    """Return the columns of a schema as `schemaString` of a log has it; raises SourceError for a text that is none."""
    try:
        fields = msgspec.json.decode(schema)["fields"]
        return tuple(
            DeltaColumn(
                str(field["name"]),
                to_sql_type(field["type"]),
                bool(field.get("nullable", True)),
                _format_type(field["type"]),
                field["type"],
                find_physical_name(field),
            )
            for field in fields
        )
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SourceError(
            f"the schema in the Delta log can't be read: {type(error).__name__}: {error}"
        ) from error


def list_fields(schema: str) -> list[dict[str, Any]]:
    """Return the fields of a schema, which `parse_schema` has read, as a log has them."""
    found: list[dict[str, Any]] = msgspec.json.decode(schema)["fields"]
    return found


def has_plain_values(schema: str) -> bool:
    """Tell whether files hold the values of columns as they are read, of a schema or a field of one as a log has it."""
    return not any(mark in schema for mark in _UNREAD)


def find_renamed_columns(before: str, after: str, types: Mapping[str, str]) -> list[str]:
    """Return the columns, of those that are taken, whose names, or those of fields in them, were others' in an earlier schema.

    `taken` gives the type as which each is taken: a field that it has not is of no matter.
    """
    known = {column.name.lower(): column for column in parse_schema(before)}
    found = [
        (column, known[column.name.lower()]) for column in parse_schema(after) if column.name.lower() in known
    ]
    return [
        column.name
        for column, was in found
        if column.name in types
        and (
            column.physical_name != was.physical_name
            or _has_renamed_field(was.kind, column.kind, types[column.name])
        )
    ]


def find_field(struct: Any, name: str) -> Any:
    """Return the field of a struct, as a log has one, that a name means: exact, else without case; None if it has none."""
    fields = struct["fields"]
    exact = next((field for field in fields if field["name"] == name), None)
    return exact or next((field for field in fields if field["name"].lower() == name.lower()), None)


def _has_renamed_field(before: Any, after: Any, kind: str) -> bool:
    """Tell whether a field of a type has the name that another one had."""
    if isinstance(before, str) or isinstance(after, str) or before["type"] != after["type"]:
        return False
    if after["type"] == "struct":
        for name in field_names(kind):
            old, new = find_field(before, name), find_field(after, name)
            if old is None or new is None:
                continue
            inner = field_type(kind, name) or ""
            if find_physical_name(old) != find_physical_name(new) or _has_renamed_field(
                old["type"], new["type"], inner
            ):
                return True
        return False
    if after["type"] == "map":
        kinds = dict(zip(("keyType", "valueType"), split_types(kind[len("map<") : -1]), strict=True))
    else:
        kinds = {"elementType": element_type(kind) or ""}
    return any(_has_renamed_field(before[part], after[part], inner) for part, inner in kinds.items())


def find_physical_name(field: Mapping[str, Any]) -> str:
    """Return the name by which files hold a field."""
    return str((field.get("metadata") or {}).get(_PHYSICAL, field["name"]))


def _format_type(kind: Any) -> str:
    """Return a type as Spark prints it."""
    if isinstance(kind, str):
        return _NAMES.get(kind, kind)
    if kind["type"] == "array":
        return f"array<{_format_type(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<{_format_type(kind['keyType'])},{_format_type(kind['valueType'])}>"
    if kind["type"] == "struct":
        return f"struct<{','.join(field['name'] + ':' + _format_type(field['type']) for field in kind['fields'])}>"
    return str(kind["type"])


def to_sql_type(kind: Any) -> str | None:
    """Return a type, as a log has it, in the words of CREATE TABLE; None where it has none."""
    if isinstance(kind, str):
        if kind in _SAME:
            return kind
        if _TEXT.fullmatch(kind):
            return "string"
        if found := _DECIMAL.fullmatch(kind):
            return f"decimal({found[1]},{found[2]})"
        return _NAMES.get(kind)
    return _convert_nested(kind)


def _convert_nested(kind: Mapping[str, Any]) -> str | None:
    if kind["type"] == "array":
        inner = to_sql_type(kind["elementType"])
        return None if inner is None else f"array<{inner}>"
    if kind["type"] == "map":
        key, value = to_sql_type(kind["keyType"]), to_sql_type(kind["valueType"])
        return None if key is None or value is None else f"map<{key},{value}>"
    if kind["type"] == "struct":
        parts = [(field["name"], to_sql_type(field["type"])) for field in kind["fields"]]
        if not parts or any(inner is None or not re.fullmatch(r"\w+", name) for name, inner in parts):
            return None
        return f"struct<{','.join(f'{name}:{inner}' for name, inner in parts)}>"
    return None

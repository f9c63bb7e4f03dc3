"""The functions over json and jsonb that Spark is given: by their names, over columns of Arrow.

Null in any argument gives null unless a function says otherwise. An answer that begins with
an exclamation mark says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from engine.arrow import as_values
from engine.jsonb import changes, parts, text, values

PREFIX = "tideline_"
_ENTRIES = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.string())]))
_TEXTS = pa.list_(pa.string())
Body: TypeAlias = "Callable[..., pa.Array[Any]]"


@dataclass(frozen=True)
class Function:
    """A function of Spark's that Python computes: over Arrow columns, with the type of what it gives."""

    name: str
    type: pa.DataType
    body: Body


def _by_row(function: Callable[..., Any], kind: pa.DataType) -> Body:
    def body(*columns: pa.Array[Any]) -> pa.Array[Any]:
        rows = zip(*(as_values(column) for column in columns), strict=True)
        return pa.array([None if None in row else function(*row) for row in rows], kind)

    return body


def _normal(value: str) -> str:
    try:
        return text.normal(value)
    except text.NotJson as error:
        return f"!{error}"


def _checked(value: str) -> str:
    try:
        text.parsed(value)
    except text.NotJson as error:
        return f"!{error}"
    return value


def _texts(value: str) -> list[str | None]:
    return [parts.shown(part) for part in parts.elements(value) or ()]


def _entries(value: str) -> list[dict[str, str | None]]:
    return [{"key": key, "value": part} for key, part in parts.members(value) or ()]


def _entries_shown(value: str) -> list[dict[str, str | None]]:
    return [{"key": key, "value": parts.shown(part)} for key, part in parts.members(value) or ()]


def _texts_object(keys: list[str | None], given: list[str | None]) -> str:
    if len(keys) != len(given):
        return "!jsonb_object needs as many values as keys"
    return values.built_object(keys, [None if part is None else text.quoted(part) for part in given])


def _keys(value: str) -> list[str]:
    return [key for key, _ in parts.members(value) or ()]


def _of_kind(function: Callable[..., list[str | None]], **how: bool) -> Body:
    """Return a body whose last argument is the type of the one before it, the same in all rows."""

    def body(*columns: pa.Array[Any]) -> pa.Array[Any]:
        *given, kinds = columns
        kind = kinds[0].as_py() if len(kinds) else ""
        return pa.array(function(*given, kind, **how), pa.string())

    return body


_OF_ROWS: Mapping[str, tuple[Callable[..., Any], pa.DataType]] = {
    "jsonb": (_normal, pa.string()),
    "json": (_checked, pa.string()),
    "typeof": (parts.kind, pa.string()),
    "member": (parts.member, pa.string()),
    "element": (parts.element, pa.string()),
    "at": (parts.at, pa.string()),
    "shown": (parts.shown, pa.string()),
    "number": (parts.number_of, pa.string()),
    "truth": (parts.truth_of, pa.string()),
    "length": (parts.length, pa.string()),
    "elements": (parts.elements, _TEXTS),
    "texts": (_texts, _TEXTS),
    "keys": (_keys, _TEXTS),
    "each": (_entries, _ENTRIES),
    "each_text": (_entries_shown, _ENTRIES),
    "contains": (changes.contains, pa.bool_()),
    "has_key": (changes.has_key, pa.bool_()),
    "has_any": (changes.has_any, pa.bool_()),
    "has_all": (changes.has_all, pa.bool_()),
    "joined": (changes.joined, pa.string()),
    "without_key": (changes.without_key, pa.string()),
    "without_keys": (changes.without_keys, pa.string()),
    "without_place": (changes.without_place, pa.string()),
    "without_path": (changes.without_path, pa.string()),
    "with_path": (changes.with_path, pa.string()),
    "with_inserted": (changes.with_inserted, pa.string()),
    "without_nulls": (changes.without_nulls, pa.string()),
    "pretty": (changes.over_lines, pa.string()),
    "object": (values.built_object, pa.string()),
    "json_object": (values.written_object, pa.string()),
    "texts_object": (_texts_object, pa.string()),
    "array": (values.built_array, pa.string()),
}
FUNCTIONS = (
    *(Function(PREFIX + name, kind, _by_row(body, kind)) for name, (body, kind) in _OF_ROWS.items()),
    Function(PREFIX + "to_jsonb", pa.string(), _of_kind(values.as_documents, sort=True)),
    Function(PREFIX + "to_json", pa.string(), _of_kind(values.as_documents, sort=False)),
    Function(PREFIX + "json_agg", pa.string(), _of_kind(values.listed)),
    Function(PREFIX + "object_agg", pa.string(), _of_kind(values.gathered, sort=True)),
    Function(PREFIX + "json_object_agg", pa.string(), _of_kind(values.gathered, sort=False)),
)

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
from engine.jsonb import operators, parts, text, values

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


def _make_row_body(function: Callable[..., Any], kind: pa.DataType) -> Body:
    def body(*columns: pa.Array[Any]) -> pa.Array[Any]:
        rows = zip(*(as_values(column) for column in columns), strict=True)
        return pa.array([None if None in row else function(*row) for row in rows], kind)

    return body


def _normalize(value: str) -> str:
    try:
        return text.normalize_json(value)
    except text.NotJson as error:
        return f"!{error}"


def _validate(value: str) -> str:
    try:
        text.parse_json(value)
    except text.NotJson as error:
        return f"!{error}"
    return value


def _list_texts(value: str) -> list[str | None]:
    return [parts.render_text(part) for part in parts.list_elements(value) or ()]


def _list_entries(value: str) -> list[dict[str, str | None]]:
    return [{"key": key, "value": part} for key, part in parts.list_members(value) or ()]


def _list_text_entries(value: str) -> list[dict[str, str | None]]:
    return [{"key": key, "value": parts.render_text(part)} for key, part in parts.list_members(value) or ()]


def _build_text_object(keys: list[str | None], texts: list[str | None]) -> str:
    if len(keys) != len(texts):
        return "!jsonb_object needs as many values as keys"
    return values.build_object(keys, [None if part is None else text.quote_json(part) for part in texts])


def _list_keys(value: str) -> list[str]:
    return [key for key, _ in parts.list_members(value) or ()]


def _make_typed_body(function: Callable[..., list[str | None]], **how: bool) -> Body:
    """Return a body whose last argument is the type of the one before it, the same in all rows."""

    def body(*columns: pa.Array[Any]) -> pa.Array[Any]:
        *arguments, kinds = columns
        kind = kinds[0].as_py() if len(kinds) else ""
        return pa.array(function(*arguments, kind, **how), pa.string())

    return body


_OF_ROWS: Mapping[str, tuple[Callable[..., Any], pa.DataType]] = {
    "jsonb": (_normalize, pa.string()),
    "json": (_validate, pa.string()),
    "typeof": (parts.find_kind, pa.string()),
    "member": (parts.find_member, pa.string()),
    "element": (parts.find_element, pa.string()),
    "at": (parts.find_at_path, pa.string()),
    "shown": (parts.render_text, pa.string()),
    "number": (parts.read_number, pa.string()),
    "truth": (parts.read_truth, pa.string()),
    "length": (parts.count_elements, pa.string()),
    "elements": (parts.list_elements, _TEXTS),
    "texts": (_list_texts, _TEXTS),
    "keys": (_list_keys, _TEXTS),
    "each": (_list_entries, _ENTRIES),
    "each_text": (_list_text_entries, _ENTRIES),
    "contains": (operators.contains, pa.bool_()),
    "has_key": (operators.has_key, pa.bool_()),
    "has_any": (operators.has_any, pa.bool_()),
    "has_all": (operators.has_all, pa.bool_()),
    "joined": (operators.concatenate, pa.string()),
    "without_key": (operators.delete_key, pa.string()),
    "without_keys": (operators.delete_keys, pa.string()),
    "without_place": (operators.delete_element, pa.string()),
    "without_path": (operators.delete_path, pa.string()),
    "with_path": (operators.set_path, pa.string()),
    "with_inserted": (operators.insert_at_path, pa.string()),
    "without_nulls": (operators.strip_nulls, pa.string()),
    "pretty": (operators.format_lines, pa.string()),
    "object": (values.build_object, pa.string()),
    "json_object": (values.build_json_object, pa.string()),
    "texts_object": (_build_text_object, pa.string()),
    "array": (values.build_array, pa.string()),
}
FUNCTIONS = (
    *(Function(PREFIX + name, kind, _make_row_body(body, kind)) for name, (body, kind) in _OF_ROWS.items()),
    Function(PREFIX + "to_jsonb", pa.string(), _make_typed_body(values.render_documents, sort=True)),
    Function(PREFIX + "to_json", pa.string(), _make_typed_body(values.render_documents, sort=False)),
    Function(PREFIX + "json_agg", pa.string(), _make_typed_body(values.aggregate_lists)),
    Function(PREFIX + "object_agg", pa.string(), _make_typed_body(values.aggregate_objects, sort=True)),
    Function(PREFIX + "json_object_agg", pa.string(), _make_typed_body(values.aggregate_objects, sort=False)),
)

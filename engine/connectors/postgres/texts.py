"""Texts of PostgreSQL's values in the forms that texts of a column's type have here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.connectors.postgres.columns import PostgresType
from engine.sql.catalog import RelationColumn
from engine.sql.typing.types import element_type


class BrokenArray(ValueError):
    """A text that is no array of PostgreSQL."""


def build_text_column(texts: pa.Array[Any], its: PostgresType, column: RelationColumn) -> pa.Array[Any]:
    """Return texts of a type of PostgreSQL as those of a column; one in no such form stays as it is, and fits no type."""
    if element_type(column.type) is not None and column.sql_type is None:
        return _write_arrays(texts, its, column.type.count("array<"))
    if column.type == "string" or its.name not in _CHANGES:
        return texts
    for pattern, written in _PATTERNS[its.name]:
        texts = pc.replace_substring_regex(texts, pattern, written)
    return texts


def _write_arrays(texts: pa.Array[Any], its: PostgresType, dimensions: int) -> pa.Array[Any]:
    of_element = _CHANGES.get(its.element)
    written: list[str | None] = []
    for text in texts.to_pylist():
        try:
            found = None if text is None else parse_array(text, of_element)
        except BrokenArray:
            written.append(text)
            continue
        if found is None or not _fits_dimensions(found, dimensions):
            written.append(text)
        else:
            written.append(json.dumps(found, ensure_ascii=False))
    return pa.array(written, pa.string())


def _fits_dimensions(found: list[Any], dimensions: int) -> bool:
    """Tell whether an array has so many dimensions; one without elements has any number."""
    item: Any = found
    for _ in range(dimensions):
        if item == []:
            return True
        if not isinstance(item, list):
            return False
        item = item[0]
    return not isinstance(item, list)


def _write_zone(text: str) -> str:
    """Return a moment in UTC with the zone as ISO 8601 has it.

    >>> _write_zone("2024-01-31 10:00:00.5+00")
    '2024-01-31 10:00:00.5Z'
    """
    return f"{text[:-3]}Z" if text.endswith("+00") else _refuse_before_christ(text)


def _refuse_before_christ(text: str) -> str:
    """Return a date or time as it is, one of a year before the first as a text that is none.

    >>> _refuse_before_christ("0044-03-15 BC")
    'BC 0044-03-15'
    """
    return f"BC {text[:-3]}" if text.endswith(" BC") else text


_CHANGES: Mapping[str, Callable[[str], str]] = {
    "timestamptz": _write_zone,
    "timestamp": _refuse_before_christ,
    "date": _refuse_before_christ,
}
_BEFORE_CHRIST = (r"^(.*) BC$", r"BC \1")
_PATTERNS: Mapping[str, Sequence[tuple[str, str]]] = {
    "timestamptz": ((r"\+00$", "Z"), _BEFORE_CHRIST),
    "timestamp": (_BEFORE_CHRIST,),
    "date": (_BEFORE_CHRIST,),
}
"""What `_CHANGES` does, for whole columns."""


def parse_array(text: str, change: Callable[[str], str] | None = None) -> list[Any]:
    """Return an array of PostgreSQL as lists of texts; raises BrokenArray for a text that is none.

    >>> parse_array('{{1,NULL},{"a \\\\"b",c}}')
    [['1', None], ['a "b', 'c']]
    """
    body = text[text.index("=") + 1 :] if text.startswith("[") and "=" in text else text  # after bounds
    found, at = _parse_list(body, 0, change)
    if at != len(body):
        raise BrokenArray(text)
    return found


def _parse_list(text: str, at: int, change: Callable[[str], str] | None) -> tuple[list[Any], int]:
    if text[at : at + 1] != "{":
        raise BrokenArray(text)
    at += 1
    items: list[Any] = []
    if text[at : at + 1] == "}":
        return items, at + 1
    while True:
        if text[at : at + 1] == "{":
            item, at = _parse_list(text, at, change)
            items.append(item)
        else:
            value, at = _parse_item(text, at)
            items.append(value if value is None or change is None else change(value))
        mark = text[at : at + 1]
        at += 1
        if mark == "}":
            return items, at
        if mark != ",":
            raise BrokenArray(text)


def _parse_item(text: str, at: int) -> tuple[str | None, int]:
    if text[at : at + 1] != '"':
        start = at
        while at < len(text) and text[at] not in ",}":
            at += 1
        word = text[start:at]
        return (None if word == "NULL" else word), at
    at += 1
    parts: list[str] = []
    while at < len(text) and text[at] != '"':
        if text[at] == "\\":
            at += 1
        parts.append(text[at : at + 1])
        at += 1
    if at >= len(text):
        raise BrokenArray(text)
    return "".join(parts), at + 1

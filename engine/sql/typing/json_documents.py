"""Columns of json and jsonb on the way in: texts are checked, those of jsonb brought into their normal form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from engine.arrow import Column as Values
from engine.jsonb.kinds import has_documents
from engine.jsonb.text import NotJson, normalize_json, parse_json
from engine.sql.catalog import RelationColumn


def is_document(column: RelationColumn) -> bool:
    """Tell whether a column holds json or jsonb, alone or in arrays."""
    return column.sql_type is not None and has_documents(column.sql_type)


def normalize_document(text: str, kind: str) -> str:
    """Return the text that a column of json or jsonb keeps; raises NotJson."""
    if kind == "jsonb":
        return normalize_json(text)
    parse_json(text)
    return text


def normalize_documents(values: Values, column: RelationColumn) -> tuple[pa.Array[Any], dict[int, str]]:
    """Return values as a column keeps them, and why those are none that it could keep, by their places; these are null."""
    keep = _choose_normalizer(column.sql_type or "")
    normalized, wrong = list[Any](), dict[int, str]()
    for place, value in enumerate(values.to_pylist()):
        try:
            normalized.append(None if value is None else keep(value))
        except NotJson as error:
            normalized.append(None)
            wrong[place] = str(error)
    return pa.array(normalized, values.type), wrong


def _choose_normalizer(kind: str) -> Callable[[Any], Any]:
    if kind in ("json", "jsonb"):
        return lambda value: normalize_document(value, kind)
    if kind.startswith("array<") and has_documents(kind):
        inner = _choose_normalizer(kind[len("array<") : -1])
        return lambda value: [None if part is None else inner(part) for part in value]
    return lambda value: value


def validate_document(text: str, column: RelationColumn) -> str | None:
    """Return what is wrong with a text that a column of json or jsonb cannot keep, else None."""
    try:
        _choose_normalizer(column.sql_type or "")(text)
    except NotJson as error:
        return f"column {column.name} is {column.sql_type}: {error}"
    return None

"""Columns of Delta tables: which types Delta has none for, and which names Parquet does not take."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

_NOT_IN_PARQUET = re.compile(r"[ ,;{}()\n\t=]")


def needs_mapping(kind: pa.DataType, name: str = "") -> bool:
    """Tell whether a column, or a field in it, has a name that Parquet does not take, so that Delta has to map it to another."""
    if _NOT_IN_PARQUET.search(name):
        return True
    return any(needs_mapping(field.type, field.name) for field in list_fields(kind))


def find_unsupported_type(kind: pa.DataType) -> str | None:
    """Return the first type, of a column or of what is in it, that Delta has none for."""
    if pa.types.is_time(kind):
        return "TIME"
    if pa.types.is_duration(kind):
        return "INTERVAL"
    if pa.types.is_null(kind):
        return "VOID"
    return next((found for field in list_fields(kind) if (found := find_unsupported_type(field.type))), None)


def list_fields(kind: pa.DataType) -> list[pa.Field[Any]]:
    """Return the fields of a nested type; elements of lists and maps have no names that anybody has given."""
    if pa.types.is_struct(kind):
        return list(kind)
    if pa.types.is_list(kind):
        return [kind.value_field.with_name("")]
    if pa.types.is_map(kind):
        return [kind.key_field.with_name(""), kind.item_field.with_name("")]
    return []

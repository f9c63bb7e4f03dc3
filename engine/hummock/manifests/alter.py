"""What a table becomes by ALTER: columns, options; its files stay as they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
import pyarrow as pa

from engine.errors import InvalidRow
from engine.hummock.version import Table, TableOptions


def replace_options(changes: Mapping[str, Any], before: TableOptions = TableOptions()) -> TableOptions:
    """Return options with those of `given` replaced; raises InvalidRow for a name that is none."""
    known = {field.name for field in msgspec.structs.fields(TableOptions)} - {"dropped"}
    unknown = sorted(set(changes) - known)
    if unknown:
        raise InvalidRow(
            f"{', '.join(unknown)} is no option of a table; there are {', '.join(sorted(known))}"
        )
    return msgspec.structs.replace(before, **changes)


def apply_alter(
    table: Table,
    add: Sequence[pa.Field[Any]] = (),
    drop: Sequence[str] = (),
    options: Mapping[str, Any] = MappingProxyType({}),
) -> Table:
    """Return a table with columns added at the end, others dropped, and options replaced.

    Raises InvalidRow for a column that is there already, or is not, or must not go.
    """
    names = table.schema.names
    for name in drop:
        if name not in names:
            raise InvalidRow(f"table {table.name} has no column {name} to drop; it has {', '.join(names)}")
        if name in table.primary_key:
            raise InvalidRow(f"table {table.name}: {name} is of the primary key and cannot be dropped")
    for field in add:
        if field.name in names:
            raise InvalidRow(f"table {table.name} has a column {field.name} already")
        if field.name in table.options.dropped:
            raise InvalidRow(
                f"table {table.name}: {field.name} was dropped, its files may hold its values yet; choose another name"
            )
        if not field.nullable:
            raise InvalidRow(
                f"table {table.name}: column {field.name} must be nullable, old rows have no value"
            )
    changed = replace_options(options, table.options)
    changed = msgspec.structs.replace(changed, dropped=(*changed.dropped, *drop))
    if changed.watermark_column in drop:
        raise InvalidRow(
            f"table {table.name}: {changed.watermark_column} carries the watermark: it cannot go"
        )
    remaining = [field for field in table.schema if field.name not in drop]
    return dataclasses.replace(table, schema=pa.schema([*remaining, *add]), options=changed)

"""Keys as callers give them, typed as their table's columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from engine.arrow import as_rows
from engine.errors import InvalidRow
from engine.hummock.version import Table


def build_key_row(table: Table, key: Mapping[str, Any]) -> pa.Table:
    """Return one row of key columns, typed as the table's; raises InvalidRow for a column or a value that does not fit."""
    arrays = {}
    for name, value in key.items():
        if name not in table.schema.names:
            raise InvalidRow(
                f"table {table.name} has no column {name}; it has {', '.join(table.schema.names)}"
            )
        kind = table.schema.field(name).type
        try:
            arrays[name] = pa.array([value], kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise InvalidRow(f"table {table.name}: {value!r} is no {kind} for column {name}") from error
    return pa.table(arrays)


def build_whole_key_row(table: Table, key: Mapping[str, Any]) -> pa.Table:
    """Return one row of a whole primary key; raises InvalidRow if columns of it are missing."""
    keys = build_key_row(table, key)
    if set(table.primary_key) - set(keys.column_names):
        raise InvalidRow(
            f"table {table.name}: get needs the whole primary key {', '.join(table.primary_key)}"
        )
    return keys


def select_whole_keys(table: Table, keys: pa.Table | pa.RecordBatch) -> pa.Table:
    """Return the columns of the primary key of rows that have all of them; raises InvalidRow otherwise."""
    if isinstance(keys, pa.RecordBatch):
        keys = pa.Table.from_batches([keys])
    missing = [name for name in table.primary_key if name not in keys.column_names]
    if missing:
        raise InvalidRow(f"table {table.name}: the keys lack {', '.join(missing)} of the primary key")
    return keys.select(list(table.primary_key))


def take_first_row(rows: pa.Table) -> dict[str, Any] | None:
    """Return the first row as Python has it, None if there is none."""
    return next(iter(as_rows(rows.slice(0, 1))), None)

"""The row of a view that is asked for: by the values of its key, or of any columns that tell it apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from engine.errors import SqlError
from engine.hummock.epoch import format_epoch
from engine.hummock.rows.key_numbers import deduplicate
from engine.meta.epochs.content import Content
from engine.runtime.answers.tables_read import StoreTables
from engine.sql.catalog import Relation, RelationColumn
from engine.sql.plan import Scan
from engine.sql.typing.types import to_arrow

AskedKey = Mapping[str, Any] | Sequence[Any] | str | int
"""The values of the key's columns in their order, one alone, or values by column; texts are read as the column's type."""


def find_row(tables: StoreTables, relation: Relation, key: AskedKey) -> pa.Table:
    """Return the one row of a view that has the values of a key, with all its columns under their stored names.

    Of rows that are equal in all shown columns it is the first. Raises SqlError for values that name no row, or several.
    """
    asked = _resolve_key(relation, key)
    wanted = {column.storage_name: _convert_value(relation, column, value) for column, value in asked.items()}
    items = tuple((column.storage_name, column.storage_name) for column in relation.columns)
    scan = Scan(relation.name, items, relation.primary_key, relation.distribution_key)
    found = tables.read(scan, wanted)
    rows = found if isinstance(found, pa.Table) else found.toArrow()
    told = ", ".join(f"{column.name} = {value}" for column, value in asked.items())
    epoch = tables.epochs[relation.name]
    if not rows.num_rows:
        named = f" with {told}" if told else ""
        newest = Content(tables.version, tables.stored.inputs).find_newest(
            relation.name, tables.version.epoch
        )
        raise SqlError(
            f"{relation.name} has no row{named} at epoch {format_epoch(epoch)}; its newest epoch is "
            f"{format_epoch(newest or epoch)}",
            hint=f"SELECT * FROM {relation.name} shows its rows; --at names another epoch",
        )
    shown = [column.storage_name for column in relation.columns if not column.hidden]
    if deduplicate(rows.select(shown)).num_rows > 1:
        others = [c.name for c in relation.columns if not c.hidden and c not in asked]
        raise SqlError(
            f"{rows.num_rows:,} rows of {relation.name} have {told or 'no key that tells them apart'}",
            hint=f"name more columns, as column=value: {', '.join(others)}",
        )
    return rows.slice(0, 1)


def _resolve_key(relation: Relation, key: AskedKey) -> dict[RelationColumn, Any]:
    """Return the values that are asked for by column."""
    shown = {column.name: column for column in relation.columns if not column.hidden}
    if isinstance(key, Mapping):
        for name in key:
            if name not in shown:
                raise SqlError(
                    f"{relation.name} has no column {name}", hint=f"its columns are {', '.join(shown)}"
                )
        return {shown[name]: value for name, value in key.items()}
    values = list(key) if isinstance(key, Sequence) and not isinstance(key, str) else [key]
    by_stored = {column.storage_name: column for column in shown.values()}
    columns = [by_stored[name] for name in relation.primary_key if name in by_stored]
    if len(values) != len(columns):
        some = f"{len(values)} values were given" if len(values) != 1 else "one value was given"
        if not columns:
            raise SqlError(
                f"{relation.name} has no key among its shown columns, {some}",
                hint=f"name columns as column=value: {', '.join(shown)}",
            )
        names = ", ".join(column.name for column in columns)
        raise SqlError(
            f"the key of {relation.name} is {names}: {some}", hint="or name columns as column=value"
        )
    return dict(zip(columns, values, strict=True))


def _convert_value(relation: Relation, column: RelationColumn, value: Any) -> pa.Array[Any]:
    """Return a value as one of a column's type; raises SqlError if it is none."""
    kind = to_arrow(column.type)
    try:
        if isinstance(value, str) and not pa.types.is_string(kind):
            text: pa.Array[Any] = pa.array([value], pa.string())
            read: pa.Array[Any] = text.cast(kind)
            return read
        try:
            return pa.array([value], kind)
        except (pa.ArrowTypeError, pa.ArrowInvalid):
            converted: pa.Array[Any] = pa.array([value]).cast(kind)
            return converted
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise SqlError(
            f"{value!r} is no value of column {column.name} of {relation.name}, which is {column.type}"
        ) from error

"""The watermarks of tables: each the one row of a hidden source table, as it is read and as it is written."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa

from engine.arrow import day_text, moment_text, nulls
from engine.hummock import Reader, Table, TableVersion, Version
from engine.hummock.expiry import as_numbers
from engine.meta.catalog_store import StoredCatalog
from engine.sql.catalog import LATE, WATERMARK, WATERMARK_KEY, watermark_name


class WatermarkAt(NamedTuple):
    """Where a watermark stands, as a number in the unit of its column, and how many rows were below it when they came."""

    number: int | None = None
    late: int = 0


def watermark_at(reader: Reader, table: TableVersion) -> WatermarkAt:
    """Return where a watermark stands by the newest version of its hidden table."""
    keys = pa.table({WATERMARK_KEY: pa.array([0], table.schema.field(WATERMARK_KEY).type)})
    _, found = reader.lookup(table, keys, table.committed_epoch)
    if not found.num_rows:
        return WatermarkAt()
    number = as_numbers(found.column(WATERMARK).combine_chunks())[0].as_py()
    return WatermarkAt(number, found.column(LATE)[0].as_py())


def watermark_row(table: Table, at: WatermarkAt) -> pa.Table:
    """Return the row of a hidden table that says where its watermark stands."""
    kind = table.schema.field(WATERMARK).type
    key = pa.array([0], table.schema.field(WATERMARK_KEY).type)
    return pa.table(
        [key, shown_number(at.number, kind), pa.array([at.late], pa.int64())], schema=table.schema
    )


class WatermarkShown(NamedTuple):
    """What people are told of a table's watermark: its column, where it stands, and how many rows were below it."""

    column: str
    at: str | None
    late_rows: int


def shown_watermarks(reader: Reader, version: Version, stored: StoredCatalog) -> dict[str, WatermarkShown]:
    """Return what there is to tell by table; one that got no row with a time yet stands nowhere."""
    found = {}
    for name, relation in sorted(stored.catalog.relations.items()):
        table = version.tables.get(watermark_name(name))
        if relation.watermark is None or table is None:
            continue
        column = next(c.name for c in relation.columns if c.source == relation.watermark.column)
        number, late = watermark_at(reader, table)
        kind = table.schema.field(WATERMARK).type
        found[name] = WatermarkShown(column, None if number is None else number_text(number, kind), late)
    return found


def shown_number(number: int | None, kind: pa.DataType) -> pa.Array[Any]:
    """Return a number as one value of a column that carries a watermark, the nearest that the column's type has."""
    if number is None:
        return nulls(1, kind)
    nearest = pa.array([within(number, kind)], pa.int64())
    return nearest.cast(pa.int32()).cast(kind) if pa.types.is_date32(kind) else nearest.cast(kind)


def within(number: int, kind: pa.DataType) -> int:
    """Return the number that is nearest to another among those of a column of a type that can carry a watermark.

    >>> within(2**31 + 9, pa.int32())
    2147483647
    """
    bits = kind.bit_width
    return max(-(1 << bits - 1), min(number, (1 << bits - 1) - 1))


def number_text(number: int, kind: pa.DataType) -> str:
    """Return a number of a watermark as people read it: a date, a time without its zone, or the number itself."""
    number = within(number, kind)
    if pa.types.is_date32(kind):
        return day_text(number)
    return moment_text(number) if pa.types.is_timestamp(kind) else str(number)

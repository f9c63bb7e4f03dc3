"""The watermarks of tables: each the one row of a hidden source table, as it is read and as it is written."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa

from engine.arrow import format_day, format_moment, make_nulls
from engine.hummock import Reader, Table, TableVersion, Version
from engine.hummock.rows.expiry import to_int64
from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.sql.catalog import LATE, WATERMARK, WATERMARK_KEY, watermark_name


class WatermarkPosition(NamedTuple):
    """Where a watermark stands, as a number in the unit of its column, and how many rows were below it when they came."""

    number: int | None = None
    late: int = 0


def read_watermark(reader: Reader, table: TableVersion) -> WatermarkPosition:
    """Return where a watermark stands by the newest version of its hidden table."""
    keys = pa.table({WATERMARK_KEY: pa.array([0], table.schema.field(WATERMARK_KEY).type)})
    _, found = reader.lookup(table, keys, table.committed_epoch)
    if not found.num_rows:
        return WatermarkPosition()
    number = to_int64(found.column(WATERMARK).combine_chunks())[0].as_py()
    return WatermarkPosition(number, found.column(LATE)[0].as_py())


def build_watermark_row(table: Table, at: WatermarkPosition) -> pa.Table:
    """Return the row of a hidden table that says where its watermark stands."""
    kind = table.schema.field(WATERMARK).type
    key = pa.array([0], table.schema.field(WATERMARK_KEY).type)
    return pa.table(
        [key, convert_watermark(at.number, kind), pa.array([at.late], pa.int64())], schema=table.schema
    )


class WatermarkReport(NamedTuple):
    """What people are told of a table's watermark: its column, where it stands, and how many rows were below it."""

    column: str
    at: str | None
    late_rows: int


def report_watermarks(reader: Reader, version: Version, stored: StoredCatalog) -> dict[str, WatermarkReport]:
    """Return what there is to tell by table; one that got no row with a time yet stands nowhere."""
    found = {}
    for name, relation in sorted(stored.catalog.relations.items()):
        table = version.tables.get(watermark_name(name))
        if relation.watermark is None or table is None:
            continue
        column = next(c.name for c in relation.columns if c.storage_name == relation.watermark.column)
        number, late = read_watermark(reader, table)
        kind = table.schema.field(WATERMARK).type
        found[name] = WatermarkReport(
            column, None if number is None else format_watermark(number, kind), late
        )
    return found


def convert_watermark(number: int | None, kind: pa.DataType) -> pa.Array[Any]:
    """Return a number as one value of a column that carries a watermark, the nearest that the column's type has."""
    if number is None:
        return make_nulls(1, kind)
    nearest = pa.array([clamp_watermark(number, kind)], pa.int64())
    return nearest.cast(pa.int32()).cast(kind) if pa.types.is_date32(kind) else nearest.cast(kind)


def clamp_watermark(number: int, kind: pa.DataType) -> int:
    """Return the number that is nearest to another among those of a column of a type that can carry a watermark.

    >>> clamp_watermark(2**31 + 9, pa.int32())
    2147483647
    """
    bits = kind.bit_width
    return max(-(1 << bits - 1), min(number, (1 << bits - 1) - 1))


def format_watermark(number: int, kind: pa.DataType) -> str:
    """Return a number of a watermark as people read it: a date, a time without its zone, or the number itself."""
    number = clamp_watermark(number, kind)
    if pa.types.is_date32(kind):
        return format_day(number)
    return format_moment(number) if pa.types.is_timestamp(kind) else str(number)

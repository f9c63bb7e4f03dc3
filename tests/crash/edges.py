"""Values at the ends of their types, and how rows with such are compared: as numbers where Python has no value for them."""

from __future__ import annotations

import struct
from collections import Counter
from decimal import Decimal
from typing import Any

import pyarrow as pa

NAN, INFINITY = float("nan"), float("inf")
OTHER_NAN: float = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000001))[0]
"""A NaN of other bits than Python's own: to a key it is the same."""
LARGEST, SMALLEST, SMALLEST_NORMAL = 1.7976931348623157e308, 5e-324, 2.2250738585072014e-308
DOUBLES = (0.0, NAN, INFINITY, -INFINITY, LARGEST, -LARGEST, SMALLEST, SMALLEST_NORMAL)
FLOATS = (-0.0, NAN, INFINITY, -INFINITY, 3.4028234663852886e38, 1.401298464324817e-45)
WHOLE = ((1 << 63) - 1, -(1 << 63), 0)
SHORT = ((1 << 15) - 1, -(1 << 15), -1)
DECIMALS = tuple(
    Decimal(text)
    for text in (
        "99999999999999999999.999999999999999999",
        "-99999999999999999999.999999999999999999",
        "0.000000000000000001",
    )
)
TEXTS = (
    "",
    " ",
    "it's",
    "日本 🌍",
    "\u202etxet",
    "e\u0301",
    "\ufeff",
    "line\nbreak\r\n\ttab",
    "2016-12-31 23:59:60",
    "null",
)
BYTES = (b"", b"\x00", b"\xff\xfe", b"it's")
DAYS = (-719_162, 2_932_896, 5_000_000, -1_000_000, 0)
"""The first day of the year 1, the last one of 9999, and days beyond either, as days since 1970."""
MICROS = (-62_135_596_800_000_000, 253_402_300_799_999_999, (1 << 63) - 2, -9_223_372_022_400_000_000, -1)
"""Times of the years 1 and 9999, and near the ends of what 64 bits hold, as microseconds since 1970."""


def plain(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """Return the values of a column so that those are equal which the store holds for one: times as numbers, NaN as text."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    elif pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    values: list[Any] = column.to_pylist()
    if pa.types.is_floating(column.type):
        return ["NaN" if value != value else value for value in values]
    return values


def bag(rows: pa.Table | pa.RecordBatch) -> Counter:
    """Return rows with how often each is there."""
    return Counter(zip(*map(plain, rows.columns), strict=True)) if rows.num_rows else Counter()

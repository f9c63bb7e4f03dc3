"""Spark's types of whole numbers, and how wide each is."""

from __future__ import annotations

from pyspark.sql.types import ByteType, DataType, IntegerType, LongType, ShortType

from engine.sql.typing import whole_numbers

TYPES: dict[str, DataType] = {
    "tinyint": ByteType(),
    "smallint": ShortType(),
    "int": IntegerType(),
    "bigint": LongType(),
}
WIDTHS: dict[DataType, int] = {TYPES[name]: bits for name, bits in whole_numbers.WIDTHS.items()}
"""How many bits each has."""
DIGITS: dict[DataType, int] = {TYPES[name]: digits for name, digits in whole_numbers.DIGITS.items()}
"""How many digits the decimal has that each becomes beside decimals."""
COUNTS = tuple(kind for kind, bits in WIDTHS.items() if bits <= 32)
"""Those that Spark takes where it asks for an INT."""

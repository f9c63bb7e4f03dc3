"""Decimals as the whole numbers that they are without their point, where 64 bits hold them.

>>> from decimal import Decimal
>>> numbers = read_unscaled(pa.array([Decimal("1.50"), Decimal("-0.05"), None]))
>>> numbers.tolist()
[150, -5, 0]
>>> write_unscaled(numbers, DecimalType(20, 1)).to_pylist()
[Decimal('15.0'), Decimal('-0.5'), Decimal('0.0')]
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import DecimalType

from engine.operators.arrow.expressions import Inexact


def read_unscaled(column: pa.Array[Any]) -> np.ndarray:
    """Return the numbers of decimals of 128 bits, 0 for null; raises Inexact for more than 64 bits."""
    buffer = column.buffers()[1]
    if buffer is None or not len(column):
        return np.zeros(len(column), dtype=np.int64)
    halves = np.frombuffer(memoryview(buffer), dtype=np.int64).reshape(-1, 2)
    halves = halves[column.offset : column.offset + len(column)]
    known = column.is_valid().to_numpy(zero_copy_only=False)
    low = np.where(known, halves[:, 0], 0)
    if (known & (halves[:, 1] != low >> 63)).any():
        raise Inexact("a decimal of more than 64 bits")
    return low


def write_unscaled(numbers: np.ndarray, kind: DecimalType, absent: np.ndarray | None = None) -> pa.Array[Any]:
    """Return numbers as decimals of a type that has all their digits; those that are `absent` are null."""
    halves = np.empty((len(numbers), 2), dtype=np.int64)
    halves[:, 0], halves[:, 1] = numbers, numbers >> 63
    given = pa.array(halves[:, 0], mask=absent)
    made: pa.Array[Any] = pa.Array.from_buffers(
        pa.decimal128(kind.precision, kind.scale),
        len(numbers),
        [given.buffers()[0], pa.py_buffer(halves.tobytes())],
    )
    return made

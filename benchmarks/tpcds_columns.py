"""Columns of TPC-DS's tables from NumPy arrays: keys, texts, money."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.tpch import to_decimals

MONEY = pa.decimal128(7, 2)
FIRST_DAY = np.datetime64("1998-01-01")
DAYS = 2_191
"""The days of 1998 to 2003."""
FIRST_DATE = 2_450_815
"""The key of the first day: its Julian number, as in the specification."""


def build_keys(values: np.ndarray) -> pa.Array:
    """Return keys; 0 is NULL."""
    return pa.array(values.astype(np.int32), mask=values == 0)


def build_ints(values: np.ndarray | range) -> pa.Array:
    """Return whole numbers of 32 bits."""
    return pa.array(np.asarray(values).astype(np.int32))


def build_money(cents: np.ndarray) -> pa.Array:
    """Return amounts of money."""
    return to_decimals(cents, MONEY)


def read_cents(amounts: pa.ChunkedArray) -> np.ndarray:
    """Return amounts of money, none of them NULL, as cents."""
    return np.rint(amounts.cast(pa.float64()).to_numpy() * 100).astype(np.int64)


def build_ids(number: np.ndarray) -> pa.Array:
    """Return the business keys of numbers, 16 letters long."""
    return join_texts("AAAA", pc.utf8_lpad(pa.array(number).cast(pa.string()), 12, "0"))


def join_texts(*parts: str | pa.Array) -> pa.Array:
    """Return texts one after the other, row by row."""
    return pc.binary_join_element_wise(
        *(pa.scalar(part) if isinstance(part, str) else part.cast(pa.string()) for part in parts), ""
    )


def choose_texts(values: Sequence[str | None], places: np.ndarray) -> pa.Array:
    """Return for each row the value at its place, counted around."""
    return pa.array(values, pa.string()).take(pa.array(places % len(values)))


def draw_texts(chance: np.random.Generator, values: Sequence[str | None], rows: int) -> pa.Array:
    """Return values drawn at random."""
    return choose_texts(values, chance.integers(0, len(values), rows))


def draw_keys(chance: np.random.Generator, count: int, rows: int, nulls: float = 0.02) -> np.ndarray:
    """Return keys of a table of `count` rows drawn at random, some of them 0 for NULL."""
    found = chance.integers(1, count + 1, rows)
    found[chance.random(rows) < nulls] = 0
    return found


def draw_dates(chance: np.random.Generator, rows: int) -> np.ndarray:
    """Return keys of days drawn at random."""
    return FIRST_DATE + chance.integers(0, DAYS, rows)


def compute_dates(number: np.ndarray) -> pa.Array:
    """Return the dates that are so many days after the first."""
    return pa.array(FIRST_DAY + number.astype("timedelta64[D]")).cast(pa.date32())

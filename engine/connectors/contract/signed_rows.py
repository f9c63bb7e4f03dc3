"""Rows in their order, some of which go: what of them is written to a table, by key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from engine.hummock import Reader, TableVersion, xxhash64
from engine.hummock.rows.ordering import order_by_key
from engine.meta.status.dead_letters import DeadLetter


@dataclass(frozen=True)
class SignedRows:
    """Rows of a source under the names of the table's columns; of those that are `gone` the key suffices, None: none is.

    `letters` are what the source itself cannot read as a row.
    """

    rows: pa.Table
    gone: np.ndarray | None = None
    letters: Sequence[DeadLetter] = ()


def select_newest_rows(
    rows: pa.Table, deletes: np.ndarray, key: tuple[str, ...]
) -> tuple[pa.Table, pa.Table]:
    """Return (rows to put, keys to delete) of rows in order: for each key only the last row counts."""
    if not deletes.any():
        return rows, rows.select(list(key)).slice(0, 0)
    order, first = _sort_by_key(rows.select(list(key)))
    last = np.sort(order[np.append(first[1:], True)])
    gone = deletes[last]
    return rows.take(pa.array(last[~gone])), rows.select(list(key)).take(pa.array(last[gone]))


def find_known_keys(reader: Reader, table: TableVersion, keys: pa.Table) -> np.ndarray:
    """Tell which keys stand in a table already, or earlier among these."""
    key = list(table.primary_key)
    order, first = _sort_by_key(keys.select(key))
    again = np.ones(keys.num_rows, dtype=bool)
    again[order[first]] = False
    index, _ = reader.lookup(table, keys, table.committed_epoch, columns=key, null_safe=True)
    again[index] = True
    return again


def _sort_by_key(keys: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows by key, those of a key in their order, and which of them begins one; the store tells keys apart."""
    return order_by_key(xxhash64(keys.columns), keys)


def explain_known_key(table: str) -> str:
    """Return why a row of an APPEND ONLY table is set aside whose key is known."""
    return f"table {table} is APPEND ONLY and holds a row of this key already"

"""ON CONFLICT … WITH VERSION COLUMN: of two rows with a key the one of the lesser version is left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from engine.runtime.writes.conflicts import UPDATE_IF_NOT_NULL, key_that_stands_twice, not_null
from engine.sql.catalog import Relation

_Row = dict[str, Any]


def folded(relation: Relation, rows: pa.Table) -> pa.Table:
    """Return one row a key: what is left when the rows, under the names of the store, come one after the other."""
    key = relation.unique_key
    if key_that_stands_twice(rows, key) is None:
        return rows
    kept: dict[tuple[Any, ...], _Row] = {}
    for row in rows.to_pylist():
        at = tuple(row[name] for name in key)
        before = kept.get(at)
        if before is None:
            kept[at] = row
        elif _version(relation, row) >= _version(relation, before):
            kept[at] = _merged(row, before) if relation.on_conflict == UPDATE_IF_NOT_NULL else row
    return pa.Table.from_pylist(list(kept.values()), rows.schema)


def newer(relation: Relation, rows: pa.Table, known: np.ndarray, stored: pa.Table) -> pa.Table:
    """Return the rows that are not older than those that the table has under their keys, merged where it says so.

    `known` are the indexes of rows with known keys, `stored` their rows in the table.
    """
    versions = list(relation.version_columns)
    taken = rows.select(versions).take(pa.array(known)).to_pylist()
    pairs = zip(taken, stored.select(versions).to_pylist(), strict=True)
    fresh = np.array([_version(relation, new) >= _version(relation, old) for new, old in pairs], dtype=bool)
    if relation.on_conflict == UPDATE_IF_NOT_NULL:
        rows = not_null(rows, known, stored)
    keep = np.ones(rows.num_rows, dtype=bool)
    keep[known[~fresh]] = False
    return rows.filter(pa.array(keep))


def _version(relation: Relation, row: _Row) -> tuple[tuple[int, Any], ...]:
    """Return what a row is compared by: column by column, a null is older than any value, and NaN newer than any other."""
    return tuple(_ordered(row[name]) for name in relation.version_columns)


def _ordered(value: Any) -> tuple[int, Any]:
    if value is None:
        return 0, 0
    return (2, 0) if value != value else (1, value)


def _merged(row: _Row, before: _Row) -> _Row:
    return {name: before[name] if value is None else value for name, value in row.items()}

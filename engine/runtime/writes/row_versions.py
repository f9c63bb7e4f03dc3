"""ON CONFLICT … WITH VERSION COLUMN: of two rows with a key the one of the lesser version is left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from engine.arrow import Column, as_values, holds, positions
from engine.hummock.one_key import key_numbers
from engine.runtime.writes.conflicts import UPDATE_IF_NOT_NULL, key_that_stands_twice, not_null
from engine.sql.catalog import Relation


def folded(relation: Relation, rows: pa.Table) -> pa.Table:
    """Return one row a key: what is left when the rows, under the names of the store, come one after the other."""
    key = relation.unique_key
    if key_that_stands_twice(rows, key) is None:
        return rows
    merges = relation.on_conflict == UPDATE_IF_NOT_NULL
    given = [holds(column.is_valid()) for column in rows.columns] if merges else []
    values = [_ordered(rows.column(name)) for name in relation.version_columns]
    at = [rows.schema.get_field_index(name) for name in relation.version_columns]
    kept: dict[int, list[int]] = {}  # of each key the places that its columns are taken from
    for place, of_key in enumerate(key_numbers(rows.select(list(key))).tolist()):
        new, before = [place] * rows.num_columns, kept.get(of_key)
        if before is not None:
            if [own[place] for own in values] < [own[before[n]] for own, n in zip(values, at, strict=True)]:
                continue
            if merges:
                new = [place if known[place] else old for known, old in zip(given, before, strict=True)]
        kept[of_key] = new
    places = np.array(list(kept.values()))
    arrays = [column.take(positions(places[:, number])) for number, column in enumerate(rows.columns)]
    return pa.Table.from_arrays(arrays, schema=rows.schema)


def newer(relation: Relation, rows: pa.Table, known: np.ndarray, stored: pa.Table) -> pa.Table:
    """Return the rows that are not older than those that the table has under their keys, merged where it says so.

    `known` are the indexes of rows with known keys, `stored` their rows in the table.
    """
    versions = list(relation.version_columns)
    taken, before = rows.select(versions).take(pa.array(known)), stored.select(versions)
    fresh = np.array(
        [new >= old for new, old in zip(_versions(taken), _versions(before), strict=True)], dtype=bool
    )
    if relation.on_conflict == UPDATE_IF_NOT_NULL:
        rows = not_null(rows, known, stored)
    keep = np.ones(rows.num_rows, dtype=bool)
    keep[known[~fresh]] = False
    return rows.filter(pa.array(keep))


def _versions(rows: pa.Table) -> list[tuple[tuple[int, Any], ...]]:
    """Return what rows are compared by: column by column."""
    return list(zip(*map(_ordered, rows.columns), strict=True))


def _ordered(column: Column) -> list[tuple[int, Any]]:
    """Return what values are compared by: a null is older than any value, and NaN newer than any other.

    Times are numbers: Python has not all of them.
    """
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
    return [
        (0, 0) if value is None else (2, 0) if value != value else (1, value) for value in as_values(column)
    ]

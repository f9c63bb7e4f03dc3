"""ON CONFLICT … WITH VERSION COLUMN: of two rows with a key the one of the lesser version is left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from engine.arrow import Column, as_values, to_mask, to_positions
from engine.hummock.rows.key_numbers import number_keys
from engine.runtime.writes.conflicts import UPDATE_IF_NOT_NULL, fill_nulls, find_duplicate_key
from engine.sql.catalog import Relation


def resolve_versions(
    relation: Relation, rows: pa.Table, known: np.ndarray, stored: pa.Table, late: np.ndarray | None = None
) -> pa.Table:
    """Return what a table keeps when rows, under the names of the store, come to it one after the other: one row a key.

    `known` are the indexes of rows with known keys, `stored` their rows in the table. A key of which all rows are older is left
    out. Rows that are `late` and not older stay beside it, for their key is not there afterwards: what comes then is a new row.
    """
    if find_duplicate_key(rows, relation.unique_key) is None:
        return retain_newer(relation, rows, known, stored)
    together = pa.concat_tables([stored.cast(rows.schema), rows])
    base, width = stored.num_rows, rows.num_columns
    merges = relation.on_conflict == UPDATE_IF_NOT_NULL
    valid = [to_mask(column.is_valid()) for column in together.columns] if merges else []
    values = [_to_sort_keys(together.column(name)) for name in relation.version_columns]
    at = [rows.schema.get_field_index(name) for name in relation.version_columns]
    numbers = number_keys(together.select(list(relation.unique_key))).tolist()
    places_by_key = {number: [place] * width for place, number in enumerate(numbers[:base])}
    leaves = [] if late is None else late.tolist()
    taken: dict[int, list[int]] = {}  # of each key the places that its columns are taken from
    gone: list[list[int]] = []
    for place, of_key in enumerate(numbers[base:], start=base):
        new, before = [place] * width, places_by_key.get(of_key)
        if before is not None:
            if [own[place] for own in values] < [own[before[n]] for own, n in zip(values, at, strict=True)]:
                continue
            if merges:
                new = [place if known[place] else old for known, old in zip(valid, before, strict=True)]
        if leaves and leaves[place - base]:
            gone.append([place] * width)
            places_by_key.pop(of_key, None)
            taken.pop(of_key, None)
        else:
            taken[of_key] = places_by_key[of_key] = new
    places = np.array([*gone, *taken.values()], dtype=np.int64).reshape(-1, width)
    arrays = [column.take(to_positions(places[:, number])) for number, column in enumerate(together.columns)]
    return pa.Table.from_arrays(arrays, schema=rows.schema)


def retain_newer(relation: Relation, rows: pa.Table, known: np.ndarray, stored: pa.Table) -> pa.Table:
    """Return the rows that are not older than those that the table has under their keys, merged where it says so.

    `known` are the indexes of rows with known keys, `stored` their rows in the table.
    """
    versions = list(relation.version_columns)
    if not versions:
        return fill_nulls(rows, known, stored)
    arrived, before = rows.select(versions).take(pa.array(known)), stored.select(versions)
    fresh = np.array(
        [new >= old for new, old in zip(_read_versions(arrived), _read_versions(before), strict=True)],
        dtype=bool,
    )
    if relation.on_conflict == UPDATE_IF_NOT_NULL:
        rows = fill_nulls(rows, known, stored)
    keep = np.ones(rows.num_rows, dtype=bool)
    keep[known[~fresh]] = False
    return rows.filter(pa.array(keep))


def _read_versions(rows: pa.Table) -> list[tuple[tuple[int, Any], ...]]:
    """Return what rows are compared by: column by column."""
    return list(zip(*map(_to_sort_keys, rows.columns), strict=True))


def _to_sort_keys(column: Column) -> list[tuple[int, Any]]:
    """Return what values are compared by: a null is older than any value, and NaN newer than any other.

    Times are numbers: Python has not all of them.
    """
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
    return [
        (0, 0) if value is None else (2, 0) if value != value else (1, value) for value in as_values(column)
    ]

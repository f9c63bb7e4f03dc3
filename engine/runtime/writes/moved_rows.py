"""Rows of an UPDATE that get another key: each is deleted under its old key and comes under its new one, in one commit."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from engine.arrow import build_arrow_table
from engine.errors import DuplicateKey
from engine.hummock import Delete, Put, TableVersion
from engine.hummock.rows.key_numbers import find_members
from engine.hummock.writes.batch import Operation
from engine.runtime.writes.conflicts import find_duplicate_key, format_key_at
from engine.runtime.writes.dml_queries import format_old_key, list_key_columns
from engine.runtime.writes.dml_run import TWO_NEW_ROWS, StatementRun, complete_stored_rows


def move_rows(
    run: StatementRun, table: TableVersion, rows: pa.Table
) -> tuple[tuple[Operation, ...], pa.Table]:
    """Return what an UPDATE of key columns writes, and its new rows under the names of the store.

    `rows` have their new values and, as `format_old_key` names it, the key that they had. Raises DuplicateKey if two of the
    new rows have one key, or one has the key of a row of `table` that keeps it.
    """
    relation = run.relation
    key = list_key_columns(relation)
    before = {column.storage_name: rows.column(format_old_key(column)) for column in key}
    whole = complete_stored_rows(
        relation, rows.drop_columns([format_old_key(column) for column in key]), run.spark
    )
    names = list(relation.primary_key)
    gone = build_arrow_table({name: before[name].cast(whole.schema.field(name).type) for name in names})
    if find_duplicate_key(gone, relation.primary_key) is not None:
        raise DuplicateKey(TWO_NEW_ROWS.format(table=relation.name))
    twice = find_duplicate_key(whole, relation.unique_key)
    if twice is not None:
        raise DuplicateKey(f"UPDATE of {relation.name}: two rows would have the key {twice}")
    keys = whole.select(list(relation.unique_key))
    _, known = run.store.reader.lookup(table, keys, table.committed_epoch, columns=names, null_safe=True)
    stays = ~find_members(known, gone)
    if stays.any():
        first = format_key_at(known, relation.unique_key, int(np.flatnonzero(stays)[0]))
        raise DuplicateKey(
            f"UPDATE of {relation.name}: {int(stays.sum())} rows would get keys that other rows have, the first is {first}"
        )
    return (Delete(gone), Put(whole)), whole

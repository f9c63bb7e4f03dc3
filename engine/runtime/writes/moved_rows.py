"""Rows of an UPDATE that get another key: each is deleted under its old key and comes under its new one, in one commit."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from engine.arrow import table_of
from engine.errors import DuplicateKey
from engine.hummock import Delete, Hummock, Put, TableVersion
from engine.hummock.batch import Operation
from engine.hummock.one_key import among
from engine.runtime.writes.conflicts import key_at, key_that_stands_twice
from engine.runtime.writes.dml_queries import key_columns, old_key
from engine.runtime.writes.dml_run import TWO_NEW_ROWS, Spark, whole_rows
from engine.sql.catalog import Relation


def moved_rows(
    store: Hummock, relation: Relation, table: TableVersion, rows: pa.Table, spark: Spark
) -> tuple[tuple[Operation, ...], pa.Table]:
    """Return what an UPDATE of key columns writes, and its new rows under the names of the store.

    `rows` have their new values and, as `old_key` names it, the key that they had. Raises DuplicateKey if two of the new rows
    have one key, or one has the key of a row of `table` that keeps it.
    """
    key = key_columns(relation)
    before = {column.source: rows.column(old_key(column)) for column in key}
    whole = whole_rows(relation, rows.drop_columns([old_key(column) for column in key]), spark)
    names = list(relation.primary_key)
    gone = table_of({name: before[name].cast(whole.schema.field(name).type) for name in names})
    if key_that_stands_twice(gone, relation.primary_key) is not None:
        raise DuplicateKey(TWO_NEW_ROWS.format(table=relation.name))
    twice = key_that_stands_twice(whole, relation.unique_key)
    if twice is not None:
        raise DuplicateKey(f"UPDATE of {relation.name}: two rows would have the key {twice}")
    wanted = whole.select(list(relation.unique_key))
    _, known = store.reader.lookup(table, wanted, table.committed_epoch, columns=names, null_safe=True)
    stays = ~among(known, gone)
    if stays.any():
        first = key_at(known, relation.unique_key, int(np.flatnonzero(stays)[0]))
        raise DuplicateKey(
            f"UPDATE of {relation.name}: {int(stays.sum())} rows would get keys that other rows have, the first is {first}"
        )
    return (Delete(gone), Put(whole)), whole

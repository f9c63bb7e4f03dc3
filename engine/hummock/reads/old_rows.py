"""The rows that a small write replaces, read by their keys where a precondition says that they still stand at its commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from engine.arrow import to_positions
from engine.hummock.rows.key_numbers import find_first_of_each, number_keys
from engine.hummock.version import TableVersion

if TYPE_CHECKING:
    from engine.hummock.reads.reader import Reader

MOST_LOOKED_UP = 1_000
"""Of more keys the old rows are left to who moves the fingerprint on: a lookup of them would take long beside the write."""


def read_rows_of_keys(reader: Reader, table: TableVersion, keys: pa.Table, epoch: int) -> pa.Table:
    """Return the rows that stand under different whole keys at an epoch."""
    return reader.lookup(table, keys, epoch, null_safe=True)[1]


def read_replaced_rows(
    reader: Reader, table: TableVersion, writes: Sequence[pa.Table | pa.RecordBatch]
) -> pa.Table | None:
    """Return the rows that stand under the keys of what is written to a table; None if they are many, or have no fingerprint."""
    count = sum(rows.num_rows for rows in writes)
    if not table.table.has_fingerprint or not 0 < count <= MOST_LOOKED_UP:
        return None
    fields = [table.schema.field(name).with_nullable(True) for name in table.primary_key]
    parts = [
        pa.table([part.column(field.name).cast(field.type) for field in fields], schema=pa.schema(fields))
        for part in writes
    ]
    keys = pa.concat_tables(parts)
    first = find_first_of_each(number_keys(keys))
    keys = keys if len(first) == keys.num_rows else keys.take(to_positions(first))
    return read_rows_of_keys(reader, table, keys, table.committed_epoch)

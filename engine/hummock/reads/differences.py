"""All rows that a table is to have against those that stand in it: what is to be put, and which keys are to go."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from engine.hummock.rows.key_numbers import number_keys
from engine.hummock.rows.ordering import identical_values, one_chunk
from engine.hummock.store import Hummock
from engine.hummock.version import TableVersion


def select_different(store: Hummock, table: TableVersion, puts: pa.Table) -> pa.Table:
    """Return the rows that do not stand in the table as they are."""
    keys = puts.select(list(table.primary_key))
    index, stored = store.reader.lookup(
        table, keys, table.committed_epoch, columns=puts.column_names, null_safe=True
    )
    same = np.ones(len(index), dtype=bool)
    matched = puts.take(pa.array(index))
    for name in puts.column_names:
        same &= identical_values(one_chunk(matched.column(name)), one_chunk(stored.column(name)))
    keep = np.ones(puts.num_rows, dtype=bool)
    keep[index[same]] = False
    return puts.filter(pa.array(keep))


def find_other_keys(store: Hummock, table: TableVersion, known: Sequence[pa.Table]) -> pa.Table:
    """Return the keys that stand in the table, and are not among those that are known."""
    key = list(table.primary_key)
    schema = pa.schema([table.schema.field(name) for name in key])
    batches = store.reader.scan(table, table.committed_epoch, columns=key)
    stored = pa.Table.from_batches(batches, schema)
    kept = pa.concat_tables([schema.empty_table(), *(keys.cast(schema) for keys in known)])
    numbers = number_keys(pa.concat_tables([kept, stored]))
    is_known = np.zeros(int(numbers.max(initial=-1)) + 1, dtype=bool)
    is_known[numbers[: kept.num_rows]] = True
    return stored.filter(pa.array(~is_known[numbers[kept.num_rows :]]))

"""Range scans of tables that are ordered by their primary key: binary search of both bounds in each file,
then a merge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from engine.errors import InvalidRow
from engine.hummock.expiry import expiry_at
from engine.hummock.files import with_columns
from engine.hummock.merge import merge_newest, sources_of, without_tombstones
from engine.hummock.ordering import bisect_keys, normalized_key
from engine.hummock.reader import Reader, batches
from engine.hummock.version import HASH, OP, TableVersion

KeyRange = tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]


def scan_range(
    reader: Reader, table: TableVersion, epoch: int, bounds: KeyRange, columns: list[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows from `bounds[0]` (inclusive) to `bounds[1]` (exclusive) in key order.

    Raises InvalidRow for a table with a distribution key: its rows are ordered by hash, not by key.
    """
    if table.distribution_key:
        raise InvalidRow(
            f"table {table.name} is distributed by {', '.join(table.distribution_key)} and has no key order: "
            f"scan it whole, or create it without a distribution key"
        )
    low, high = (_bound(table, bound) for bound in bounds)
    ssts = sources_of(table.as_of(epoch))
    expiry = expiry_at(table, epoch)
    hiding = [] if expiry is None else expiry.columns
    needed = list(dict.fromkeys([HASH, *table.primary_key, OP, *columns, *hiding]))
    slices = []
    for sst in ssts:
        rows = reader.files.whole(sst).rows
        first = 0 if low is None else _place(rows, low)
        last = rows.num_rows if high is None else _place(rows, high)
        if first < last:
            slices.append(with_columns(rows.slice(first, last - first), needed, table.schema, sst))
    if not slices:
        return iter(())
    merged = merge_newest(slices, table.primary_key)
    merged = without_tombstones(merged if expiry is None else expiry.as_deletions(merged))
    return batches(merged.select(columns), pa.schema([table.schema.field(name) for name in columns]))


def _bound(table: TableVersion, bound: Mapping[str, Any] | None) -> pa.Table | None:
    if not bound:
        return None
    names = list(table.primary_key[: len(bound)])
    if set(names) != set(bound):
        raise InvalidRow(
            f"table {table.name}: a bound gives leading columns of the key {', '.join(table.primary_key)}"
        )
    arrays = [normalized_key(pa.array([bound[name]], table.schema.field(name).type)) for name in names]
    return pa.table(arrays, names=names)


def _place(rows: pa.Table, bound: pa.Table) -> int:
    start, end = np.zeros(1, dtype=np.int64), np.full(1, rows.num_rows, dtype=np.int64)
    return int(bisect_keys(rows.select(bound.column_names), bound, start, end, right=False)[0])

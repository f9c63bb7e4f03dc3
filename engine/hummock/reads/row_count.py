"""How many rows a table has at an epoch: those of its oldest run, and what the keys of the newer ones add or take away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from engine.hummock.reads.look_ahead import build_loader
from engine.hummock.reads.lookup import find_rows, prepare_keys
from engine.hummock.reads.merge import list_newest_first, merge_parts
from engine.hummock.rows.expiry import RowExpiry, expiry_at
from engine.hummock.sorted_files.file_set import FileSet
from engine.hummock.version import HASH, OP, Run, TableVersion


def count_rows(files: FileSet, table: TableVersion, epoch: int) -> int:
    """Return the number of rows at an epoch. The cost follows what was written since the oldest run; where rows hide by
    themselves it follows the table. Raises EpochExpired.
    """
    runs, expiry = table.as_of(epoch), expiry_at(table, epoch)
    if expiry is not None:
        needed = list(dict.fromkeys([HASH, *table.primary_key, OP, *expiry.columns]))
        return sum(rows.num_rows for rows in _merge(files, table, runs, needed, expiry))
    if not runs:
        return 0
    *newer, oldest = runs
    total = sum(sst.rows - sst.tombstones for sst in oldest)
    later = [sst for run in newer for sst in run]
    if all(sst.new_keys and not sst.tombstones for sst in later):
        return total + sum(sst.rows for sst in later)
    names = [HASH, *table.primary_key, OP]
    for rows in _merge(files, table, newer, names, None):
        keys, hashes = rows.select(list(table.primary_key)), rows.column(HASH).to_numpy()
        sought = prepare_keys(table.table, keys, null_safe=True, hashes=hashes)
        found, _ = find_rows(files, table.table, (oldest,), sought, table.primary_key[:1])
        known = np.zeros(rows.num_rows, dtype=bool)
        known[found] = True
        puts = rows.column(OP).to_numpy() == 0
        total += int((puts & ~known).sum()) - int((~puts & known).sum())
    return total


def _merge(
    files: FileSet, table: TableVersion, runs: Sequence[Run], names: list[str], expiry: RowExpiry | None
) -> Iterator[pa.Table]:
    """Yield the newest row of each key of some runs; deletions too, unless rows hide."""
    load, ssts = build_loader(files, names, table.schema), list_newest_first(runs)
    keep = expiry is None
    return merge_parts(ssts, load, table.primary_key, None, keep_tombstones=keep, expiry=expiry)

"""Newest-wins merge of sorted files, one hash range at a time, so that memory follows the range and not the
table.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import ceil

import numpy as np
import pyarrow as pa

from engine.arrow import to_positions
from engine.hummock.rows.expiry import RowExpiry
from engine.hummock.rows.ordering import one_chunk, order_by_key
from engine.hummock.version import HASH, OP, Run, SstInfo

MERGE_ROWS = 500_000
MERGE_BYTES = 1 << 28
HASHES, LOWEST, HIGHEST = 1 << 64, -(1 << 63), (1 << 63) - 1
HashRange = tuple[int, int]
Load = Callable[[Sequence[SstInfo], Iterable[SstInfo]], Sequence[pa.Table]]
"""Gives the rows of files that are needed together; the others are those that will be needed next."""


def list_newest_first(runs: Sequence[Run]) -> list[SstInfo]:
    """Return the files of runs (newest first) from newest to oldest; within a run a later file wins."""
    return [sst for run in runs for sst in reversed(run)]


def split_hash_range(ssts: Sequence[SstInfo], hash_range: HashRange | None) -> list[HashRange]:
    """Cut a hash range into inclusive parts that hold about MERGE_ROWS rows each, judged by the files' own
    ranges.
    """
    low, high = hash_range or (LOWEST, HIGHEST)
    reached = [sst for sst in ssts if sst.max_hash >= low and sst.min_hash <= high]
    if not reached:
        return []
    low = max(low, min(sst.min_hash for sst in reached))
    high = min(high, max(sst.max_hash for sst in reached))
    rows = sum(sst.rows * _overlap(sst, low, high) for sst in reached)
    size = sum(sst.size * _overlap(sst, low, high) for sst in reached)
    parts = min(max(1, ceil(rows / MERGE_ROWS), ceil(size / MERGE_BYTES)), high - low + 1)
    bounds = [low + (high - low + 1) * i // parts for i in range(parts + 1)]
    return [(a, b - 1) for a, b in itertools.pairwise(bounds)]


def _overlap(sst: SstInfo, low: int, high: int) -> float:
    inside = min(sst.max_hash, high) - max(sst.min_hash, low) + 1
    return inside / (sst.max_hash - sst.min_hash + 1)


def merge_parts(
    ssts: Sequence[SstInfo],
    load: Load,
    primary_key: tuple[str, ...],
    hash_range: HashRange | None,
    *,
    keep_tombstones: bool,
    expiry: RowExpiry | None = None,
) -> Iterator[pa.Table]:
    """Yield the newest row of each key in (hash, key) order, part by part.

    `ssts` from newest to oldest. `load` gives the files' `_hash`, key, `_op` and wanted columns; files are let
    go of when passed. What `expiry` hides counts as deleted; `load` gives its columns too.
    """
    loaded: dict[int, pa.Table] = {}
    parts = split_hash_range(ssts, hash_range)
    for n, (low, high) in enumerate(parts, 1):
        reached = _list_reached(ssts, low, high)
        loaded = {at: loaded[at] for at in reached if at in loaded}
        due = [at for at in reached if at not in loaded]
        later = (ssts[at] for part in parts[n:] for at in _list_reached(ssts, *part) if at not in loaded)
        loaded |= dict(zip(due, load([ssts[at] for at in due], later), strict=True))
        slices = []
        for at in reached:
            part = slice_hashes(loaded[at], low, high)
            if part.num_rows:
                slices.append((part, ssts[at].has_tombstones))
        if not slices:
            continue
        merged = merge_newest([part for part, _ in slices], primary_key)
        if expiry is not None:
            merged = expiry.as_deletions(merged)
        if not keep_tombstones and (expiry is not None or any(deleted for _, deleted in slices)):
            merged = drop_tombstones(merged)
        if merged.num_rows:
            yield merged


def _list_reached(ssts: Sequence[SstInfo], low: int, high: int) -> list[int]:
    return [at for at, sst in enumerate(ssts) if sst.max_hash >= low and sst.min_hash <= high]


def slice_hashes(rows: pa.Table, low: int, high: int) -> pa.Table:
    """Return the rows of a sorted file with a hash in [low, high]; copies nothing."""
    hashes = one_chunk(rows.column(HASH)).to_numpy()
    first = 0 if low <= LOWEST else int(np.searchsorted(hashes, low, side="left"))
    last = len(hashes) if high >= HIGHEST else int(np.searchsorted(hashes, high, side="right"))
    return rows.slice(first, last - first)


def merge_newest(tables: Sequence[pa.Table], primary_key: tuple[str, ...]) -> pa.Table:
    """Return the newest row of each key of sorted tables, given from newest to oldest; deletions stay in."""
    if len(tables) == 1:
        return tables[0]
    rows = pa.concat_tables(tables)
    hashes = rows.column(HASH).to_numpy()
    sources = np.repeat(np.arange(len(tables)), [table.num_rows for table in tables])
    order, first = order_by_key(hashes, rows.select(list(primary_key)), sources)
    return rows.take(pa.array(order[first]))


def drop_tombstones(rows: pa.Table) -> pa.Table:
    """Return the rows that are not deletions."""
    operations = rows.column(OP).to_numpy()
    if not operations.any():
        return rows
    return rows.take(to_positions(np.flatnonzero(operations == 0)))

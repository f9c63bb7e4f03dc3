"""Range scans in the order of the primary key, of a whole table or of one value of its distribution key: binary search of both
bounds in each file, then a merge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from engine.arrow import as_rows
from engine.errors import InvalidRow
from engine.hummock.reads.look_ahead import LookAhead
from engine.hummock.reads.merge import drop_tombstones, list_newest_first, merge_newest
from engine.hummock.reads.reader import Reader, split_batches
from engine.hummock.rows.expiry import expiry_at
from engine.hummock.rows.ordering import as_numbers, bisect_keys, normalize_key
from engine.hummock.rows.row_hash import xxhash64
from engine.hummock.sorted_files.file_set import SortedFile, with_columns
from engine.hummock.version import HASH, OP, SstInfo, TableVersion

FIRST_STEP = 16
"""So many rows of each file are looked at first for the first row of a range."""
ReadNumbers = Callable[[str], np.ndarray | None]
ScanBounds = tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]


@dataclass(frozen=True)
class KeyBound:
    """One row of leading key columns, as they are compared."""

    row: pa.Table

    @cached_property
    def numbers(self) -> tuple[Any, ...]:
        """The values as numbers of their columns' types, None where they are none."""
        found = map(as_numbers, self.row.columns)
        return tuple(None if numbers is None else numbers[0] for numbers in found)


def scan_range(
    reader: Reader,
    table: TableVersion,
    epoch: int,
    bounds: ScanBounds,
    columns: list[str],
    *,
    through: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows from `bounds[0]` (inclusive) to `bounds[1]` (exclusive, with `through` inclusive) in key order.

    Raises InvalidRow for a table with a distribution key, unless both bounds give one value of it: its rows are ordered by hash.
    """
    merged = _merge_slices(reader, table, epoch, _slice_files(reader, table, epoch, bounds, through), columns)
    if merged is None:
        return iter(())
    rows = drop_tombstones(merged)
    return split_batches(rows.select(columns), pa.schema([table.schema.field(name) for name in columns]))


def find_first_in_range(
    reader: Reader, table: TableVersion, epoch: int, bounds: ScanBounds, columns: list[str]
) -> dict[str, Any] | None:
    """Return `columns` of the first row in a range of `scan_range`, None if it has none.

    The cost follows the files, and the deletions before that row, not the rows of the range.
    """
    found, step = _slice_files(reader, table, epoch, bounds), FIRST_STEP
    while found:
        slices = [(sst, rows.slice(0, step)) for sst, rows in found]
        merged = _merge_slices(reader, table, epoch, slices, columns)
        assert merged is not None
        certain, key = merged.num_rows, list(table.primary_key)
        for _, rows in found:
            if (
                rows.num_rows > step
            ):  # what follows its last row may hold newer rows of what stands behind that
                edge = KeyBound(normalize_rows(rows.slice(step - 1, 1).select(key)))
                certain = min(certain, _locate_bound(merged, edge, right=True))
        first = drop_tombstones(merged.slice(0, certain)).slice(0, 1)
        if first.num_rows:
            return as_rows(first.select(columns))[0]
        if all(rows.num_rows <= step for _, rows in found):
            return None
        step *= 8
    return None


def estimate_rows_in_ranges(
    reader: Reader, table: TableVersion, epoch: int, ranges: Iterable[ScanBounds], *, through: bool = False
) -> int:
    """Return an upper bound of the rows in ranges of `scan_range`, which reads none of them: what the files have there."""
    found = 0
    opened = [file for _, file in _open_files(reader, table, epoch)]
    for bounds in ranges:
        _check_bounds(table, bounds)
        low, high = (_build_bound(table, bound) for bound in bounds)
        for file in opened:
            first, last = _locate_range(file, low, high, through)
            found += max(0, last - first)
    return found


def _open_files(reader: Reader, table: TableVersion, epoch: int) -> Iterator[tuple[SstInfo, SortedFile]]:
    return LookAhead(reader.files).open_all(list_newest_first(table.as_of(epoch)))


def _slice_files(
    reader: Reader, table: TableVersion, epoch: int, bounds: ScanBounds, through: bool = False
) -> list[tuple[SstInfo, pa.Table]]:
    """Return of each file, newest first, the rows within the bounds, deletions among them."""
    _check_bounds(table, bounds)
    low, high = (_build_bound(table, bound) for bound in bounds)
    found = []
    for sst, file in _open_files(reader, table, epoch):
        first, last = _locate_range(file, low, high, through)
        if first < last:
            found.append((sst, file.rows.slice(first, last - first)))
    return found


def _locate_range(
    file: SortedFile, low: KeyBound | None, high: KeyBound | None, through: bool
) -> tuple[int, int]:
    """Return the first place within bounds, and the one after the last."""
    rows, read = file.rows, file.read_numbers
    first = 0 if low is None else _locate_bound(rows, low, read)
    return first, rows.num_rows if high is None else _locate_bound(rows, high, read, right=through)


def _merge_slices(
    reader: Reader,
    table: TableVersion,
    epoch: int,
    slices: list[tuple[SstInfo, pa.Table]],
    columns: list[str],
) -> pa.Table | None:
    """Return the newest row of each key in slices of files, deletions among them."""
    if not slices:
        return None
    expiry = expiry_at(table, epoch)
    hiding = [] if expiry is None else expiry.columns
    needed = list(dict.fromkeys([HASH, *table.primary_key, OP, *columns, *hiding]))
    rows = [with_columns(part, needed, table.schema, sst) for sst, part in slices]
    merged = merge_newest(rows, table.primary_key)
    return merged if expiry is None else expiry.as_deletions(merged)


def _check_bounds(table: TableVersion, bounds: ScanBounds) -> None:
    by = table.distribution_key
    low, high = ({} if bound is None else bound for bound in bounds)
    if not by or all(column in low and column in high and low[column] == high[column] for column in by):
        return
    raise InvalidRow(
        f"table {table.name} is distributed by {', '.join(by)} and has no key order: scan it whole, give one value of "
        "that in both bounds, or create it without a distribution key"
    )


def _build_bound(table: TableVersion, bound: Mapping[str, Any] | None) -> KeyBound | None:
    if not bound:
        return None
    names = list(table.primary_key[: len(bound)])
    if set(names) != set(bound):
        raise InvalidRow(
            f"table {table.name}: a bound gives leading columns of the key {', '.join(table.primary_key)}"
        )
    found = pa.table([pa.array([bound[name]], table.schema.field(name).type) for name in names], names=names)
    if table.distribution_key:
        hashes = xxhash64([found.column(name) for name in table.distribution_key])
        found = found.add_column(0, HASH, pa.array(hashes))
    return KeyBound(normalize_rows(found))


def normalize_rows(rows: pa.Table) -> pa.Table:
    """Return rows of a key as they are compared."""
    return pa.table([normalize_key(column) for column in rows.columns], names=rows.column_names)


def _locate_bound(
    rows: pa.Table, bound: KeyBound, read: ReadNumbers = lambda name: None, *, right: bool = False
) -> int:
    """Return where a bound stands among sorted rows: before equal ones, or with `right` after them.

    `read` gives a whole column as numbers where that is known.
    """
    low, high, names = 0, rows.num_rows, bound.row.column_names
    for n, (name, number) in enumerate(zip(names, bound.numbers, strict=True)):
        if low == high:
            return low
        mine = None  # as long as columns are numbers each narrows the rows for the next
        if number is not None:
            whole = read(name)
            mine = as_numbers(rows.column(name).slice(low, high - low)) if whole is None else whole[low:high]
        if mine is None:
            rest, start, end = names[n:], np.array([low], dtype=np.int64), np.array([high], dtype=np.int64)
            return int(bisect_keys(rows.select(rest), bound.row.select(rest), start, end, right=right)[0])
        low, high = (low + int(mine.searchsorted(number, side)) for side in ("left", "right"))
    return high if right else low

"""The merge of a task: its runs become files, of one range of hashes in any process that reaches the store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from engine.hummock.compaction.pickers.vnode import list_group_bounds
from engine.hummock.compaction.task import TARGET_BYTES, TARGET_ROWS, CompactionTask, count_run_rows
from engine.hummock.monitoring.driver_traffic import track_rows
from engine.hummock.reads.look_ahead import build_loader, build_range_loader
from engine.hummock.reads.merge import (
    HIGHEST,
    LOWEST,
    HashRange,
    list_newest_first,
    merge_parts,
    split_hash_range,
)
from engine.hummock.reads.reader import Reader
from engine.hummock.rows.expiry import RowExpiry, expiry_at, to_int64
from engine.hummock.rows.ordering import one_chunk
from engine.hummock.sorted_files.sst import MAX_BYTES, build_file_schema, split_pieces
from engine.hummock.version import OP, ROW_EPOCH, Run, SstInfo, Table

WHOLE: HashRange = (LOWEST, HIGHEST)
UNLIKE = 1.05
"""Parts of a merge have about as many rows each: so many times those of the first at most, but for tables with crowded hashes."""


@dataclass(frozen=True)
class Merge:
    """What a task merges: runs of a table, newest first, and by which rules; without the history, so that it can be sent.

    What `expiry` hides counts as deleted; deletions go unless `keep_tombstones`. New files end at the bounds of `groups` equal
    ranges of hashes, and have `file_rows` rows at most.
    """

    table: Table
    runs: tuple[Run, ...]
    keep_tombstones: bool
    expiry: RowExpiry | None
    groups: int
    file_rows: int

    @property
    def rows(self) -> int:
        """Rows that are read."""
        return sum(map(count_run_rows, self.runs))

    @property
    def size(self) -> int:
        """Bytes in memory of the rows that are read."""
        return sum(sst.size for run in self.runs for sst in run)


def build_merge(task: CompactionTask) -> Merge:
    """Return the merge of a task that moves nothing."""
    table = task.table
    expiry = expiry_at(table, max(table.last_change, task.hidden_at))
    return Merge(table.table, task.merge, bool(task.rest), expiry, task.groups, _choose_file_rows(task))


def _choose_file_rows(task: CompactionTask) -> int:
    """Return how many rows a file may have: as many as fill it, and no more than are written as one file."""
    files = [sst for run in task.merge for sst in run]
    rows = max(task.rows, 1)
    stored, size = (max(1, sum(sizes)) for sizes in ([f.length for f in files], [f.size for f in files]))
    return max(1, min(TARGET_ROWS, TARGET_BYTES * rows // stored, MAX_BYTES * rows // size))


def merge_range(reader: Reader, merge: Merge, hash_range: HashRange = WHOLE) -> Run:
    """Merge the rows in a range of hashes and write them as files, durable but not visible."""
    low, high = hash_range
    groups = [
        (max(a, low), min(b, high)) for a, b in list_group_bounds(merge.groups) if a <= high and b >= low
    ]
    return tuple(sst for group in groups for sst in _write_files(reader, merge, group, hash_range == WHOLE))


def _merge_parts(reader: Reader, merge: Merge, hash_range: HashRange, whole: bool) -> Iterator[pa.Table]:
    """Yield what the files hold together; what is hidden is left out, or a deletion where an older row may lie below."""
    columns = build_file_schema(merge.table).names
    if merge.table.options.ttl_seconds is not None:
        columns = [*columns, ROW_EPOCH]
    files, schema = reader.files, merge.table.schema
    parts = merge_parts(
        list_newest_first(merge.runs),
        build_loader(files, columns, schema)
        if whole
        else build_range_loader(files, columns, schema, hash_range),
        merge.table.primary_key,
        hash_range,
        keep_tombstones=merge.keep_tombstones,
        expiry=merge.expiry,
    )
    return parts if merge.expiry is None else (_clear_values(rows, merge.table) for rows in parts)


def _clear_values(rows: pa.Table, table: Table) -> pa.Table:
    """Take the values from deletions."""
    deleted = pc.not_equal(rows.column(OP), pa.scalar(0, pa.uint8()))
    if not pc.any(deleted).as_py():
        return rows
    for name in table.value_columns:
        at, field = rows.column_names.index(name), rows.schema.field(name)
        emptied = pc.if_else(deleted, pa.nulls(1, field.type)[0], rows.column(name))
        rows = rows.set_column(at, field, emptied)
    return rows


def _write_files(reader: Reader, merge: Merge, hash_range: HashRange, whole: bool) -> Iterator[SstInfo]:
    """Write files of about as many rows each, which end where a part ends: between two hashes.

    A small file at the end of each range would be merged again and again. `whole` says that the other ranges are read here, too.
    """
    parts = len(split_hash_range(list_newest_first(merge.runs), hash_range))
    files, gathered, rows = 0, list[pa.Table](), 0
    for number, part in enumerate(_merge_parts(reader, merge, hash_range, whole), start=1):
        files = files or _count_files(parts, part.num_rows, merge.file_rows)
        if gathered and rows + part.num_rows > merge.file_rows:
            yield from _flush_files(reader, merge.table, gathered)
            gathered, rows = [], 0
        gathered.append(track_rows(part))
        rows += part.num_rows
        if number * files // parts > (number - 1) * files // parts:
            yield from _flush_files(reader, merge.table, gathered)
            gathered, rows = [], 0
    if gathered:
        yield from _flush_files(reader, merge.table, gathered)


def _count_files(parts: int, rows: int, file_rows: int) -> int:
    """Return how many files so many parts make, of which the first has so many rows."""
    return ceil(parts / max(1, int(file_rows / (rows * UNLIKE))))


def _flush_files(reader: Reader, table: Table, gathered: list[pa.Table]) -> Iterator[SstInfo]:
    pieces = [piece.combine_chunks() for piece in split_pieces(pa.concat_tables(gathered))]
    for rows, sst in zip(pieces, reader.write_pieces(pieces), strict=True):
        yield _measure_expiry(table, rows, sst)


def _measure_expiry(table: Table, rows: pa.Table, sst: SstInfo) -> SstInfo:
    """Return a file with the ranges by which it is seen when its rows expire."""
    column = table.options.watermark_column
    if ROW_EPOCH in rows.column_names:
        sst = msgspec.structs.replace(sst, oldest=pc.min(rows.column(ROW_EPOCH)).as_py())
    if column is not None:
        numbers = to_int64(one_chunk(rows.column(column)))
        if numbers.null_count < len(numbers):
            sst = msgspec.structs.replace(sst, spread=(pc.min(numbers).as_py(), pc.max(numbers).as_py()))
    return sst

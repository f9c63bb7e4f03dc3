"""The executor: merges a task's files; a pure function of the task and the object store, in any process that reaches both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from engine.hummock.compaction.pickers.vnode import bounds
from engine.hummock.compaction.task import TARGET_BYTES, TARGET_ROWS, CompactionTask
from engine.hummock.expiry import Expiry, as_numbers, expiry_at
from engine.hummock.merge import HashRange, merged_parts, sources_of
from engine.hummock.ordering import one_chunk
from engine.hummock.reader import Reader
from engine.hummock.sst import pieces, stored_schema
from engine.hummock.verified import check_result
from engine.hummock.version import OP, ROW_EPOCH, Compaction, Run, SstInfo, Table
from engine.verification import verifying


def run_task(reader: Reader, task: CompactionTask) -> Compaction:
    """Do a task and return what a commit needs; the new files are durable, nothing is visible yet."""
    table = task.table
    merged = _moved(task) if task.move else tuple(_merge(reader, task))
    runs = (*task.above, merged, *task.rest) if merged else (*task.above, *task.rest)
    done = Compaction(table.table_id, table.generations[-1], table.last_change, runs)
    if verifying():
        before, at = (*task.above, *task.merge, *task.rest), max(table.last_change, task.hidden_at)
        check_result(reader.files, table, before, done, at, merged if task.move else None)
    return done


def run_elsewhere(url: str, options: Mapping[str, Any], task: CompactionTask) -> Compaction:
    """Do a task in a process that has only the store's address, as a Spark task does; arguments and result can be pickled.

    `options` as `Hummock.options` gives them. Who asked commits the result: `Hummock.commit_compaction`.
    """
    return run_task(Reader.open(url, options), task)


def _moved(task: CompactionTask) -> Run:
    return tuple(sorted((sst for run in task.merge for sst in run), key=lambda sst: sst.min_hash))


def _merge(reader: Reader, task: CompactionTask) -> Iterator[SstInfo]:
    expiry = expiry_at(task.table, max(task.table.last_change, task.hidden_at))
    for hash_range in bounds(task.groups) if task.groups > 1 else [None]:
        merged = _merged(reader, task, hash_range, expiry)
        yield from _write(reader, task.table.table, merged, _rows_a_file(task))


def _merged(
    reader: Reader, task: CompactionTask, hash_range: HashRange | None, expiry: Expiry | None
) -> Iterator[pa.Table]:
    """Yield what the files hold together; what is hidden is left out, or a deletion where an older row may lie below."""
    columns = stored_schema(task.table.table).names
    if task.table.table.options.ttl_seconds is not None:
        columns = [*columns, ROW_EPOCH]
    parts = merged_parts(
        sources_of(task.merge),
        lambda sst: reader.files.columns(sst, columns, task.table.schema),
        task.table.primary_key,
        hash_range,
        keep_tombstones=bool(task.rest),
        expiry=expiry,
    )
    return parts if expiry is None else (_without_values(rows, task.table.table) for rows in parts)


def _without_values(rows: pa.Table, table: Table) -> pa.Table:
    """Take the values from deletions."""
    deleted = pc.not_equal(rows.column(OP), pa.scalar(0, pa.uint8()))
    if not pc.any(deleted).as_py():
        return rows
    for name in table.value_columns:
        at, field = rows.column_names.index(name), rows.schema.field(name)
        emptied = pc.if_else(deleted, pa.nulls(1, field.type)[0], rows.column(name))
        rows = rows.set_column(at, field, emptied)
    return rows


def _rows_a_file(task: CompactionTask) -> int:
    stored = sum(sst.length for run in task.merge for sst in run)
    return max(1, min(TARGET_ROWS, TARGET_BYTES * max(task.rows, 1) // max(stored, 1)))


def _write(reader: Reader, table: Table, parts: Iterator[pa.Table], rows_a_file: int) -> Iterator[SstInfo]:
    """Write parts as files that end where a part ends, which is between two hashes."""
    gathered: list[pa.Table] = []
    for part in parts:
        gathered.append(part)
        if sum(rows.num_rows for rows in gathered) >= rows_a_file:
            yield from _flush(reader, table, gathered)
            gathered = []
    if gathered:
        yield from _flush(reader, table, gathered)


def _flush(reader: Reader, table: Table, gathered: list[pa.Table]) -> Iterator[SstInfo]:
    cut = [piece.combine_chunks() for piece in pieces(pa.concat_tables(gathered))]
    for rows, sst in zip(cut, reader.write_pieces(cut), strict=True):
        yield _measured(table, rows, sst)


def _measured(table: Table, rows: pa.Table, sst: SstInfo) -> SstInfo:
    """Return a file with the ranges by which it is seen when its rows expire."""
    column = table.options.watermark_column
    if ROW_EPOCH in rows.column_names:
        sst = msgspec.structs.replace(sst, oldest=pc.min(rows.column(ROW_EPOCH)).as_py())
    if column is not None:
        numbers = as_numbers(one_chunk(rows.column(column)))
        if numbers.null_count < len(numbers):
            sst = msgspec.structs.replace(sst, spread=(pc.min(numbers).as_py(), pc.max(numbers).as_py()))
    return sst

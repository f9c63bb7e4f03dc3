"""The executor: merges a task's files; a pure function of the task and the object store, in any process that reaches both."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from engine.hummock.compaction.pickers.vnode import bounds
from engine.hummock.compaction.task import TARGET_BYTES, TARGET_ROWS, CompactionTask
from engine.hummock.merge import HashRange, merged_parts, sources_of
from engine.hummock.reader import Reader
from engine.hummock.sst import pieces, stored_schema
from engine.hummock.version import Compaction, Run, SstInfo


def run_task(reader: Reader, task: CompactionTask) -> Compaction:
    """Do a task and return what a commit needs; the new files are durable, nothing is visible yet."""
    table = task.table
    merged = _moved(task) if task.move else tuple(_merge(reader, task))
    runs = (*task.above, merged, *task.rest) if merged else (*task.above, *task.rest)
    return Compaction(table.table_id, table.generations[-1], table.last_change, runs)


def _moved(task: CompactionTask) -> Run:
    return tuple(sorted((sst for run in task.merge for sst in run), key=lambda sst: sst.min_hash))


def _merge(reader: Reader, task: CompactionTask) -> Iterator[SstInfo]:
    for hash_range in bounds(task.groups) if task.groups > 1 else [None]:
        yield from _write(reader, _merged(reader, task, hash_range), _rows_a_file(task))


def _merged(reader: Reader, task: CompactionTask, hash_range: HashRange | None) -> Iterator[pa.Table]:
    columns = stored_schema(task.table.table).names
    return merged_parts(
        sources_of(task.merge),
        lambda sst: reader.files.columns(sst, columns, task.table.schema),
        task.table.primary_key,
        hash_range,
        keep_tombstones=bool(task.rest),
    )


def _rows_a_file(task: CompactionTask) -> int:
    stored = sum(sst.length for run in task.merge for sst in run)
    return max(1, min(TARGET_ROWS, TARGET_BYTES * max(task.rows, 1) // max(stored, 1)))


def _write(reader: Reader, parts: Iterator[pa.Table], rows_a_file: int) -> Iterator[SstInfo]:
    """Write parts as files that end where a part ends, which is between two hashes."""
    gathered: list[pa.Table] = []
    for part in parts:
        gathered.append(part)
        if sum(rows.num_rows for rows in gathered) >= rows_a_file:
            yield from _flush(reader, gathered)
            gathered = []
    if gathered:
        yield from _flush(reader, gathered)


def _flush(reader: Reader, gathered: list[pa.Table]) -> Iterator[SstInfo]:
    yield from reader.write_pieces([piece.combine_chunks() for piece in pieces(pa.concat_tables(gathered))])

"""Compaction: a picker reads a table version and returns a task; the executor merges the task's files; a
commit swaps them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from engine.hummock.merge import merged_parts, sources_of
from engine.hummock.reader import Reader
from engine.hummock.sst import pieces, stored_schema
from engine.hummock.version import Compaction, Run, SstInfo, Table, TableVersion

TARGET_BYTES = 128 << 20
TARGET_ROWS = 2_000_000
TIER_EVERY = 16
TIER_LARGE_EVERY = 64
TIER_LARGE_BYTES = 4 << 20
"""Sub-levels that are this large on average are merged more rarely: a merge costs by bytes and saves by count."""
TIER_RUNS = 4
TIER_ROWS = 2_000_000
TIER_FLOOR = 10_000


@dataclass(frozen=True)
class CompactionTask:
    """Which runs of a table to merge: the `merge` newest ones; the `rest`, newest first, stay as they are."""

    table: TableVersion
    merge: tuple[Run, ...]
    rest: tuple[Run, ...]

    @property
    def rows(self) -> int:
        """Rows that are read."""
        return sum(rows_of(run) for run in self.merge)


@dataclass(frozen=True)
class CompactionReport:
    """What a compaction did; `done` is False where there was nothing to merge."""

    table: str
    done: bool
    epoch: int
    runs_before: int
    runs_after: int
    files_before: int
    files_after: int
    rows_before: int
    rows_after: int
    bytes_before: int
    bytes_after: int
    seconds: float


def rows_of(run: Run) -> int:
    """Return the rows of a run."""
    return sum(sst.rows for sst in run)


def pick_full(table: TableVersion) -> CompactionTask | None:
    """Pick everything, unless the table is one run without deletions and small files already."""
    runs = table.as_of(table.committed_epoch)
    files = [sst for run in runs for sst in run]
    mergeable = len(runs) > 1 or any(sst.tombstones for sst in files) or _fragmented(files)
    return CompactionTask(table, runs, ()) if mergeable else None


def _fragmented(files: Sequence[SstInfo]) -> bool:
    small = sum(1 for sst in files if sst.length < TARGET_BYTES // 4 and sst.rows < TARGET_ROWS // 4)
    return small > 1


def pick_tier(table: TableVersion, max_rows: int | None = None) -> CompactionTask | None:
    """Pick the newest runs that are of like size, so that runs double and a row is rewritten a logarithmic
    number of times.
    """
    runs = table.as_of(table.committed_epoch)
    taken, rows = 0, 0
    for run in runs:
        more = rows_of(run)
        if taken and more > max(rows, TIER_FLOOR):
            break
        if max_rows is not None and rows + more > max_rows:
            break
        taken, rows = taken + 1, rows + more
    if taken < 2:
        return None
    return CompactionTask(table, runs[:taken], runs[taken:])


def tier_is_due(table: TableVersion) -> bool:
    """Whether the commit that made this version should have the newest runs merged."""
    level = table.l0
    if len(level) < TIER_EVERY:
        return False
    size = sum(sst.size for entry in level for sst in entry.ssts)
    return len(level) % (TIER_LARGE_EVERY if size > len(level) * TIER_LARGE_BYTES else TIER_EVERY) == 0


def run_task(reader: Reader, task: CompactionTask) -> Compaction:
    """Merge a task's files and return what a commit needs; the new files are durable, nothing is visible yet."""
    table = task.table
    merged = tuple(_write(reader, table.table, _merged(reader, task), _rows_a_file(task)))
    runs = (merged, *task.rest) if merged else task.rest
    return Compaction(table.table_id, table.generations[-1], table.last_change, runs)


def _merged(reader: Reader, task: CompactionTask) -> Iterator[pa.Table]:
    columns = stored_schema(task.table.table).names
    return merged_parts(
        sources_of(task.merge),
        lambda sst: reader.files.columns(sst, columns, task.table.schema),
        task.table.primary_key,
        None,
        keep_tombstones=bool(task.rest),
    )


def _rows_a_file(task: CompactionTask) -> int:
    stored = sum(sst.length for run in task.merge for sst in run)
    return max(1, min(TARGET_ROWS, TARGET_BYTES * max(task.rows, 1) // max(stored, 1)))


def _write(reader: Reader, table: Table, parts: Iterator[pa.Table], rows_a_file: int) -> Iterator[SstInfo]:
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


def report_of(before: TableVersion, compaction: Compaction | None, started: float) -> CompactionReport:
    """Return what a compaction did, in numbers."""
    old = before.as_of(before.committed_epoch)
    new = old if compaction is None else compaction.runs
    return CompactionReport(
        before.name,
        compaction is not None,
        before.committed_epoch,
        len(old),
        len(new),
        sum(len(run) for run in old),
        sum(len(run) for run in new),
        sum(rows_of(run) for run in old),
        sum(rows_of(run) for run in new),
        sum(sst.length for run in old for sst in run),
        sum(sst.length for run in new for sst in run),
        time.perf_counter() - started,
    )

"""Tables that pass their changes on: a change is kept until its consumers have taken it, the rows themselves are not kept.

A commit brings changes as to any table. Where such a table has the columns WAS, the change of a key tells its old row beside
the new one, since nothing else could. Rows are *loaded* for who has to read the table as a whole: as runs that hold all of it up
to an epoch. They stay as long as somebody pins the table, and changes that come meanwhile are read over them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from engine.arrow import to_positions
from engine.hummock.version import Compaction, Generation, LogEntry, Run, TableVersion

WAS = "_was"
"""Whether the key had a row before."""


def old_column(column: str) -> str:
    """Return the column that holds the old value of a column."""
    return f"{WAS}_{column}"


def has_old_rows(table: TableVersion) -> bool:
    """Tell whether changes hold the old rows; where they do not, all rows are new and none goes."""
    return WAS in table.schema.names


def build_load(table: TableVersion, upto: int, runs: Sequence[Run]) -> Compaction:
    """Return what makes the rows of a table at epoch `upto` readable: `runs` that hold all of them."""
    return Compaction(table.table_id, table.generations[-1], upto, tuple(runs) or ((),))


def is_truncation_due(table: TableVersion, retained_from: int) -> bool:
    """Tell whether a cut of history would let go of something that a table has passed on."""
    if not table.table.options.passes:
        return False
    upto, pinned = table.clamp_truncation(retained_from), bool(table.pins)
    after = truncate(table.log, table.generations, table.quiet, upto, pinned=pinned)
    return after != (table.log, table.generations)


def truncate(
    log: tuple[LogEntry, ...],
    generations: tuple[Generation, ...],
    quiet: Sequence[int],
    upto: int,
    *,
    pinned: bool,
) -> tuple[tuple[LogEntry, ...], tuple[Generation, ...]]:
    """Drop changes up to `upto`, and loaded rows that nobody has pinned; history begins with the last change that was dropped.

    The `quiet` labels of such a table are those of changes that were not written, since nobody followed them.
    """
    labels = (*(entry.epoch for entry in log), *quiet, generations[0].upto)
    floor = max((label for label in labels if label <= upto), default=generations[0].upto)
    floor = max(floor, generations[0].upto)
    retained = tuple(one for one in generations if pinned and one.runs and one.upto >= floor)
    first = () if retained and retained[0].upto == floor else (Generation(floor, ()),)
    return tuple(entry for entry in log if entry.epoch > floor), (*first, *retained)


class OldestChanges:
    """Rows of the oldest change of each key, taken in step with those of the newest: both come in the order of the keys."""

    def __init__(self, parts: Iterator[pa.Table]) -> None:
        self._parts = parts
        self._rest: pa.Table | None = None

    def take(self, count: int) -> pa.Table:
        """Return the next `count` rows."""
        parts = [] if self._rest is None else [self._rest]
        there = sum(part.num_rows for part in parts)
        while there < count:
            part = next(self._parts)
            parts.append(part)
            there += part.num_rows
        whole = pa.concat_tables(parts)
        self._rest = whole.slice(count)
        return whole.slice(0, count)


def select_old_rows(oldest: pa.Table, rows: pa.Table, columns: Sequence[str]) -> tuple[np.ndarray, pa.Table]:
    """Return at which of `rows` a key had an old row, and these; `oldest` holds what the oldest change of each key tells."""
    index = np.flatnonzero(oldest.column(WAS).to_numpy(zero_copy_only=False))
    arrays = []
    for name in columns:
        column = (
            oldest.column(old_column(name)) if old_column(name) in oldest.column_names else rows.column(name)
        )
        arrays.append(column.take(to_positions(index)))
    return index, pa.Table.from_arrays(arrays, names=list(columns))

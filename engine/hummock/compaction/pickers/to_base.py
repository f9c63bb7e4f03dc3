"""To base: all runs into the oldest one once what lies above it is a good part of it; bounds the space that old versions take."""

from __future__ import annotations

from dataclasses import dataclass

from engine.hummock.compaction.task import CompactionTask, count_run_rows, list_live_runs
from engine.hummock.version import TableVersion


@dataclass(frozen=True)
class ToBase:
    """Pick everything when the runs above the base hold more than `share` of its rows; at most `max_rows` rows.

    Rows, not bytes: of small files most bytes are overhead, which merging them among themselves takes away.
    """

    share: float = 0.25
    max_rows: int | None = None

    def pick(self, table: TableVersion) -> CompactionTask | None:
        """Return the merge of everything."""
        runs = list_live_runs(table)
        if len(runs) < 2 or sum(map(count_run_rows, runs[:-1])) <= self.share * count_run_rows(runs[-1]):
            return None
        if self.max_rows is not None and sum(map(count_run_rows, runs)) > self.max_rows:
            return None
        return CompactionTask(table, runs, (), picker="to-base")

"""Tier: the newest runs of like size, so that runs double and a row is rewritten a logarithmic number of times."""

from __future__ import annotations

from dataclasses import dataclass

from engine.hummock.compaction.task import CompactionTask, count_run_rows, list_live_runs
from engine.hummock.version import TableVersion

FLOOR_ROWS = 10_000


@dataclass(frozen=True)
class Tier:
    """Pick the most newest runs of which the oldest is no larger than those above it together; at least `least`, at most
    `max_rows` rows.
    """

    max_rows: int | None = None
    least: int = 2

    def pick(self, table: TableVersion) -> CompactionTask | None:
        """Return the merge of the newest runs."""
        runs = list_live_runs(table)
        run_count, rows = 0, 0
        for count, run in enumerate(runs, start=1):
            more = count_run_rows(run)
            if self.max_rows is not None and rows + more > self.max_rows:
                break
            if count == 1 or more <= max(rows, FLOOR_ROWS):
                run_count = count
            rows += more
        if run_count < max(2, self.least):
            return None
        return CompactionTask(table, runs[:run_count], runs[run_count:], picker="tier")

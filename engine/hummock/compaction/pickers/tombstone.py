"""Tombstone: a run that is deletions for a good part is merged down to the base, where deletions end."""

from __future__ import annotations

from dataclasses import dataclass

from engine.hummock.compaction.task import CompactionTask, count_run_rows, list_live_runs
from engine.hummock.version import TableVersion


@dataclass(frozen=True)
class Tombstone:
    """Pick from the newest run on whose rows more than `ratio` are deletions, down to the oldest run."""

    ratio: float = 0.25
    least_rows: int = 1_000
    max_rows: int | None = None

    def pick(self, table: TableVersion) -> CompactionTask | None:
        """Return the merge of that run and all older ones."""
        runs = list_live_runs(table)
        for at, run in enumerate(runs):
            rows = count_run_rows(run)
            deleted = sum(sst.tombstones for sst in run)
            if rows >= self.least_rows and deleted > self.ratio * rows:
                if self.max_rows is not None and sum(map(count_run_rows, runs[at:])) > self.max_rows:
                    continue
                return CompactionTask(table, runs[at:], (), runs[:at], picker="tombstone")
        return None

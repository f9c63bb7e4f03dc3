"""Level: two neighbouring runs of which the older is not much larger, so that the number of runs stays logarithmic."""

from __future__ import annotations

from dataclasses import dataclass

from engine.hummock.compaction.task import CompactionTask, count_run_rows, list_live_runs
from engine.hummock.version import TableVersion


@dataclass(frozen=True)
class Level:
    """Pick the cheapest pair of neighbours whose older run has at most `ratio` times the newer one's rows."""

    ratio: float = 2.0
    max_rows: int | None = None

    def pick(self, table: TableVersion) -> CompactionTask | None:
        """Return the merge of two runs."""
        runs = list_live_runs(table)
        sizes = [count_run_rows(run) for run in runs]
        pairs = [i for i in range(len(runs) - 1) if sizes[i + 1] <= self.ratio * sizes[i]]
        pairs = [i for i in pairs if self.max_rows is None or sizes[i] + sizes[i + 1] <= self.max_rows]
        if not pairs:
            return None
        at = min(pairs, key=lambda i: sizes[i] + sizes[i + 1])
        return CompactionTask(table, runs[at : at + 2], runs[at + 2 :], runs[:at], picker="level")

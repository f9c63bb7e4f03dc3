"""Trivial move: neighbouring runs whose files lie in different ranges of hashes become one run without a byte being read."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from engine.hummock.compaction.task import CompactionTask, count_run_rows, list_live_runs
from engine.hummock.version import Run, TableVersion


@dataclass(frozen=True)
class TrivialMove:
    """Pick the first two neighbours of which no file overlaps one of the other; small ones are better merged."""

    least_rows: int = 10_000

    def pick(self, table: TableVersion) -> CompactionTask | None:
        """Return the move."""
        runs = list_live_runs(table)
        for at in range(len(runs) - 1):
            large = min(count_run_rows(runs[at]), count_run_rows(runs[at + 1])) >= self.least_rows
            if large and _is_disjoint(runs[at], runs[at + 1]):
                return CompactionTask(
                    table, runs[at : at + 2], runs[at + 2 :], runs[:at], move=True, picker="trivial move"
                )
        return None


def _is_disjoint(newer: Run, older: Run) -> bool:
    files = sorted((*newer, *older), key=lambda sst: sst.min_hash)
    return all(a.max_hash < b.min_hash for a, b in itertools.pairwise(files))

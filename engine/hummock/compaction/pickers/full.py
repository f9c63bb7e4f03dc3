"""Full: everything to one run without deletions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.hummock.compaction.pickers.expired import has_hidden_rows
from engine.hummock.compaction.task import TARGET_BYTES, TARGET_ROWS, CompactionTask, list_live_runs
from engine.hummock.version import SstInfo, TableVersion


@dataclass(frozen=True)
class Full:
    """Pick all runs, unless they are one run of large files without deletions and hidden rows already."""

    def pick(self, table: TableVersion) -> CompactionTask | None:
        """Return the merge of everything."""
        runs = list_live_runs(table)
        files = [sst for run in runs for sst in run]
        mergeable = len(runs) > 1 or any(sst.tombstones for sst in files) or _is_fragmented(files)
        mergeable = mergeable or has_hidden_rows(table)
        return CompactionTask(table, runs, (), picker="full") if mergeable else None


def _is_fragmented(files: Sequence[SstInfo]) -> bool:
    small = sum(1 for sst in files if sst.length < TARGET_BYTES // 4 and sst.rows < TARGET_ROWS // 4)
    return small > 1

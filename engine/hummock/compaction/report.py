"""What a compaction did, in numbers."""

from __future__ import annotations

import time
from dataclasses import dataclass

from engine.hummock.compaction.task import count_run_rows, list_live_runs
from engine.hummock.version import Compaction, TableVersion


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


def build_report(before: TableVersion, compaction: Compaction | None, started: float) -> CompactionReport:
    """Return the report of a compaction of `before` that began at `started` of the performance counter."""
    old = list_live_runs(before)
    new = old if compaction is None else compaction.runs
    return CompactionReport(
        before.name,
        compaction is not None,
        before.committed_epoch,
        len(old),
        len(new),
        sum(len(run) for run in old),
        sum(len(run) for run in new),
        sum(count_run_rows(run) for run in old),
        sum(count_run_rows(run) for run in new),
        sum(sst.length for run in old for sst in run),
        sum(sst.length for run in new for sst in run),
        time.perf_counter() - started,
    )

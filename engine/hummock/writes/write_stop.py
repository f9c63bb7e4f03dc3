"""The write stop: a table that compaction cannot keep up with takes no more writes until it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from engine.errors import WriteStopped
from engine.hummock.compaction.schedule import WRITE_STOP_RUNS
from engine.hummock.compaction.task import list_live_runs
from engine.hummock.manifests.preconditions import require_all
from engine.hummock.version import Commit, Version


def with_write_stop(commit: Commit, tables: Sequence[str]) -> Commit:
    """Return the commit with the precondition that none of the tables it writes has reached the limit of runs."""
    return replace(commit, precondition=require_all(partial(_check_runs, tables), commit.precondition))


def _check_runs(written: Sequence[str], version: Version) -> None:
    for name in written:
        table = version.tables.get(name)
        if table is None or table.table.options.passes:  # of which no read merges runs
            continue
        if len(list_live_runs(table)) >= WRITE_STOP_RUNS:
            raise WriteStopped(
                name,
                f"table {name} has {len(list_live_runs(table))} runs that no compaction has merged, the limit is "
                f"{WRITE_STOP_RUNS}: its writers wait. Start a compactor (python -m engine.hummock.compaction --store …), "
                f"write larger batches, or see why compactions fail",
            )

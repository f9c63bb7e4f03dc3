"""Which compaction a table needs next: the pickers in their order, cheap ones first."""

from __future__ import annotations

import dataclasses

from engine.hummock.compaction.pickers import (
    BelowWatermark,
    Level,
    PastTtl,
    SpaceReclaim,
    Tier,
    ToBase,
    Tombstone,
    TrivialMove,
    VnodeAlignment,
)
from engine.hummock.compaction.task import CompactionTask, Picker, list_live_runs
from engine.hummock.version import TableVersion, Version

TIER_EVERY = 16
TIER_LARGE_EVERY = 64
TIER_LARGE_BYTES = 4 << 20
"""Sub-levels that are this large on average are merged more rarely: a merge costs by bytes and saves by count."""
TIER_RUNS = 4
TIER_ROWS = 2_000_000
ALIGNED_ROWS = 200_000
"""Runs of fewer rows are not cut at the bounds of a table's groups of vnodes: small files cost more than they save."""
WRITE_STOP_RUNS = 192
"""A table whose reads have to merge this many runs takes no more writes until a compaction has caught up."""


def is_tier_due(table: TableVersion) -> bool:
    """Whether the newest runs are so many that the commit that made this version should have them merged.

    What counts is what a merge would take: an older run that is much larger stays as it is. A merge that failed, or that another
    commit was faster than, is due again TIER_RUNS commits later.
    """
    if len(table.l0) < TIER_EVERY or table.table.options.passes:
        return False
    task = Tier(TIER_ROWS, TIER_RUNS).pick(table)
    if task is None:
        return False
    runs, size = len(task.merge), sum(sst.size for run in task.merge for sst in run)
    least = TIER_EVERY if size <= runs * TIER_LARGE_BYTES else TIER_LARGE_EVERY
    return (runs >= least and len(table.l0) % TIER_RUNS == 0) or len(table.l0) % TIER_LARGE_EVERY == 0


def next_task(
    table: TableVersion, version: Version | None = None, retained_from: int = 0
) -> CompactionTask | None:
    """Return what a compactor should do for a table now, or None: its cost in rows is in proportion to what it saves.

    `retained_from` is the epoch from which on history is kept; with the whole `version` other tables are looked at too.
    """
    if table.table.options.passes:  # its changes are let go of, not merged
        return None
    runs = len(list_live_runs(table))
    pickers: list[Picker] = [
        TrivialMove(),
        Tombstone(),
        ToBase(),
        PastTtl(retained_from),
        BelowWatermark(retained_from),
    ]
    if runs >= TIER_RUNS:
        pickers[1:1] = [Tier(least=TIER_RUNS)]
    if runs >= TIER_EVERY:
        pickers.append(Level())
    groups = table.table.options.vnode_groups or 1
    if groups > 1:
        pickers.append(VnodeAlignment(groups, ALIGNED_ROWS))
    if version is not None:
        pickers.append(SpaceReclaim(version))
    task = next((task for task in (picker.pick(table) for picker in pickers) if task is not None), None)
    if task is not None and groups > 1 and task.rows >= ALIGNED_ROWS:
        return dataclasses.replace(task, groups=groups)
    return task


def choose_relief(table: TableVersion) -> CompactionTask | None:
    """Return the merge that lowers the number of runs of a table which has too many, whatever its size."""
    return Tier().pick(table) or Level(ratio=float("inf")).pick(table)

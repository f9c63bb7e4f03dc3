"""Compaction: a picker reads a table version and returns a task, the executor merges its files, a commit swaps them."""

from engine.hummock.compaction.execute import run_task
from engine.hummock.compaction.merging import Merge, merge_range
from engine.hummock.compaction.pickers import (
    BelowWatermark,
    Full,
    Level,
    PastTtl,
    SpaceReclaim,
    Tier,
    ToBase,
    Tombstone,
    TrivialMove,
    VnodeAlignment,
    choose_hidden_epoch,
)
from engine.hummock.compaction.ranges import RangeExecutor
from engine.hummock.compaction.report import CompactionReport, build_report
from engine.hummock.compaction.schedule import (
    TIER_EVERY,
    TIER_ROWS,
    TIER_RUNS,
    WRITE_STOP_RUNS,
    choose_relief,
    is_tier_due,
    next_task,
)
from engine.hummock.compaction.task import CompactionTask, Picker

__all__ = [
    "TIER_EVERY",
    "TIER_ROWS",
    "TIER_RUNS",
    "WRITE_STOP_RUNS",
    "BelowWatermark",
    "CompactionReport",
    "CompactionTask",
    "Full",
    "Level",
    "Merge",
    "PastTtl",
    "Picker",
    "RangeExecutor",
    "SpaceReclaim",
    "Tier",
    "ToBase",
    "Tombstone",
    "TrivialMove",
    "VnodeAlignment",
    "build_report",
    "choose_hidden_epoch",
    "choose_relief",
    "is_tier_due",
    "merge_range",
    "next_task",
    "run_task",
]

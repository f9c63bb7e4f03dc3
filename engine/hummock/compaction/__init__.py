"""Compaction: a picker reads a table version and returns a task, the executor merges its files, a commit swaps them."""

from engine.hummock.compaction.execute import run_task
from engine.hummock.compaction.merging import Merge, merge_range
from engine.hummock.compaction.pickers import (
    Full,
    Level,
    SpaceReclaim,
    Tier,
    ToBase,
    Tombstone,
    TrivialMove,
    Ttl,
    VnodeAlignment,
    Watermark,
    hidden_at,
)
from engine.hummock.compaction.ranges import RangeExecutor
from engine.hummock.compaction.report import CompactionReport, report_of
from engine.hummock.compaction.schedule import (
    TIER_EVERY,
    TIER_ROWS,
    TIER_RUNS,
    WRITE_STOP_RUNS,
    next_task,
    relief,
    tier_is_due,
)
from engine.hummock.compaction.task import CompactionTask, Picker

__all__ = [
    "TIER_EVERY",
    "TIER_ROWS",
    "TIER_RUNS",
    "WRITE_STOP_RUNS",
    "CompactionReport",
    "CompactionTask",
    "Full",
    "Level",
    "Merge",
    "Picker",
    "RangeExecutor",
    "SpaceReclaim",
    "Tier",
    "ToBase",
    "Tombstone",
    "TrivialMove",
    "Ttl",
    "VnodeAlignment",
    "Watermark",
    "hidden_at",
    "merge_range",
    "next_task",
    "relief",
    "report_of",
    "run_task",
    "tier_is_due",
]

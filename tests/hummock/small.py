"""Sizes at which the engine changes its ways, made so small that a few rows reach them."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator

SIZES = {
    "engine.hummock.compaction": {"TIER_RUNS": 2},
    "engine.hummock.compaction.pickers.tier": {"FLOOR_ROWS": 1},
    "engine.hummock.compaction.schedule": {"TIER_EVERY": 6, "TIER_RUNS": 2},
    "engine.hummock.writes.write_stop": {"WRITE_STOP_RUNS": 12},
    "engine.hummock.reads.merge": {"MERGE_ROWS": 4},
    "engine.hummock.sorted_files.file_set": {"SMALL_BYTES": 0, "OPEN_FILES": 3},
    "engine.hummock.sorted_files.sst": {"ROW_GROUP_ROWS": 2, "MAX_ROWS": 5},
    "engine.hummock.manifests.chain": {"CHECKPOINT_EVERY": 8, "HINT_EVERY": 16},
    "engine.hummock.manifests.manifest_reader": {"CHECKPOINT_EVERY": 8, "HINT_EVERY": 16, "PAGE": 10},
    "engine.hummock.manifests.manifest": {"CHECKPOINT_EVERY": 8},
    "engine.hummock.upkeep.gc": {"CHECKPOINT_EVERY": 8},
}


@contextlib.contextmanager
def small_sizes() -> Iterator[None]:
    """Make the sizes small for the block; raises AttributeError for one that the engine no longer has."""
    before = []
    for name, sizes in SIZES.items():
        module = importlib.import_module(name)
        for size, value in sizes.items():
            before.append((module, size, getattr(module, size)))
            setattr(module, size, value)
    try:
        yield
    finally:
        for module, size, value in before:
            setattr(module, size, value)

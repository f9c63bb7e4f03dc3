"""A merge cut into ranges of hashes that can be merged beside each other, by an executor of which no more is known here."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import ceil
from typing import Protocol

import numpy as np

from engine.hummock.compaction.merging import WHOLE, Merge
from engine.hummock.compaction.pickers.vnode import VNODES, find_group, list_group_bounds
from engine.hummock.compaction.task import count_run_rows
from engine.hummock.reads.merge import HashRange
from engine.hummock.version import Run

RANGE_FILES = 2
"""So many whole files are read for a range, where there are more ranges than are merged at once: what a lost one costs."""


class RangeExecutor(Protocol):
    """Merges ranges of hashes elsewhere, several at the same time, each by `merge_range`."""

    def at_once(self, merge: Merge) -> int:
        """Return how many ranges of a merge it would do at the same time; 1 leaves the merge to the process that asks."""
        ...

    def merge(self, merge: Merge, ranges: Sequence[HashRange]) -> Sequence[Run]:
        """Return the files of each range, in the order of the ranges; durable, not visible. Raises what `merge_range` raises."""
        ...


def split_merge(merge: Merge, at_once: int) -> list[HashRange]:
    """Cut all hashes into ranges of whole vnodes, with about as many rows each: `at_once` or some times as many.

    Fewer where they would give files of less than half the size: those would be merged again. A merge whose rows are in one vnode
    is one range.
    """
    count = at_once * ceil(merge.rows / (RANGE_FILES * merge.file_rows * at_once))
    most = 2 * max(map(count_run_rows, merge.runs), default=0) // merge.file_rows
    vnodes = list_group_bounds(VNODES)
    starts = [0, *_choose_cuts(_weigh_vnodes(merge), min(count, most)), VNODES]
    ranges = [(vnodes[a][0], vnodes[b - 1][1]) for a, b in itertools.pairwise(starts)]
    return ranges or [WHOLE]


def _weigh_vnodes(merge: Merge) -> np.ndarray:
    """Return about how many rows each vnode has, by the files' own ranges."""
    weights = np.zeros(VNODES)
    for run in merge.runs:
        for sst in run:
            first, last = find_group(sst.min_hash, VNODES), find_group(sst.max_hash, VNODES)
            weights[first : last + 1] += sst.rows / (last + 1 - first)
    return weights


def _choose_cuts(weights: np.ndarray, count: int) -> list[int]:
    """Return at which vnodes ranges begin, without the first."""
    if count < 2:
        return []
    reached = np.cumsum(weights)
    targets = reached[-1] * np.arange(1, count) / count
    starts = np.unique(np.searchsorted(reached, targets) + 1)
    return [int(at) for at in starts if reached[at - 1] < reached[-1]]

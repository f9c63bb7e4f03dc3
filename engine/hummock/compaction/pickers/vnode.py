"""Vnode alignment: after a change of parallelism files are cut again, so that none spans two tasks' ranges of vnodes."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from engine.hummock.compaction.task import CompactionTask, live_runs
from engine.hummock.version import SstInfo, TableVersion


@dataclass(frozen=True)
class VnodeAlignment:
    """Pick the oldest run that holds a file which spans a bound of `groups` equal ranges of hashes."""

    groups: int

    def pick(self, table: TableVersion) -> CompactionTask | None:
        """Return the rewriting of that run."""
        runs = live_runs(table)
        for at in range(len(runs) - 1, -1, -1):
            if any(group_of(sst.min_hash, self.groups) != self._last(sst) for sst in runs[at]):
                task = CompactionTask(table, runs[at : at + 1], runs[at + 1 :], runs[:at], groups=self.groups)
                return task
        return None

    def _last(self, sst: SstInfo) -> int:
        return group_of(sst.max_hash, self.groups)


def group_of(value: int, groups: int) -> int:
    """Return which of `groups` equal ranges of hashes a hash lies in."""
    return (value + (1 << 63)) * groups >> 64


def bounds(groups: int) -> list[tuple[int, int]]:
    """Return the inclusive ranges of hashes of `groups` groups."""
    starts = [-(-(i << 64) // groups) - (1 << 63) for i in range(groups + 1)]
    return [(low, high - 1) for low, high in itertools.pairwise(starts)]

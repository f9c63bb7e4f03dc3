"""Vnode alignment: after a change of parallelism files are cut again, so that none spans two tasks' ranges of vnodes."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from engine.hummock.compaction.task import CompactionTask, count_run_rows, list_live_runs
from engine.hummock.version import SstInfo, TableVersion

VNODES = 256
_VNODE_SHIFT = 56


@dataclass(frozen=True)
class VnodeAlignment:
    """Pick the oldest run of `least_rows` that holds a file which spans a bound of `groups` ranges of vnodes."""

    groups: int
    least_rows: int = 0

    def pick(self, table: TableVersion) -> CompactionTask | None:
        """Return the rewriting of that run."""
        runs = list_live_runs(table)
        for at in range(len(runs) - 1, -1, -1):
            if count_run_rows(runs[at]) < self.least_rows:
                continue
            if any(find_group(sst.min_hash, self.groups) != self._last_group(sst) for sst in runs[at]):
                task = CompactionTask(table, runs[at : at + 1], runs[at + 1 :], runs[:at], groups=self.groups)
                return task
        return None

    def _last_group(self, sst: SstInfo) -> int:
        return find_group(sst.max_hash, self.groups)


def find_group(value: int, groups: int) -> int:
    """Return which of `groups` ranges of vnodes a hash lies in, the one that a writing task of so many has, too."""
    return ((value >> _VNODE_SHIFT) + VNODES // 2) * groups // VNODES


def list_group_bounds(groups: int) -> list[tuple[int, int]]:
    """Return the inclusive ranges of hashes of `groups` groups, whole vnodes each."""
    starts = [(-(-i * VNODES // groups) - VNODES // 2) << _VNODE_SHIFT for i in range(groups + 1)]
    return [(low, high - 1) for low, high in itertools.pairwise(starts)]

"""Space reclaim: rows that keep alive an object of which most is nobody's any more move, so that it can be collected."""

from __future__ import annotations

from dataclasses import dataclass

from engine.hummock.compaction.task import CompactionTask, list_live_runs
from engine.hummock.sorted_files.sst import BUNDLE
from engine.hummock.version import SstInfo, TableVersion, Version


@dataclass(frozen=True)
class SpaceReclaim:
    """Pick all runs where the bundles that they lie in hold more bytes of dropped or rewritten tables than `share` of the
    runs' own.
    """

    version: Version
    share: float = 0.5

    def pick(self, table: TableVersion) -> CompactionTask | None:
        """Return the merge of everything."""
        runs = list_live_runs(table)
        ssts = [sst for run in runs for sst in run]
        bundles = {sst.path for sst in ssts if sst.path.endswith(BUNDLE)}
        dead = sum(count_dead_bytes(self.version, bundles).values()) if bundles else 0
        if not dead or dead <= self.share * sum(sst.length for sst in ssts):
            return None
        return CompactionTask(table, runs, (), picker="space reclaim")


def count_dead_bytes(version: Version, bundles: set[str]) -> dict[str, int]:
    """Return the bytes of each bundle before and between the parts that tables of the version have, where that is half of
    what is known of it or more.
    """
    parts: dict[str, set[SstInfo]] = {path: set() for path in bundles}
    for table in version.tables.values():
        for sst in table.iterate_ssts():
            if sst.path in parts:
                parts[sst.path].add(sst)
    found = {}
    for path, ssts in parts.items():
        end = max(sst.offset + sst.length for sst in ssts)
        dead = end - sum(sst.length for sst in ssts)
        if 2 * dead >= end:
            found[path] = dead
    return found

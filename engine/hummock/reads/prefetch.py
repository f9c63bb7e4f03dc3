"""After a compaction elsewhere the hot files of a table are gone from the version: fetch what has replaced them."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from engine.hummock.background import Background
from engine.hummock.sorted_files.file_set import FileSet
from engine.hummock.version import SstInfo, TableVersion, Version


def prefetch(before: Version, after: Version, files: FileSet, background: Background) -> None:
    """Decode in the background what a compaction elsewhere made of files that are in use here."""
    for name, table in after.tables.items():
        known = before.tables.get(name)
        due = [] if known is None or known is table else find_replacements(known, table, files)
        if due:
            background.offer(f"prefetch of {name}", functools.partial(_decode_files, files, due))


def _decode_files(files: FileSet, due: Sequence[SstInfo]) -> None:
    for sst in due:
        files.open_file(sst)


def find_replacements(before: TableVersion, after: TableVersion, files: FileSet) -> list[SstInfo]:
    """Return the compacted files of `after` to fetch: new ones whose hashes lie where files that were in use left."""
    if before.table_id != after.table_id or before.generations[-1] == after.generations[-1]:
        return []
    old, new = before.live_ssts, after.live_ssts
    known, current = set(old), set(new)
    hot = [sst for sst in old if sst not in current and files.is_open(sst)]
    made = {sst for run in after.generations[-1].runs for sst in run} - known
    return [sst for sst in new if sst in made and any(_overlap(sst, other) for other in hot)]


def _overlap(one: SstInfo, other: SstInfo) -> bool:
    return one.min_hash <= other.max_hash and other.min_hash <= one.max_hash

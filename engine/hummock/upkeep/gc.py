"""Garbage collection: first a commit that shuts out old files for ever, then the deletion of those that
nothing needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from engine.errors import InvariantViolation
from engine.hummock.branches import list_left_objects, list_shared_manifests, list_shared_objects
from engine.hummock.epoch import ORIGIN_MS
from engine.hummock.manifests.chain import RETAINED_SECONDS, ManifestChain
from engine.hummock.manifests.invariants import parse_created_ms
from engine.hummock.manifests.manifest import CHECKPOINT_EVERY, parse_manifest_number
from engine.hummock.object_store import ObjectInfo, ObjectStore
from engine.hummock.sorted_files.sst import FILES
from engine.hummock.version import Commit, Version

HoldKind = Literal["live", "history", "branch", "grace"]


@dataclass(frozen=True)
class HeldObjects:
    """So many objects, and their bytes."""

    objects: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class GcReport:
    """What a collection deleted, or would delete: files and their bytes, manifests, and what is kept, by what keeps it.

    `held`: `live` files are read at the newest epoch, `history` at older ones or by change logs, `branch` are of no table but
    branches began with them, `grace` are needed by nobody but too young to go.
    """

    dry_run: bool
    deleted_objects: int
    deleted_bytes: int
    deleted_manifests: int
    kept_objects: int
    paths: tuple[str, ...]
    held: Mapping[HoldKind, HeldObjects]


def collect(
    store: ObjectStore,
    chain: ManifestChain,
    *,
    now: float,
    grace_seconds: float,
    dry_run: bool,
    place: str = "",
) -> GcReport:
    """Delete what no version needs and what left the version more than `grace_seconds` ago; `place` is that of a branch.

    The horizon makes this safe against writers that are under way: a file named before it can never be
    committed after.
    """
    horizon = max(0, int((now - grace_seconds) * 1000) - ORIGIN_MS)
    if dry_run:
        version = chain.refresh()
    else:
        version = chain.commit(Commit(horizon_ms=horizon))
    needed = list_needed_objects(version, horizon)
    doomed: list[ObjectInfo] = []
    retained: list[ObjectInfo] = []
    for info in store.list(f"{place}{FILES}"):
        if _is_garbage(info, needed, horizon):
            doomed.append(info)
        else:
            retained.append(info)
    shared = list_shared_objects(chain, version) if doomed and version.branches else set()
    held_by_branches = [info for info in doomed if info.path in shared]
    doomed = [info for info in doomed if info.path not in shared]
    listed = list(store.list("manifest/"))
    doomed += [info for info in listed if _is_torn(info, horizon)]
    before = now - max(grace_seconds, RETAINED_SECONDS)
    doomed += list_left_objects(store, chain, place, before)
    paths = tuple(info.path for info in doomed)
    upto = _find_last_manifest_to_drop(listed, version, before)
    manifests = 0
    kept = list_shared_manifests(version, CHECKPOINT_EVERY)
    if dry_run:
        manifests = sum(1 for number in chain.list_numbers() if number <= upto and number not in kept)
    else:
        store.delete(paths)
        if upto:
            manifests = chain.collect(upto, kept)
    size = sum(info.size for info in doomed)
    counts = _count_held(retained, version)
    held = {
        **counts,
        "branch": HeldObjects(len(held_by_branches), sum(info.size for info in held_by_branches)),
    }
    count = len(retained) + len(held_by_branches)
    return GcReport(dry_run, len(doomed), size, manifests, count, paths, held)


def list_needed_objects(version: Version, horizon_ms: int) -> set[str]:
    """Return the objects that a reader may still touch: of the version, and what left it after the horizon."""
    needed = {path for epoch, path in version.garbage if epoch >> 16 >= horizon_ms}
    for table in version.tables.values():
        needed |= table.list_objects()
    return needed


def _count_held(retained: Sequence[ObjectInfo], version: Version) -> Mapping[HoldKind, HeldObjects]:
    """Return what is kept by what keeps it."""
    live = {sst.path for table in version.tables.values() for sst in table.live_ssts}
    known = {path for table in version.tables.values() for path in table.list_objects()}
    found: dict[HoldKind, HeldObjects] = {
        "live": HeldObjects(),
        "history": HeldObjects(),
        "branch": HeldObjects(),
        "grace": HeldObjects(),
    }
    for info in retained:
        kind: HoldKind = "live" if info.path in live else "history" if info.path in known else "grace"
        found[kind] = HeldObjects(found[kind].objects + 1, found[kind].bytes + info.size)
    return found


def _is_garbage(info: ObjectInfo, needed: set[str], horizon_ms: int) -> bool:
    if info.path in needed:
        return False
    if _is_torn(info, horizon_ms):
        return True
    try:
        return parse_created_ms(info.path) < horizon_ms
    except InvariantViolation:
        return False


def _is_torn(info: ObjectInfo, horizon_ms: int) -> bool:
    """Whether it is what a process left in a directory that died while it wrote, long ago."""
    name = info.path.rpartition("/")[2]
    return name.startswith(".tmp-") and info.modified * 1000 - ORIGIN_MS < horizon_ms


def _find_last_manifest_to_drop(listed: Sequence[ObjectInfo], version: Version, before: float) -> int:
    """The manifest before the newest checkpoint that was written before `before`; 0 for none."""
    found = 0
    for info in listed:
        number = parse_manifest_number(info.path)
        if number is not None and number % CHECKPOINT_EVERY == 0 and info.modified < before:
            found = max(found, number)
    return min(found, version.number) - 1 if found else 0

"""A restore: the version that a backup holds becomes a store of its own, in a place where nothing is.

Its files keep their names, which no other file ever has. Its first manifest has a number far above any that a store which was
there before can have reached, and the boundary of collected manifests stands right below it. So a process that still has that
store open reads and writes nothing of this one: it finds what it knew collected, and opens again. The boundary is there first:
until the manifest is, the last of all objects, the place cannot be opened as an empty store.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import msgspec

from engine.errors import CorruptObject, StorageError, Unavailable
from engine.hummock.backups.backup_format import Backup, BackupFile, BackupSummary, list_backup_files
from engine.hummock.backups.backup_place import FILES as COPIES
from engine.hummock.backups.backup_place import BackupPlace
from engine.hummock.backups.copying import Tell, read_whole, work_on_files
from engine.hummock.clock import Clock, system_clock
from engine.hummock.compaction.lease import LEASE_PREFIX as COMPACTION_LEASES
from engine.hummock.epoch import ORIGIN_MS, next_epoch
from engine.hummock.manifests.delta import Delta
from engine.hummock.manifests.manifest import (
    CHECKPOINT_EVERY,
    encode_manifest,
    manifest_path,
    parse_manifest_number,
)
from engine.hummock.manifests.manifest_reader import BOUNDARY_PATH
from engine.hummock.metrics import Counters
from engine.hummock.object_store import ObjectStore, open_object_store
from engine.hummock.object_store.branch import split_branch_url
from engine.hummock.object_store.retrying import wrap_with_retries
from engine.hummock.sorted_files.sst import FILES
from engine.hummock.store_clock import StoreClock
from engine.hummock.upkeep.backup_holds import LEASE_PREFIX as BACKUP_LEASES
from engine.hummock.version import SstInfo, TableVersion, Version

MARKER = f"{FILES}.tmp-restore"
"""What is there while a restore is under way; if it is left over, the store's collections delete it."""
ANSWER_SECONDS = 60.0
Adapt = Callable[[Version], Mapping[str, str | None]]
"""Gives the entries of the catalog by which a restored store differs from its backup."""


class _Marker(msgspec.Struct, frozen=True):
    """What is being restored, and the number of the manifest that will be the first."""

    source: str
    backup: int
    manifest: int


@dataclass(frozen=True)
class RestoreReport:
    """What was restored where: the backup's summary, and how many files were there from a try before."""

    summary: BackupSummary
    url: str
    kept: int
    seconds: float


@dataclass(frozen=True)
class RestoreTarget:
    """Where a store is to be, by its objects; `open_target` opens one."""

    url: str
    objects: ObjectStore
    clock: StoreClock


def open_target(
    url: str, *, objects: ObjectStore | None = None, clock: Clock = system_clock
) -> RestoreTarget:
    """Open the place of a store that is to be restored; raises StorageError for the address of a branch."""
    if split_branch_url(url)[1]:
        raise StorageError(
            f"{url} is the address of a branch: a backup is restored as a store of its own, at an empty place"
        )
    inner = objects if objects is not None else open_object_store(url, create=True)
    wrapped = wrap_with_retries(inner, Counters(), clock)
    return RestoreTarget(url.rstrip("/"), wrapped, StoreClock(clock, wrapped))


def restore_backup(
    place: BackupPlace,
    target: RestoreTarget,
    number: int | None = None,
    adapt: Adapt = lambda version: {},
    tell: Tell = lambda progress: None,
    only: Collection[str] | None = None,
) -> RestoreReport:
    """Make a store of a backup, by default the newest, in an empty place; `adapt` is asked for what its catalog has otherwise.

    With `only` it has no tables but these, and their rows alone are read; its catalog still names the others.
    A restore that was interrupted is finished by the same call. Raises StorageError if anything else is there, and CorruptObject
    if the backup is damaged.
    """
    started = target.clock.monotonic()
    backup = place.read_backup(number)
    if only is not None:
        tables = {name: table for name, table in backup.version.tables.items() if name in only}
        backup = dataclasses.replace(backup, version=dataclasses.replace(backup.version, tables=tables))
    marker = _begin(place.url, backup, target)
    objects = target.objects
    objects.put(BOUNDARY_PATH, str(marker.manifest - 1).encode())
    version = _build_version(backup.version, marker.manifest, target.clock(), adapt)
    sizes = {info.path: info.size for info in objects.list(FILES)}
    files = list_backup_files(backup.version)
    missing = [file for file in files if not file.is_whole(sizes.get(f"{FILES}{file.name}"))]

    def copy(file: BackupFile) -> None:
        objects.put(f"{FILES}{file.name}", read_whole(place.objects, f"{COPIES}{file.name}", file, "backup"))

    def check(file: BackupFile) -> None:
        read_whole(objects, f"{FILES}{file.name}", file, "place that was half restored")

    there = {file.name for file in missing}
    kept = [file for file in files if file.name not in there]
    work_on_files(kept, check, tell)
    work_on_files(missing, copy, tell)
    _create_manifest(target, version)
    objects.delete([MARKER])
    return RestoreReport(backup.summary, target.url, len(kept), target.clock.monotonic() - started)


def _begin(source: str, backup: Backup, target: RestoreTarget) -> _Marker:
    """Mark an empty place as being restored, or go on where the same restore was interrupted; raises StorageError."""
    objects, number = target.objects, backup.summary.number
    found = objects.get(MARKER)
    if found is None:
        present = next(iter(objects.list("")), None)
        if present is not None:
            raise StorageError(
                f"{target.url} is not empty, it has {present.path}: a backup is restored at an empty place; name another by "
                "--store or TIDELINE_STORE, or move away what is there"
            )
        marker = _Marker(source, number, _choose_first_manifest(backup.version, target.clock()))
        data = msgspec.json.encode(marker)
        if objects.put_if_absent(MARKER, data):
            return marker
        found = objects.get(MARKER)
        if found is None:
            raise Unavailable(f"{target.url} did not answer whether {MARKER} was created: restore again")
    try:
        marker = msgspec.json.decode(found, type=_Marker)
    except msgspec.MsgspecError as error:
        raise CorruptObject(
            f"{MARKER} of {target.url} is damaged: empty the place and restore again"
        ) from error
    if (marker.source, marker.backup) != (source, number):
        raise StorageError(
            f"a restore of backup {marker.backup} from {marker.source} is under way at {target.url}, or was interrupted: "
            f"finish it by `tideline restore {marker.source} --backup {marker.backup}`, or empty the place"
        )
    if any(parse_manifest_number(info.path) for info in objects.list("manifest/")):
        raise StorageError(
            f"backup {number} is restored at {target.url} already: open the store, or name another place"
        )
    return marker


def _choose_first_manifest(version: Version, now: float) -> int:
    """Return a number that no store which began earlier reaches: none commits 64 times in each millisecond since 2021.

    It is that of a manifest which holds its version as a whole.
    """
    after = version.number - version.number % CHECKPOINT_EVERY + CHECKPOINT_EVERY
    return max(after, (int(now * 1000) - ORIGIN_MS) * CHECKPOINT_EVERY)


def _build_version(version: Version, number: int, now: float, adapt: Adapt) -> Version:
    """Return the first version of a store from that of a backup: its files in their place, and without branches.

    Its epoch is the present: those that the first store gave after the backup are not given again.
    """
    leases = (COMPACTION_LEASES, BACKUP_LEASES)
    gone = dict.fromkeys(key for key in version.catalog if key.startswith(leases))
    return dataclasses.replace(
        version,
        number=number,
        epoch=next_epoch(version.epoch, now),
        tables={name: _move_files(table) for name, table in version.tables.items()},
        catalog=version.catalog.apply_changes({**gone, **adapt(version)}),
        garbage=(),
        branches={},
        origin=0,
        closed=False,
    )


def _move_files(table: TableVersion) -> TableVersion:
    """Return a table whose files are all right below the store's own folder, as those of a branch are not."""

    def move(run: tuple[SstInfo, ...]) -> tuple[SstInfo, ...]:
        return tuple(
            msgspec.structs.replace(sst, path=f"{FILES}{sst.path.rpartition('/')[2]}") for sst in run
        )

    return dataclasses.replace(
        table,
        log=tuple(dataclasses.replace(entry, ssts=move(entry.ssts)) for entry in table.log),
        generations=tuple(
            dataclasses.replace(generation, runs=tuple(move(run) for run in generation.runs))
            for generation in table.generations
        ),
    )


def _create_manifest(target: RestoreTarget, version: Version) -> None:
    """Create the first manifest, by which the store is there; one that another process made of the same restore is as good."""
    data = encode_manifest([Delta(version.number, version.epoch, uuid.uuid4().hex)], version)
    path, until = manifest_path(version.number), target.clock.monotonic() + ANSWER_SECONDS
    while not target.objects.put_if_absent(path, data) and target.objects.head(path) is None:
        if target.clock.monotonic() > until:
            raise Unavailable(f"{target.url} did not answer whether {path} was created: restore again")
        target.clock.sleep(target.clock.jitter(1.0))

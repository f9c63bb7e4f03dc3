"""A backup: one version of an open store, held by a branch, copied to another place while the store is written and collected.

Each file is held against the checksum that the version has of it when it is read, and is created whole. Files of earlier backups
stay as they are: a file never changes under its name. The backup is there when its own object is created, at the very end.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from engine.errors import Conflict, StorageError, UnknownStore
from engine.hummock.backups.backup_format import (
    BackupFile,
    BackupSummary,
    count_bytes,
    encode_backup,
    list_backup_files,
)
from engine.hummock.backups.backup_place import FILES, BackupPlace, Run, Sweep
from engine.hummock.backups.copying import CopyProgress, Tell, read_whole, work_on_files
from engine.hummock.store import Hummock
from engine.hummock.upkeep.backup_holds import (
    HOLD_SECONDS,
    begin_hold,
    generate_hold_name,
    remove_leases,
    renew_hold,
)
from engine.hummock.version import Version


@dataclass(frozen=True)
class BackupReport:
    """What a backup did: its summary, what was there already, what was damaged there, and what it has deleted.

    While an earlier backup is `unreadable`, by number with the reason, no file is deleted.
    """

    summary: BackupSummary
    kept: int
    kept_bytes: int
    repaired: int
    dropped: tuple[int, ...]
    deleted_files: int
    deleted_bytes: int
    unreadable: Mapping[int, str]
    seconds: float


@dataclass(frozen=True)
class BackupOptions:
    """How a backup is made: `keep` the newest so many and drop the others, and `verify` what is there already.

    `tell` is told how far it is.
    """

    keep: int | None = None
    verify: bool = False
    tell: Tell = lambda progress: None


class HeldVersion:
    """A version of a store whose files stay while it is held."""

    def __init__(self, store: Hummock) -> None:
        self._store, self._name = store, generate_hold_name()
        store.commit(begin_hold(self._name, store.clock()))
        self.version = store.read_branch_start(
            self._name
        )  # commits of one manifest come together, also those after this one
        self._renewed = store.clock.monotonic()

    def renew(self) -> None:
        """Tell the store now and then that the version is still needed; raises Conflict if it was let go."""
        if self._store.clock.monotonic() - self._renewed > HOLD_SECONDS / 4:
            self._store.commit(renew_hold(self._name, self._store.clock()))
            self._renewed = self._store.clock.monotonic()

    def release(self) -> None:
        """Let the version go."""
        with contextlib.suppress(UnknownStore):  # another backup or a collection took it for dead
            self._store.drop_branch(self._name)
        self._store.commit(remove_leases([self._name]))


@contextlib.contextmanager
def hold_version(store: Hummock) -> Iterator[HeldVersion]:
    """Give a version of a store that is held for the block; what holds of dead backups are left is dropped first."""
    store.maintenance.end_holds()
    held = HeldVersion(store)
    try:
        yield held
    except Exception:
        with contextlib.suppress(StorageError):  # the first error tells more; what is left expires
            held.release()
        raise
    except BaseException:
        held.release()
        raise
    held.release()


def back_up(store: Hummock, place: BackupPlace, options: BackupOptions | None = None) -> BackupReport:
    """Copy what the newest version of a store or branch names to a place of backups, and return what was done.

    Raises Conflict while another backup to that place is under way, and CorruptObject for a file that is damaged in the store.
    """
    return _Backup(store, place, options or BackupOptions()).run()


class _Backup:
    """One backup on its way."""

    def __init__(self, store: Hummock, place: BackupPlace, options: BackupOptions) -> None:
        self._store, self._place, self._options = store, place, options
        self._started = store.clock.monotonic()
        self._damaged: list[BackupFile] = []

    def run(self) -> BackupReport:
        with self._place.hold_run(self._store.url) as run:
            with hold_version(self._store) as held:
                summary, kept = self._copy_version(run, held)
            dropped = self._place.drop_old(run, self._options.keep) if self._options.keep else []
            swept = self._place.sweep(run) if dropped or run.cleans else Sweep(0, 0, {})
        return BackupReport(
            summary,
            len(kept),
            count_bytes(kept),
            len(self._damaged),
            tuple(dropped),
            swept.files,
            swept.bytes,
            swept.unreadable,
            self._store.clock.monotonic() - self._started,
        )

    def _copy_version(self, run: Run, held: HeldVersion) -> tuple[BackupSummary, list[BackupFile]]:
        """Copy what is not there, make the backup visible, and return its summary and what was there before."""

        def tick() -> None:
            held.renew()
            self._place.touch(run)

        def tell(progress: CopyProgress) -> None:
            tick()
            self._options.tell(progress)

        files = list_backup_files(held.version)
        sizes = self._place.read_file_sizes(tick)
        kept = [file for file in files if file.is_whole(sizes.get(file.name))]
        if self._options.verify:
            work_on_files(kept, self._check_copy, tell)
            damaged = {file.name for file in self._damaged}
            kept = [file for file in kept if file.name not in damaged]
        there = {file.name for file in kept}
        missing = [file for file in files if file.name not in there]
        work_on_files(missing, self._copy, tell)
        self._require_all(files, self._place.read_file_sizes(tick))
        summary = self._summarize(run, held.version, files, missing)
        self._place.finish(run, encode_backup(summary, held.version))
        return summary, kept

    def _copy(self, file: BackupFile) -> None:
        data = read_whole(self._store.objects, file.path, file, "store")
        self._place.objects.put(f"{FILES}{file.name}", data)

    def _check_copy(self, file: BackupFile) -> None:
        data = self._place.objects.get(f"{FILES}{file.name}")
        if data is None or file.find_damage(data) is not None:
            self._damaged.append(file)

    def _require_all(self, files: list[BackupFile], sizes: dict[str, int]) -> None:
        """Raise Conflict if a file was deleted meanwhile, by a run that was taken for dead or by somebody's hand."""
        gone = [file.name for file in files if not file.is_whole(sizes.get(file.name))]
        if gone:
            raise Conflict(
                f"{len(gone)} files were deleted from {self._place.url} meanwhile, such as {gone[0]}: begin again"
            )

    def _summarize(
        self, run: Run, version: Version, files: list[BackupFile], copied: list[BackupFile]
    ) -> BackupSummary:
        return BackupSummary(
            number=run.number,
            store=self._store.url,
            manifest=version.number,
            epoch=version.epoch,
            taken=self._store.clock(),
            tables=len(version.tables),
            files=len(files),
            bytes=count_bytes(files),
            copied=len(copied),
            copied_bytes=count_bytes(copied),
        )

"""Which files of a landing folder are still to be taken, at the cost of what is new instead of what was taken.

A folder's names are listed again only when its time of change has moved: a file that comes, goes or is replaced moves it. Two
things do not: a file that is written to in place, and one that comes in the same instant as the one before it. So a folder is
listed once more some seconds after it moved, and everything is looked at as a whole, files and records, whenever twenty times as
long has passed as that takes, and each time in a small folder. Clocks decide how soon a file is found, never whether.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from engine.connectors.formats.file_format import FileOptions
from engine.connectors.landing.bucket import LandingBucket
from engine.connectors.landing.bucket_watch import BucketWatch
from engine.connectors.landing.folder import LandingFolder, build_unreadable_error, is_folder, look_at
from engine.connectors.landing.pending import FileRecordCache, PendingFile, encode_path
from engine.connectors.landing.place import is_readable_name
from engine.hummock import Hummock

SMALL = 1_000
"""Up to so many names are looked at each time."""
REST = 20
SETTLED_NS = 3_000_000_000
"""A folder that has not moved for so long (3 s) has no two changes of which only the first was seen."""


@dataclass
class _FolderListing:
    """What a folder held when it was listed: its time of change, the number of each name's file, and whether it had settled."""

    mtime_ns: int
    settled: bool
    inodes: dict[str, int] = field(default_factory=dict)


class FolderWatch:
    """What one process knows of one landing folder and its records."""

    def __init__(self, table: str, table_id: int, place: LandingFolder, options: FileOptions) -> None:
        self._table, self._folder, self._options = table, place.folder, options
        self.table_id, self.place = table_id, place
        self._records = FileRecordCache(table, table_id)
        self._folders: dict[str, _FolderListing] = {}
        self._waiting: dict[str, None] = {}
        self._due = 0.0
        self.warnings: tuple[str, ...] = ()
        """Folders in it that can't be read."""

    def list_pending(self, store: Hummock, *, fresh: bool = True) -> tuple[PendingFile, ...]:
        """Return what is to be taken, in the order of the paths; raises SourceError if the folder can't be read.

        Each look is `fresh`: it costs little.
        """
        whole = time.monotonic() >= self._due or self._count_names() <= SMALL
        if whole:
            self._folders.clear()
            self._waiting.clear()
        started = time.monotonic()
        self.warnings = ()
        new = list(self._list_changed())
        found = []
        for path in dict.fromkeys([*self._waiting, *new]):
            file = look_at(self._folder, path)
            if file is None:
                self._forget(path)
            else:
                found.append(file)
        pending = list(self._records.select_pending(store, found))
        for file in found:
            self._waiting.pop(file.path, None)
        self._waiting.update((file.place_path, None) for file in pending)
        if whole:
            self._due = time.monotonic() + REST * (time.monotonic() - started)
        return tuple(sorted(pending, key=lambda file: file.path))

    def recheck(self, place: str) -> None:
        """What waits is looked at each time anyway."""

    def _count_names(self) -> int:
        return sum(len(names.inodes) for names in self._folders.values())

    def _forget(self, path: str) -> None:
        """Look at a path again each time: it is empty, or gone and may come again."""
        prefix, _, name = path.rpartition("/")
        names = self._folders.get(prefix + "/" if prefix else "")
        if names is not None and not os.path.lexists(f"{self._folder}/{path}"):
            names.inodes.pop(name, None)
            self._waiting.pop(path, None)
        else:
            self._waiting[path] = None

    def _list_changed(self) -> Iterator[str]:
        """List the folders that have moved; yields the paths of names that are new, or of another file than before."""
        queue = list(self._folders) or [""]
        while queue:
            prefix = queue.pop()
            place = f"{self._folder}/{prefix}"
            try:
                mtime_ns = os.stat(place).st_mtime_ns
                names = self._folders.get(prefix)
                settled = time.time_ns() - mtime_ns > SETTLED_NS
                if names is not None and names.mtime_ns == mtime_ns and (names.settled or not settled):
                    continue
                with os.scandir(place) as listed:
                    entries = list(listed)
            except OSError as error:
                self._record_unreadable(prefix, error)
                continue
            if names is None:
                names = self._folders[prefix] = _FolderListing(mtime_ns, settled)
            elif len(names.inodes) > 2 * len(entries) + SMALL:
                names.inodes = {}
            names.mtime_ns, names.settled = mtime_ns, settled
            inodes = names.inodes
            for entry in [entry for entry in entries if inodes.get(entry.name) != entry.inode()]:
                inodes[entry.name] = entry.inode()
                if is_folder(entry):
                    queue.append(f"{prefix}{entry.name}/")
                elif is_readable_name(entry.name, self._options):
                    yield prefix + entry.name

    def _record_unreadable(self, prefix: str, error: OSError) -> None:
        self._folders.pop(prefix, None)
        if not prefix:
            raise build_unreadable_error(self._table, self._folder, error)
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            self._folders[prefix] = _FolderListing(-1, False)  # tried again the next time
            warning = f"the folder {encode_path(prefix)} can't be read: {error.strerror}"
            self.warnings = (*self.warnings, warning)


Watch = FolderWatch | BucketWatch
_WATCHES: WeakKeyDictionary[Hummock, dict[tuple[object, ...], Watch]] = WeakKeyDictionary()


def get_watch(
    store: Hummock, table: str, table_id: int, place: LandingFolder | LandingBucket, options: FileOptions
) -> Watch:
    """Return what this process knows of a place already, for as long as the store is open."""
    watches = _WATCHES.setdefault(store, {})
    key = (table, place, options.format)
    known = watches.get(key)
    if known is None or known.table_id != table_id:
        if isinstance(place, LandingBucket):
            known = BucketWatch(table, table_id, place, options)
        else:
            known = FolderWatch(table, table_id, place, options)
        watches[key] = known
    return known

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
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.arrow import holds
from engine.connectors.file_formats import FileOptions
from engine.connectors.landing_folder import FoundFile, is_folder, is_read, look_at, stored_path, unreadable
from engine.connectors.landing_tables import FILES, TakenFile, all_taken, taken_files
from engine.hummock import Hummock

SMALL = 1_000
"""Up to so many names are looked at each time."""
REST = 20
SETTLED_NS = 3_000_000_000
"""A folder that has not moved for so long (3 s) has no two changes of which only the first was seen."""
LOOKED_UP_AT_ONCE = 2_000


@dataclass(frozen=True)
class PendingFile:
    """A file to be taken, or one that was changed after it was taken, or one that is half taken.

    `path` is how it is stored, `place` how the file system knows it. A `fault` says why it can't be read.
    """

    path: str
    size: int
    mtime_ns: int
    taken: TakenFile | None = None
    place: str = ""
    fault: str | None = None


@dataclass
class _Names:
    """What a folder held when it was listed: its time of change, the number of each name's file, and whether it had settled."""

    mtime_ns: int
    settled: bool
    inodes: dict[str, int] = field(default_factory=dict)


class FolderWatch:
    """What one process knows of one landing folder and its records."""

    def __init__(self, table: str, table_id: int, folder: Path, options: FileOptions) -> None:
        self._table, self._folder, self._options = table, folder, options
        self.table_id = table_id
        self._folders: dict[str, _Names] = {}
        self._waiting: dict[str, None] = {}
        self._due = 0.0
        self._asked: tuple[int | None, dict[str, TakenFile | None]] = (None, {})
        self.warnings: tuple[str, ...] = ()
        """Folders in it that can't be read."""

    def pending(self, store: Hummock) -> tuple[PendingFile, ...]:
        """Return what is to be taken, in the order of the paths; raises SourceError if the folder can't be read."""
        whole = time.monotonic() >= self._due or self._size() <= SMALL
        if whole:
            self._folders.clear()
            self._waiting.clear()
        started = time.monotonic()
        self.warnings = ()
        fresh = list(self._listed_again())
        found = []
        for path in dict.fromkeys([*self._waiting, *fresh]):
            file = look_at(self._folder, path)
            if file is None:
                self._forget(path)
            else:
                found.append(file)
        pending = list(self._judged(store, found))
        self._waiting.update((file.place, None) for file in pending)
        if whole:
            self._due = time.monotonic() + REST * (time.monotonic() - started)
        return tuple(sorted(pending, key=lambda file: file.path))

    def _size(self) -> int:
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

    def _listed_again(self) -> Iterator[str]:
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
                self._unread(prefix, error)
                continue
            if names is None:
                names = self._folders[prefix] = _Names(mtime_ns, settled)
            elif len(names.inodes) > 2 * len(entries) + SMALL:
                names.inodes = {}
            names.mtime_ns, names.settled = mtime_ns, settled
            inodes = names.inodes
            for entry in [entry for entry in entries if inodes.get(entry.name) != entry.inode()]:
                inodes[entry.name] = entry.inode()
                if is_folder(entry):
                    queue.append(f"{prefix}{entry.name}/")
                elif is_read(entry.name, self._options):
                    yield prefix + entry.name

    def _unread(self, prefix: str, error: OSError) -> None:
        self._folders.pop(prefix, None)
        if not prefix:
            raise unreadable(self._table, self._folder, error)
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            self._folders[prefix] = _Names(-1, False)  # tried again the next time
            told = f"the folder {stored_path(prefix)} can't be read: {error.strerror}"
            self.warnings = (*self.warnings, told)

    def _judged(self, store: Hummock, found: list[FoundFile]) -> Iterator[PendingFile]:
        """Yield the files whose record is missing or says something else; all others wait for nothing any more."""
        if len(found) > LOOKED_UP_AT_ONCE:
            unlike = self._unlike(store, found)
            for at in np.flatnonzero(~unlike).tolist():
                self._waiting.pop(found[at].path, None)
            found = [found[at] for at in np.flatnonzero(unlike).tolist()]
        paths = [stored_path(file.path) for file in found]
        records = self._records(store, paths)
        for file, path in zip(found, paths, strict=True):
            record = records[path]
            if record is not None and is_settled(record, file.size, file.mtime_ns):
                self._waiting.pop(file.path, None)
            else:
                yield PendingFile(path, file.size, file.mtime_ns, record, file.path, file.fault)

    def _records(self, store: Hummock, paths: list[str]) -> dict[str, TakenFile | None]:
        """Return the records of files, None where there is none; asked for once as long as no record changes."""
        version = store.version
        table = version.tables.get(FILES)
        epoch = None if table is None else table.committed_epoch
        known = self._asked[1] if self._asked[0] == epoch else {}
        asked = [path for path in paths if path not in known]
        found = taken_files(store, version, self._table, self.table_id, asked)
        records = {path: known[path] if path in known else found.get(path) for path in paths}
        self._asked = (epoch, records)
        return records

    def _unlike(self, store: Hummock, found: list[FoundFile]) -> np.ndarray:
        """Compare many files with all records at once: which of them differ, or have none."""
        records = all_taken(store, self._table, self.table_id)
        if not records.num_rows:
            return np.ones(len(found), dtype=bool)
        paths = pa.array([stored_path(file.path) for file in found], pa.string())
        found_at = pc.index_in(paths, value_set=records.column("path").combine_chunks())
        known, at = holds(found_at.is_valid()), found_at.fill_null(0).to_numpy()
        sizes = np.fromiter((file.size for file in found), np.int64, len(found))
        times = np.fromiter((file.mtime_ns for file in found), np.int64, len(found))
        same: np.ndarray = (records.column("seen_size").take(at).to_numpy() == sizes) & (
            records.column("seen_mtime_ns").take(at).to_numpy() == times
        )
        unlike: np.ndarray = ~(known & same)
        return unlike


def is_settled(record: TakenFile, size: int, mtime_ns: int) -> bool:
    """Tell whether nothing is to be done about a file with this record."""
    return record.position is None and (record.seen_size, record.seen_mtime_ns) == (size, mtime_ns)


_WATCHES: WeakKeyDictionary[Hummock, dict[tuple[object, ...], FolderWatch]] = WeakKeyDictionary()


def watch(store: Hummock, table: str, table_id: int, folder: Path, options: FileOptions) -> FolderWatch:
    """Return what this process knows of a folder already, for as long as the store is open."""
    watches = _WATCHES.setdefault(store, {})
    key = (table, folder, options.format)
    known = watches.get(key)
    if known is None or known.table_id != table_id:
        known = watches[key] = FolderWatch(table, table_id, folder, options)
    return known

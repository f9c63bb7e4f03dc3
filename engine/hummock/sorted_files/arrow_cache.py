"""The cache of decoded files: one uncompressed Arrow IPC file per SST, mapped by all processes of the
machine.
"""

from __future__ import annotations

import contextlib
import os
import string
import struct
import threading
import time
import uuid
from pathlib import Path

import pyarrow as pa
import xxhash

from engine.hummock.metrics import Counters
from engine.hummock.private_folder import make_private

CACHE_BYTES = 8 << 30
"""So much a user's caches hold together, but for a store that was given more: many stores do not fill a disk."""
MAPPED_FROM_BYTES = 1 << 18
_EVICT_TO = 0.8
SWEEP_SECONDS, SWEPT = 600, ".swept"
"""The caches of all stores are looked at by who has cached much, and by one that begins so long after the last time, which the
time of a file tells: of many stores it takes a second.
"""
LEFT_SECONDS = 14 * 86_400
"""Nobody has cached a file of a store for so long: what is left of its cache goes."""
_OURS = (".arrow", ".tmp")
_TRAILER = struct.Struct("<Q8s")
"""After the Arrow file: the xxh3 of its bytes under its name, and what tells that there is one."""
_MAGIC = b"TLCACHE2"


class ArrowCache:
    """Files below `folder`, least recently used first out beyond `capacity` bytes, and so those of all stores beside it beyond
    CACHE_BYTES, or `capacity` where that is more; any of them may vanish at any time.

    File names carry the boot of the machine, so that what a power cut left half on disk is never read. Only the user who runs
    this can look into the folder. Raises EnvironmentNotReady if somebody else could have put files there.
    """

    def __init__(self, folder: Path, capacity: int, counters: Counters | None = None) -> None:
        self.folder, self.capacity = folder, capacity
        self._is_ours = make_private(folder)
        self.counters = counters or Counters()
        self._suffix = f"-{_read_boot_id()}.arrow"
        self._lock = threading.Lock()
        self._since_scan: int | None = None

    def load(self, sst_id: str, rows: int, schema: pa.Schema | None = None) -> pa.Table | None:
        """Return a cached file's rows, one chunk a column, without copying; None if it is not there or not
        whole.
        """
        if not self._is_ours:
            return None
        path = self._path(sst_id)
        try:
            data = _read_content(path, sst_id)
            table = None if data is None else pa.ipc.open_file(pa.BufferReader(data)).read_all()
            os.utime(path)
        except FileNotFoundError:
            return None
        except (OSError, pa.ArrowInvalid):
            table = None
        if table is None or table.num_rows != rows or any(column.num_chunks != 1 for column in table.columns):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
            return None
        return table

    def store(self, sst_id: str, rows: pa.Table) -> bool:
        """Keep a decoded file, and return whether it is; trouble with the disk is no error, the object store still has it."""
        path = self._path(sst_id)
        temporary = path.with_name(f".{uuid.uuid4().hex}.tmp")
        if not self.folder.is_dir():
            self._is_ours = make_private(self.folder)
        if not self._is_ours:
            return False
        try:
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            with pa.OSFile(str(temporary), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
                writer.write_table(rows)
            _seal(temporary, sst_id)
            os.replace(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            return False
        self._evict_beyond_capacity(rows.nbytes)
        return path.exists()

    def drop(self, sst_id: str) -> None:
        """Forget a file."""
        self._path(sst_id).unlink(missing_ok=True)

    def _path(self, sst_id: str) -> Path:
        return self.folder / f"{sst_id}{self._suffix}"

    def _evict_beyond_capacity(self, added: int) -> None:
        with self._lock:
            first = self._since_scan is None
            if self._since_scan is not None:
                self._since_scan += added
                if self._since_scan < self.capacity // 16:
                    return
            self._since_scan = 0
        retained = self._evict(self._list_files(self.folder), self.capacity)
        if not first or self._is_sweep_due():
            self._sweep(retained)

    def _is_sweep_due(self) -> bool:
        try:
            return time.time() - (self.folder.parent / SWEPT).stat().st_mtime > SWEEP_SECONDS
        except OSError:
            return True

    def _sweep(self, own: list[tuple[float, int, str]]) -> None:
        """Bound the caches of all stores together: this one's files are given."""
        with contextlib.suppress(OSError):
            (self.folder.parent / SWEPT).touch(0o600)
        siblings = self._list_sibling_stores()
        self._drop_abandoned_caches(siblings)
        others = [file for folder in siblings for file in self._list_files(folder)]
        self._evict([*own, *others], max(self.capacity, CACHE_BYTES))

    def _list_files(self, folder: Path) -> list[tuple[float, int, str]]:
        """Return when each file of a store's cache was last used, its bytes and its path; of another boot none ever was."""
        found = []
        with contextlib.suppress(OSError):
            for entry in os.scandir(folder):
                if not entry.name.endswith(_OURS):
                    continue
                with contextlib.suppress(OSError):
                    stat = entry.stat()
                    stale = entry.name.endswith(".arrow") and not entry.name.endswith(self._suffix)
                    found.append((0.0 if stale else stat.st_mtime, stat.st_size, entry.path))
        return found

    def _evict(self, files: list[tuple[float, int, str]], capacity: int) -> list[tuple[float, int, str]]:
        """Remove the least recently used files beyond a capacity; returns those that are kept."""
        files.sort()
        total, first = sum(size for _, size, _ in files), 0
        if total > capacity:
            for _, size, path in files:
                with contextlib.suppress(OSError):
                    os.unlink(path)
                    self.counters.add("cache_evictions")
                total, first = total - size, first + 1
                if total <= capacity * _EVICT_TO:
                    break
        return files[first:]

    def _list_sibling_stores(self) -> list[Path]:
        with contextlib.suppress(OSError):
            return [
                Path(entry.path)
                for entry in os.scandir(self.folder.parent)
                if _is_store_name(entry.name)
                and entry.name != self.folder.name
                and entry.is_dir(follow_symlinks=False)
            ]
        return []

    def _drop_abandoned_caches(self, folders: list[Path]) -> None:
        """Remove the files of stores beside this one that nobody has written to for long: most of these stores are gone."""
        for folder in folders:
            with contextlib.suppress(OSError):
                if time.time() - folder.stat().st_mtime > LEFT_SECONDS:
                    for file in os.scandir(folder):
                        if file.name.endswith(_OURS):
                            os.unlink(file.path)
                    os.rmdir(folder)


def _is_store_name(name: str) -> bool:
    return len(name) == 16 and set(name) <= set(string.hexdigits)


def _seal(path: Path, sst_id: str) -> None:
    """Add to a file's end the checksum of its content under its name: one under another name is not taken for it."""
    size = path.stat().st_size
    checksum = _compute_checksum(_read_bytes(path, size), sst_id)
    with open(path, "ab") as file:
        file.write(_TRAILER.pack(checksum, _MAGIC))


def _read_content(path: Path, sst_id: str) -> pa.Buffer | None:
    """The Arrow file in a cached one, mapped if it is large; None if it is not whole or not what was written."""
    found = path.stat()
    size = found.st_size - _TRAILER.size
    if size <= 0 or (hasattr(os, "getuid") and found.st_uid != os.getuid()):
        return None
    data = _read_bytes(path, size + _TRAILER.size)
    checksum, magic = _TRAILER.unpack(memoryview(data)[size:])
    content = data.slice(0, size)
    return content if magic == _MAGIC and _compute_checksum(content, sst_id) == checksum else None


def _compute_checksum(content: pa.Buffer, sst_id: str) -> int:
    return xxhash.xxh3_64_intdigest(content, seed=xxhash.xxh3_64_intdigest(sst_id.encode()))


def _read_bytes(path: Path, size: int) -> pa.Buffer:
    if size < MAPPED_FROM_BYTES:
        return pa.py_buffer(path.read_bytes())
    with pa.memory_map(str(path)) as file:
        return file.read_buffer(size)


def _read_boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
    except OSError:
        return "0"

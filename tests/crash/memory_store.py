"""An object store in memory on a virtual clock that can stop its process at any call, before or after the call's effect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from engine.errors import StorageError
from engine.hummock.object_store import ObjectInfo


class Crash(BaseException):
    """The process is gone: nothing of it runs on."""


class Disk:
    """What survives a crash: objects with their time of change."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.objects: dict[str, tuple[bytes, float]] = {}


class MemoryObjectStore:
    """One process's way to the disk; `crash_at` counts calls down, `after` lets the fatal call take effect first."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.crash_at: int | None = None
        self.after = False
        self.calls = 0
        self._dead = False

    def _call(self) -> bool:
        """Count a call; True if the process is to stop after its effect."""
        if self._dead:
            raise Crash
        self.calls += 1
        if self.crash_at is None:
            return False
        self.crash_at -= 1
        if self.crash_at > 0:
            return False
        self._dead = True
        if not self.after:
            raise Crash
        return True

    @staticmethod
    def _end(fatal: bool) -> None:
        if fatal:
            raise Crash

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create an object; False if it exists."""
        fatal = self._call()
        created = path not in self.disk.objects
        if created:
            self.disk.objects[path] = (bytes(data), self.disk.clock())
        self._end(fatal)
        return created

    def put(self, path: str, data: bytes | memoryview) -> None:
        """Create or replace an object."""
        fatal = self._call()
        self.disk.objects[path] = (bytes(data), self.disk.clock())
        self._end(fatal)

    def get(self, path: str) -> bytes | None:
        """Return an object's bytes, or None."""
        fatal = self._call()
        found = self.disk.objects.get(path)
        self._end(fatal)
        return None if found is None else found[0]

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        """Return a part of an object."""
        data = self.get(path)
        if data is None:
            raise StorageError(f"no object {path}")
        return data[offset : offset + length]

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects below a prefix, in order."""
        fatal = self._call()
        found = sorted(p for p in self.disk.objects if p.startswith(prefix) and p > start_after)
        self._end(fatal)
        for path in found:
            data, modified = self.disk.objects[path]
            yield ObjectInfo(path, len(data), modified)

    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects, one call each: a crash may leave some."""
        for path in paths:
            fatal = self._call()
            self.disk.objects.pop(path, None)
            self._end(fatal)

    def head(self, path: str) -> ObjectInfo | None:
        """Return an object's size and age, or None."""
        fatal = self._call()
        found = self.disk.objects.get(path)
        self._end(fatal)
        return None if found is None else ObjectInfo(path, len(found[0]), found[1])

    def local_path(self, path: str) -> Path | None:
        """Objects in memory have no file."""
        return None

"""Objects in the memory of this process: for tests and trials that need no disk."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from engine.errors import StorageError
from engine.hummock.clock import Clock, system_clock
from engine.hummock.object_store import ObjectInfo


class MemoryObjectStore:
    """A dictionary of objects, shared by all handles that are given it; ages are those of `clock`."""

    def __init__(self, clock: Clock = system_clock) -> None:
        self._clock = clock
        self._objects: dict[str, tuple[bytes, float]] = {}
        self._lock = threading.Lock()

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create an object; False if it exists."""
        with self._lock:
            if path in self._objects:
                return False
            self._objects[path] = (bytes(data), self._clock())
            return True

    def put(self, path: str, data: bytes | memoryview) -> None:
        """Create or replace an object."""
        with self._lock:
            self._objects[path] = (bytes(data), self._clock())

    def get(self, path: str) -> bytes | None:
        """Return an object's bytes, or None."""
        found = self._objects.get(path)
        return None if found is None else found[0]

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        """Return a part of an object."""
        found = self._objects.get(path)
        if found is None:
            raise StorageError(f"{path} is missing from memory")
        return found[0][offset : offset + length]

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects whose path starts with `prefix`."""
        with self._lock:
            found = [
                ObjectInfo(path, len(data), modified)
                for path, (data, modified) in self._objects.items()
                if path.startswith(prefix) and path > start_after
            ]
        yield from sorted(found, key=lambda info: info.path)

    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects."""
        with self._lock:
            for path in paths:
                self._objects.pop(path, None)

    def head(self, path: str) -> ObjectInfo | None:
        """Return an object's size and age, or None."""
        found = self._objects.get(path)
        return None if found is None else ObjectInfo(path, len(found[0]), found[1])

    def local_path(self, path: str) -> Path | None:
        """Nothing of it is a file."""
        return None

    def now(self) -> float | None:
        """Return the time of its clock."""
        return self._clock()

"""An object store in memory that outlives its clients, and a client that dies at a chosen call."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from engine.errors import StorageError
from engine.hummock.object_store import ObjectInfo


class Crash(Exception):
    """The process ends here."""


class MemoryObjectStore:
    """Objects in a dict."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def put_if_absent(self, path: str, data: bytes) -> bool:
        with self._lock:
            if path in self.objects:
                return False
            self.objects[path] = bytes(data)
            return True

    def put(self, path: str, data: bytes | memoryview) -> None:
        self.objects[path] = bytes(data)

    def get(self, path: str) -> bytes | None:
        return self.objects.get(path)

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        data = self.objects.get(path)
        if data is None:
            raise StorageError(f"{path} is missing")
        return data[offset : offset + length]

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        for path in sorted(self.objects):
            if path.startswith(prefix) and path > start_after:
                yield ObjectInfo(path, len(self.objects[path]), time.time())

    def delete(self, paths: Iterable[str]) -> None:
        for path in list(paths):
            self.objects.pop(path, None)

    def head(self, path: str) -> ObjectInfo | None:
        data = self.objects.get(path)
        return None if data is None else ObjectInfo(path, len(data), time.time())

    def local_path(self, path: str) -> Path | None:
        return None


class DyingClient:
    """A client of an object store that dies at its `at`-th write: before it, or right after it was done."""

    def __init__(self, inner: MemoryObjectStore, at: int | None = None, after: bool = False) -> None:
        self.inner, self.at, self.after = inner, at, after
        self.calls = 0

    def _call(self, name: str, *arguments: object) -> object:
        self.calls += 1
        dies = self.at is not None and self.calls >= self.at
        if dies and not (self.after and self.calls == self.at):
            raise Crash(f"{name} {arguments[0]}")
        done = getattr(self.inner, name)(*arguments)
        if dies:
            raise Crash(f"after {name} {arguments[0]}")
        return done

    def put_if_absent(self, path: str, data: bytes) -> bool:
        return self._call("put_if_absent", path, data)  # type: ignore[return-value]

    def put(self, path: str, data: bytes | memoryview) -> None:
        self._call("put", path, data)

    def get(self, path: str) -> bytes | None:
        return self._call("get", path)  # type: ignore[return-value]

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        return self._call("get_range", path, offset, length)  # type: ignore[return-value]

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        return iter(list(self._call("list", prefix, start_after)))  # type: ignore[call-overload]

    def delete(self, paths: Iterable[str]) -> None:
        self._call("delete", list(paths))

    def head(self, path: str) -> ObjectInfo | None:
        return self._call("head", path)  # type: ignore[return-value]

    def local_path(self, path: str) -> Path | None:
        return None

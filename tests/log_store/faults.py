"""An object store in memory that outlives its clients, and a client that dies at a chosen call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from engine.hummock.object_store import ObjectInfo
from engine.testing import memory
from engine.testing.faulty import Crashed as Crash

__all__ = ["Crash", "DyingClient", "MemoryObjectStore"]


class MemoryObjectStore(memory.MemoryObjectStore):
    """Objects in memory that a test can look at."""

    @property
    def objects(self) -> dict[str, bytes]:
        """All objects by their paths."""
        return {info.path: self.get(info.path) or b"" for info in self.list("")}


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

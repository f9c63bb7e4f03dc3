"""An object store that counts its requests by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from engine.hummock.object_store import ObjectInfo, ObjectStore


class CountingStore:
    """Passes everything on and counts; `paths` keeps the paths of each kind."""

    def __init__(self, inner: ObjectStore) -> None:
        self.inner = inner
        self.counts: Counter[str] = Counter()
        self.paths: dict[str, list[str]] = {}

    def reset(self) -> None:
        self.counts.clear()
        self.paths.clear()

    def _count(self, kind: str, path: str) -> None:
        self.counts[kind] += 1
        self.paths.setdefault(kind, []).append(path)

    def put_if_absent(self, path: str, data: bytes) -> bool | None:
        self._count("put", path)
        return self.inner.put_if_absent(path, data)

    def put(self, path: str, data: bytes | memoryview) -> None:
        self._count("put", path)
        self.inner.put(path, data)

    def get(self, path: str) -> bytes | None:
        self._count("get", path)
        return self.inner.get(path)

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        self._count("get", path)
        return self.inner.get_range(path, offset, length)

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        for n, info in enumerate(self.inner.list(prefix, start_after)):
            if n % 1000 == 0:
                self._count("list", prefix)
            yield info

    def delete(self, paths: Iterable[str]) -> None:
        self._count("delete", "")
        self.inner.delete(paths)

    def head(self, path: str) -> ObjectInfo | None:
        self._count("head", path)
        return self.inner.head(path)

    def local_path(self, path: str) -> Path | None:
        return None

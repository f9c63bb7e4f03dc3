"""An object store whose requests are counted."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from engine.hummock.metrics import Counters
from engine.hummock.object_store import ObjectInfo, ObjectStore


class CountingObjectStore:
    """Passes everything on to `inner` and counts requests, failures, bytes and seconds.

    A listing counts once, and its seconds are those until its first entry.
    """

    def __init__(self, inner: ObjectStore, counters: Counters) -> None:
        self.inner, self.counters = inner, counters

    def put_if_absent(self, path: str, data: bytes) -> bool | None:
        """Create an object if it is not there."""
        with _Request(self.counters, "put_if_absent", sent=len(data)) as request:
            won = self.inner.put_if_absent(path, data)
            request.failed = won is None
            return won

    def put(self, path: str, data: bytes | memoryview) -> None:
        """Create or replace an object."""
        with _Request(self.counters, "put", sent=len(data)):
            self.inner.put(path, data)

    def get(self, path: str) -> bytes | None:
        """Return an object's bytes, or None."""
        with _Request(self.counters, "get") as request:
            data = self.inner.get(path)
            request.received = len(data or b"")
            return data

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        """Return a part of an object."""
        with _Request(self.counters, "get_range") as request:
            data = self.inner.get_range(path, offset, length)
            request.received = len(data)
            return data

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects below a prefix."""
        with _Request(self.counters, "list"):
            found = iter(self.inner.list(prefix, start_after))
            first = next(found, None)
        if first is not None:
            yield first
            yield from found

    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects."""
        doomed = list(paths)
        if doomed:
            with _Request(self.counters, "delete"):
                self.inner.delete(doomed)

    def head(self, path: str) -> ObjectInfo | None:
        """Return an object's size and age, or None."""
        with _Request(self.counters, "head"):
            return self.inner.head(path)

    def local_path(self, path: str) -> Path | None:
        """Return where an object can be mapped; no request."""
        return self.inner.local_path(path)

    def now(self) -> float | None:
        """Return the store's own time, or None; also of one that was written before stores gave it."""
        read_time = getattr(self.inner, "now", None)
        return None if read_time is None else read_time()


class _Request:
    """One request under way: counted on leaving, whether it succeeded or not."""

    __slots__ = ("_counters", "_kind", "_sent", "_started", "failed", "received")

    def __init__(self, counters: Counters, kind: str, sent: int = 0) -> None:
        self._counters, self._kind, self._sent = counters, kind, sent
        self.received, self.failed = 0, False

    def __enter__(self) -> _Request:
        self._started = time.perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._counters.count_request(
            self._kind,
            seconds=time.perf_counter() - self._started,
            sent=self._sent,
            received=self.received,
            failed=self.failed or kind is not None,
        )

"""An object store that is further away than it is: each request takes so much longer, and no object can be mapped."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from engine.errors import StorageError
from engine.hummock.object_store import ObjectInfo, ObjectStore


def delay_requests(inner: ObjectStore) -> ObjectStore:
    """Return `inner`, further away if the environment says so."""
    delay = os.environ.get("TIDELINE_STORE_DELAY_MS")
    if not delay:
        return inner
    try:
        return DelayedObjectStore(inner, max(0.0, float(delay)) / 1000)
    except ValueError:
        raise StorageError(f"TIDELINE_STORE_DELAY_MS is '{delay}': give milliseconds, as 80") from None


class DelayedObjectStore:
    """Passes every request on to `inner` after `seconds`; for measuring what a bucket's latency costs."""

    def __init__(self, inner: ObjectStore, seconds: float) -> None:
        self.inner, self.seconds = inner, seconds

    def put_if_absent(self, path: str, data: bytes) -> bool | None:
        """Create an object if it is not there."""
        time.sleep(self.seconds)
        return self.inner.put_if_absent(path, data)

    def put(self, path: str, data: bytes | memoryview) -> None:
        """Create or replace an object."""
        time.sleep(self.seconds)
        self.inner.put(path, data)

    def get(self, path: str) -> bytes | None:
        """Return an object's bytes, or None."""
        time.sleep(self.seconds)
        return self.inner.get(path)

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        """Return a part of an object."""
        time.sleep(self.seconds)
        return self.inner.get_range(path, offset, length)

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects below a prefix."""
        time.sleep(self.seconds)
        yield from self.inner.list(prefix, start_after)

    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects."""
        time.sleep(self.seconds)
        self.inner.delete(paths)

    def head(self, path: str) -> ObjectInfo | None:
        """Return an object's size and age, or None."""
        time.sleep(self.seconds)
        return self.inner.head(path)

    def local_path(self, path: str) -> Path | None:
        """Return None: what is far away cannot be mapped."""
        return None

    def now(self) -> float | None:
        """Return the store's own time, or None."""
        return self.inner.now()

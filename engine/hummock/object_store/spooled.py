"""An object store whose small new objects lie on this machine until they are uploaded: who writes them goes on at once."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote

from engine.errors import StorageError
from engine.hummock.object_store import ObjectInfo, ObjectStore

SPOOLED_BYTES = 8 << 20
"""A larger object goes to the store at once: what takes long to send is not sent by one process for all tasks."""


class SpooledObjectStore:
    """Keeps what is put in `folder`, which all processes of one writer on a machine share, and passes all else on to `inner`.

    An object in the folder is durable only once it was uploaded; a commit that names it has to wait for that.
    """

    def __init__(self, inner: ObjectStore, folder: Path) -> None:
        self.inner, self._folder = inner, folder

    def put(self, path: str, data: bytes | memoryview) -> None:
        """Keep a small object here, to be uploaded; one that can't be kept, as the disk is full, goes to the store."""
        if len(data) <= SPOOLED_BYTES:
            target = self._spool_path(path)
            temporary = target.with_name(f".{uuid.uuid4().hex}.tmp")
            try:
                temporary.write_bytes(data)
                os.replace(temporary, target)
                return
            except OSError:
                with contextlib.suppress(OSError):
                    temporary.unlink(missing_ok=True)
        self.inner.put(path, data)

    def upload(self, path: str) -> None:
        """Send an object that is kept here to the store, or see that it is there; raises StorageError if it is nowhere."""
        data = self._read_spooled(path)
        if data is not None:
            self.inner.put(path, data)
            self._spool_path(path).unlink(missing_ok=True)
        elif self.inner.head(path) is None:
            raise StorageError(
                f"{path} was lost before it was uploaded: {self._folder} was emptied by somebody else"
            )

    def put_if_absent(self, path: str, data: bytes) -> bool | None:
        """Create an object in the store if it is not there."""
        return self.inner.put_if_absent(path, data)

    def get(self, path: str) -> bytes | None:
        """Return an object's bytes, or None."""
        data = self._read_spooled(path)
        return self.inner.get(path) if data is None else data

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        """Return a part of an object."""
        data = self._read_spooled(path)
        return self.inner.get_range(path, offset, length) if data is None else data[offset : offset + length]

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects of the store below a prefix."""
        return self.inner.list(prefix, start_after)

    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects, here and there."""
        doomed = list(paths)
        for path in doomed:
            self._spool_path(path).unlink(missing_ok=True)
        self.inner.delete(doomed)

    def head(self, path: str) -> ObjectInfo | None:
        """Return the size and age of an object of the store, or None."""
        return self.inner.head(path)

    def local_path(self, path: str) -> Path | None:
        """Return where an object of the store can be mapped."""
        return None if self._spool_path(path).exists() else self.inner.local_path(path)

    def now(self) -> float | None:
        """Return the store's own time, or None."""
        return self.inner.now()

    def _read_spooled(self, path: str) -> bytes | None:
        try:
            return self._spool_path(path).read_bytes()
        except FileNotFoundError:
            return None

    def _spool_path(self, path: str) -> Path:
        return self._folder / quote(path, safe="")

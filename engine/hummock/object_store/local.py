"""A directory as an object store: temp file, fsync, hard link or rename, fsync of the directory."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from engine.errors import StorageError, StorageFull, Unavailable, UnknownStore
from engine.hummock.object_store import ObjectInfo

_TEMPORARY = ".tmp-"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_ASK_AGAIN = (errno.EAGAIN, errno.EINTR, errno.EBUSY, errno.ESTALE, errno.ETIMEDOUT, errno.EIO)


ESCAPES = "write ? in a name as %3F, and # as %23"


def find_unescaped_mark(url: str) -> str | None:
    """Return the mark in a local address that would end its path, None if there is none."""
    return next((mark for mark in "?#" if mark in url), None)


class LocalObjectStore:
    """Objects are files below `root`; a file appears under its name whole and durable, or not at all."""

    def __init__(self, root: Path, *, create: bool = True) -> None:
        self.root = root
        if create:
            with self._translate_errors("", "made"):
                root.mkdir(parents=True, exist_ok=True)
        elif not root.is_dir():
            raise UnknownStore(f"no store at {root}: open it with create=True to make one")
        self._folders: set[Path] = set()

    @classmethod
    def of_url(cls, url: str, *, create: bool = True) -> LocalObjectStore:
        """Return the store of a `file:///path` address."""
        parts = urlsplit(url)
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise StorageError(f'"{url}" must have three slashes and a full path: file:///path')
        if mark := find_unescaped_mark(url):
            raise StorageError(f'"{url}" has a {mark}, behind which no address has anything: {ESCAPES}')
        return cls(Path(unquote(parts.path)), create=create)

    def put_if_absent(self, path: str, data: bytes) -> bool | None:
        """Create a file; False if it exists, None if it is uncertain whether it would survive a power cut."""
        with self._translate_errors(path, "written"):
            target = self._prepare(path)
            if target.exists():  # a lost race need not be written and synced
                return False
            temporary = self._write_temporary(target, data)
            try:
                os.link(temporary, target)
            except FileExistsError:
                return False
            finally:
                with contextlib.suppress(OSError):
                    temporary.unlink()
        try:
            _sync_folder(target.parent)
        except OSError:
            return None
        return True

    def put(self, path: str, data: bytes | memoryview) -> None:
        """Create or replace a file."""
        with self._translate_errors(path, "written"):
            target = self._prepare(path)
            os.replace(self._write_temporary(target, data), target)
            _sync_folder(target.parent)

    def get(self, path: str) -> bytes | None:
        """Return a file's bytes, or None."""
        with self._translate_errors(path, "read"):
            try:
                return self._resolve_path(path).read_bytes()
            except FileNotFoundError:
                return None

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        """Return a part of a file."""
        with self._translate_errors(path, "read"):
            try:
                with open(self._resolve_path(path), "rb") as file:
                    file.seek(offset)
                    return file.read(length)
            except FileNotFoundError as error:
                raise StorageError(f"{path} is missing from {self.root}") from error

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield the files whose path starts with `prefix`."""
        folder = self.root / prefix.rpartition("/")[0]
        found = []
        for parent, _, names in os.walk(folder):
            base = Path(parent).relative_to(self.root).as_posix()
            found += [name if base == "." else f"{base}/{name}" for name in names]
        for path in sorted(found):
            if path.startswith(prefix) and path > start_after:
                info = self.head(path)
                if info is not None:
                    yield info

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files."""
        for path in paths:
            with self._translate_errors(path, "deleted"), contextlib.suppress(FileNotFoundError):
                os.unlink(self._resolve_path(path))

    def head(self, path: str) -> ObjectInfo | None:
        """Return a file's size and age, or None."""
        try:
            stat = os.stat(self._resolve_path(path))
        except FileNotFoundError:
            return None
        return ObjectInfo(path, stat.st_size, stat.st_mtime)

    def local_path(self, path: str) -> Path | None:
        """Return the file."""
        return self._resolve_path(path)

    def now(self) -> float | None:
        """Return what the file system dates a new file with: on a network file system its server's time; None if none
        can be written here.
        """
        try:
            with tempfile.TemporaryFile(prefix=_TEMPORARY, dir=self.root) as file:
                return os.fstat(file.fileno()).st_mtime
        except OSError:
            return None

    @contextlib.contextmanager
    def _translate_errors(self, path: str, what: str) -> Iterator[None]:
        """Turn what the operating system says into an error that names the file."""
        try:
            yield
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise StorageFull(self._describe_no_room(path, what, error)) from error
            kind = Unavailable if error.errno in _ASK_AGAIN else StorageError
            raise kind(f"{self.root / path} cannot be {what}: {error.strerror or error}") from error

    def _describe_no_room(self, path: str, what: str, error: OSError) -> str:
        folder = next(place for place in (self.root, *self.root.parents) if place.is_dir())
        room = shutil.disk_usage(folder)
        return (
            f"{self.root / path} cannot be {what}: {error.strerror}; the file system of {folder} has "
            f"{room.free / 1e6:,.1f} MB free of {room.total / 1e6:,.1f} MB. Make room there: nothing that was committed is "
            f"lost, and pending work continues by itself"
        )

    def _resolve_path(self, path: str) -> Path:
        """Return where an object's file is; raises StorageError for a path that leads out of the folder."""
        if path.startswith("/") or ".." in path.split("/"):
            raise StorageError(f"{path} is no object of {self.root}: it would lie outside of that folder")
        return self.root / path

    def _prepare(self, path: str) -> Path:
        target = self._resolve_path(path)
        if target.parent not in self._folders or not target.parent.is_dir():
            if not self.root.is_dir():
                raise StorageError(
                    f"{target} cannot be written: the folder {self.root} was removed; open the store again to make a new one, or "
                    f"restore it from a copy"
                )
            target.parent.mkdir(parents=True, exist_ok=True)
            _sync_folder(target.parent.parent)
            self._folders.add(target.parent)
        return target

    def _write_temporary(self, target: Path, data: bytes | memoryview) -> Path:
        temporary = target.parent / f"{_TEMPORARY}{uuid.uuid4().hex}"
        try:
            with open(temporary, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        return temporary


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

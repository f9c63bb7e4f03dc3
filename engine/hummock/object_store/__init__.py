"""The one seam to object storage: a small protocol, with a local directory and S3 behind it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from engine.errors import StorageError


@dataclass(frozen=True)
class ObjectInfo:
    """An object as a listing shows it: path below the store's prefix, bytes, seconds since 1970 of its last
    change, and the tag that changes with its bytes, where the store tells one.
    """

    path: str
    size: int
    modified: float
    etag: str = ""


class ObjectStore(Protocol):
    """What the engine needs of an object store; create-if-absent is the only primitive that commits rest on."""

    def put_if_absent(self, path: str, data: bytes) -> bool | None:
        """Create an object; False if one is there already, None if the answer was lost and must be read back."""

    def put(self, path: str, data: bytes | memoryview) -> None:
        """Create or replace an object; durable when it returns."""

    def get(self, path: str) -> bytes | None:
        """Return an object's bytes, or None if there is none."""

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset`; raises StorageError if the object is not there."""

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects whose path starts with `prefix`, in the order of paths, those after
        `start_after`.
        """

    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects; one that is not there is no error."""

    def head(self, path: str) -> ObjectInfo | None:
        """Return an object's size and age, or None if there is none."""

    def local_path(self, path: str) -> Path | None:
        """Return where an object can be mapped into memory, or None if it is not on this machine."""

    def now(self) -> float | None:
        """Return the store's own time in seconds since 1970, the same for all machines; None if it does not tell.

        No request where an earlier answer was dated.
        """


def open_object_store(url: str, *, create: bool = True) -> ObjectStore:
    """Return the object store of `file:///path` or `s3://bucket/prefix`, or of an open branch below one; raises StorageError
    for any other address.
    """
    from engine.hummock.object_store.branch import BranchObjectStore, find_branch_place, find_root_url
    from engine.hummock.object_store.local import LocalObjectStore

    if place := find_branch_place(url):
        return BranchObjectStore(open_object_store(find_root_url(url), create=create), place)
    scheme, separator, rest = url.partition("://")
    if separator and scheme == "file":
        return LocalObjectStore.of_url(url, create=create)
    if separator and scheme in ("s3", "s3a") and rest:
        from engine.hummock.object_store.s3 import S3ObjectStore  # a folder is opened without loading boto3

        bucket, _, prefix = rest.partition("/")
        return S3ObjectStore(bucket, prefix.strip("/"), create=create)
    raise StorageError(f'"{url}" is no address of a store: write file:///path or s3://bucket/prefix')

"""Landing places in buckets: what lies below a prefix, and how an object of it is read in parts."""

from __future__ import annotations

import io
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import BinaryIO

from engine.connectors.confinement import check_bucket_allowed
from engine.connectors.landing.place import FoundFile
from engine.errors import PathNotAllowed
from engine.hummock.metrics import Counters
from engine.hummock.object_store import ObjectInfo, ObjectStore
from engine.hummock.object_store.retrying import wrap_with_retries
from engine.hummock.sorted_files.range_file import RangeFile

_ADDRESS = re.compile(r"s3a?://([^/]+)(?:/(.*))?", re.DOTALL)
PART_BYTES = 1 << 20
"""A request for less asks for so much all the same."""
COPIED_AT_ONCE = 8 << 20
PATIENCE_SECONDS = 10.0
"""For how long a request is repeated that the store does not answer; the next poll goes on."""


@dataclass(frozen=True)
class LandingBucket:
    """The objects below a prefix of a bucket as a place where files land."""

    bucket: str
    prefix: str

    @property
    def display_name(self) -> str:
        """The place as an address."""
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")

    @cached_property
    def objects(self) -> ObjectStore:
        """The store below the prefix; nothing is asked of it yet."""
        from engine.hummock.object_store.s3 import S3ObjectStore  # boto3 is loaded where it is needed

        inner = S3ObjectStore(self.bucket, self.prefix, create=False, look=False)
        return wrap_with_retries(inner, Counters(), seconds=PATIENCE_SECONDS)

    def __reduce__(self) -> tuple[type[LandingBucket], tuple[str, str]]:
        return LandingBucket, (self.bucket, self.prefix)  # a task opens a store of its own

    def list_objects(self, after: str = "") -> Iterator[ObjectInfo]:
        """Yield what lies in the place, in the order of names, behind a name; a request a thousand."""
        return self.objects.list("", after)

    def look_at(self, path: str) -> FoundFile | None:
        """Return the file at a path in the place, None if there is none, or it is empty."""
        info = self.objects.head(path)
        return None if info is None else build_found_file(info)

    def open(self, path: str, size: int, *, handed_on: bool) -> BinaryIO:
        """Open a file to be read by requests for parts of it; `handed_on` copies it to a nameless file of this machine."""
        file: BinaryIO = io.BufferedReader(RangeFile(self.objects, path, size), PART_BYTES)
        if not handed_on:
            return file
        with ExitStack() as unless_copied:
            copy = unless_copied.enter_context(tempfile.TemporaryFile())
            with file:
                shutil.copyfileobj(file, copy, COPIED_AT_ONCE)
            copy.flush()
            copy.seek(0)
            unless_copied.pop_all()
        return copy


def build_found_file(info: ObjectInfo) -> FoundFile | None:
    """Return an object as a file, None for one without content, as stands for a folder."""
    if not info.size:
        return None
    return FoundFile(info.path, info.size, int(info.modified * 1_000_000_000), None, info.etag)


def parse_landing_bucket(path: str) -> LandingBucket:
    """Return the place that an address names; raises PathNotAllowed if a project may not read there, or it names none."""
    found = _ADDRESS.fullmatch(path)
    prefix = (found[2] or "").rstrip("/") if found else ""
    if found is None or any(part in ("", ".", "..") for part in prefix.split("/") if prefix):
        raise PathNotAllowed(f"{path} is no address of a bucket: write s3://bucket/prefix")
    check_bucket_allowed(path)
    return LandingBucket(found[1], prefix)

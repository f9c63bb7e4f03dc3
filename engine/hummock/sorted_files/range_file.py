"""A file of the object store of which only parts are read: as ranges, or in sections that are held against their checksums."""

from __future__ import annotations

import bisect
import io
from collections.abc import Sequence
from concurrent.futures import Executor

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from engine.errors import CorruptObject
from engine.hummock.object_store import ObjectStore
from engine.hummock.version import SstInfo

_MAGIC = b"PAR1"
"""How a Parquet file begins."""


class RangeFile(io.RawIOBase):
    """Bytes of an object, all or a part, as a seekable file object: each read is one ranged GET."""

    def __init__(self, store: ObjectStore, path: str, length: int, offset: int = 0) -> None:
        super().__init__()
        self._store, self._path, self._length, self._offset = store, path, length, offset
        self._at = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move the position."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._length}[whence]
        self._at = max(base + offset, 0)
        return self._at

    def size(self) -> int:
        """Return the length in bytes."""
        return self._length

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]  # what BufferedReader gives
        """Read the next bytes into a buffer; return how many."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        size = self._length - self._at if size < 0 else min(size, self._length - self._at)
        if size <= 0:
            return b""
        data = self._store.get_range(self._path, self._offset + self._at, size)
        self._at += len(data)
        return data


class SectionFile(RangeFile):
    """A file that is read a whole section at a time, each by one ranged GET and under its checksum.

    Raises CorruptObject for a section that is not what was written.
    """

    def __init__(self, store: ObjectStore, info: SstInfo) -> None:
        super().__init__(store, info.path, info.length, info.offset)
        self._sections = info.sections
        self._ends = [end for end, _ in info.sections]
        self._cached: dict[int, bytes] = {}

    def read_metadata(self) -> pq.FileMetaData:
        """Return what the footer says."""
        return pq.read_metadata(pa.BufferReader(_MAGIC + self._read_section(len(self._ends) - 1)))

    def forget(self) -> None:
        """Let go of the sections that are held."""
        self._cached.clear()

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        end = self._length if size < 0 else min(self._at + size, self._length)
        parts = []
        while self._at < end:
            section = bisect.bisect_right(self._ends, self._at)
            start = self._ends[section - 1] if section else 0
            data = self._read_section(section)[self._at - start : end - start]
            parts.append(data)
            self._at += len(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def fetch(self, groups: Sequence[int], ranges: Executor) -> None:
        """Fetch sections, each by one request of a thread of `ranges`, and hold them."""
        for _ in ranges.map(self._read_section, groups):
            pass

    def fetch_between(self, first: int, last: int) -> None:
        """Fetch sections that follow each other by one request, and hold them."""
        start = self._section_start(first)
        data = self._read_range(start, self._ends[last])
        for number in range(first, last + 1):
            self._hold(number, data[self._section_start(number) - start : self._ends[number] - start])

    def _read_section(self, number: int) -> bytes:
        if number not in self._cached:
            self._hold(number, self._read_range(self._section_start(number), self._ends[number]))
        return self._cached[number]

    def _section_start(self, number: int) -> int:
        return self._ends[number - 1] if number else 0

    def _read_range(self, start: int, end: int) -> bytes:
        return self._store.get_range(self._path, self._offset + start, end - start)

    def _hold(self, number: int, data: bytes) -> None:
        (end, checksum), start = self._sections[number], self._section_start(number)
        if len(data) != end - start or xxhash.xxh3_64_intdigest(data) != checksum:
            raise CorruptObject(
                f"{self._path} is damaged: the checksum of bytes {start} to {end} does not match; restore it from a copy"
            )
        self._cached[number] = data

"""Deletion vectors of a Delta table's files: which rows of a file are deleted, by their number in it.

A vector stands in the log itself, or in a file beside others: 64-bit Roaring bitmaps as Delta's protocol has them.
"""

from __future__ import annotations

import base64
import struct
import uuid
import zlib
from typing import Any

import msgspec
import numpy as np

from engine.errors import SourceError

_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85 = bytes.maketrans(_Z85, _B85)
_UUID_LENGTH = 20
_MAGIC = 1681511377
_RUNS, _NO_RUNS = 12347, 12346
_OFFSETS_FROM = 4
"""From so many containers on, a bitmap that may have runs tells where each one starts."""
_ARRAY_MOST = 4096


class Vector(msgspec.Struct, frozen=True, rename="camel"):
    """Where a deletion vector is, as the log tells it."""

    storage_type: str = ""
    path_or_inline_dv: str = ""
    offset: int | None = None
    size_in_bytes: int = 0
    cardinality: int = 0

    @property
    def is_inline(self) -> bool:
        """Whether the log itself holds it."""
        return self.storage_type == "i"

    @property
    def path(self) -> str:
        """The file that holds it, from the table's folder on or as a full path; raises SourceError for an unknown kind."""
        if self.storage_type == "p":
            return self.path_or_inline_dv
        if self.storage_type != "u":
            raise SourceError(
                f"a deletion vector is kept in a way that is not known here: {self.storage_type!r}"
            )
        text = self.path_or_inline_dv
        prefix, name = text[:-_UUID_LENGTH], text[-_UUID_LENGTH:]
        file = f"deletion_vector_{uuid.UUID(bytes=_decode_z85(name))}.bin"
        return f"{prefix}/{file}" if prefix else file

    def decode_inline(self) -> bytes:
        """Return the bytes of one that the log itself holds."""
        return _decode_z85(self.path_or_inline_dv)[: self.size_in_bytes]

    def check_stored(self, stored: bytes) -> bytes:
        """Return the bytes of one out of what its file holds from its offset on: their length, they, their checksum."""
        data = stored[4 : 4 + self.size_in_bytes]
        tail = stored[4 + self.size_in_bytes : 8 + self.size_in_bytes]
        sound = len(tail) == 4 and int.from_bytes(stored[:4], "big") == self.size_in_bytes
        if not sound or zlib.crc32(data) != int.from_bytes(tail, "big"):
            raise SourceError(f"the deletion vector in {self.path} is damaged: restore the file")
        return data


def decode_rows(data: bytes) -> np.ndarray:
    """Return the numbers of the rows that a vector's bytes name, in order; raises SourceError for bytes that are no vector."""
    if not data:
        return np.zeros(0, dtype=np.int64)
    try:
        magic, count = struct.unpack_from("<iq", data)
        if magic != _MAGIC:
            raise SourceError("a deletion vector is written in a way that is not known here")
        at, found = 12, list[np.ndarray]()
        for _ in range(count):
            (high,) = struct.unpack_from("<I", data, at)
            at, rows = _decode_bitmap(data, at + 4)
            found.append(rows + (high << 32))
    except (struct.error, ValueError) as error:
        raise SourceError(f"a deletion vector is damaged: {error}") from error
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)


def _decode_bitmap(data: bytes, at: int) -> tuple[int, np.ndarray]:
    """Return where a Roaring bitmap of 32 bits ends, and the numbers in it."""
    (cookie,) = struct.unpack_from("<I", data, at)
    at += 4
    if cookie & 0xFFFF == _RUNS:
        size = (cookie >> 16) + 1
        bits = np.frombuffer(data, np.uint8, (size + 7) // 8, at)
        runs = np.unpackbits(bits, bitorder="little")[:size].astype(bool)
        at += len(bits)
    elif cookie == _NO_RUNS:
        (size,) = struct.unpack_from("<I", data, at)
        at, runs = at + 4, np.zeros(size, dtype=bool)
    else:
        raise ValueError(f"unknown cookie {cookie}")
    header = np.frombuffer(data, "<u2", 2 * size, at).reshape(size, 2).astype(np.int64)
    at += 4 * size
    if cookie == _NO_RUNS or size >= _OFFSETS_FROM:
        at += 4 * size
    found = list[np.ndarray]()
    for (high, less), has_runs in zip(header.tolist(), runs.tolist(), strict=True):
        at, rows = _decode_container(data, at, less + 1, has_runs=has_runs)
        found.append(rows + (high << 16))
    return at, np.concatenate(found) if found else np.zeros(0, dtype=np.int64)


def _decode_container(
    data: bytes, at: int, count: int, *, has_runs: bool
) -> tuple[int, np.ndarray[Any, Any]]:
    if has_runs:
        (number,) = struct.unpack_from("<H", data, at)
        pairs = np.frombuffer(data, "<u2", 2 * number, at + 2).reshape(number, 2).astype(np.int64)
        rows = np.concatenate([np.arange(first, first + more + 1) for first, more in pairs.tolist()])
        return at + 2 + 4 * number, rows
    if count <= _ARRAY_MOST:
        return at + 2 * count, np.frombuffer(data, "<u2", count, at).astype(np.int64)
    bits = np.unpackbits(np.frombuffer(data, np.uint8, 8192, at), bitorder="little")
    return at + 8192, np.flatnonzero(bits).astype(np.int64)


def _decode_z85(text: str) -> bytes:
    try:
        return base64.b85decode(text.encode("ascii").translate(_TO_B85))
    except (UnicodeError, ValueError) as error:
        raise SourceError(f"a deletion vector in the log can't be read: {error}") from error

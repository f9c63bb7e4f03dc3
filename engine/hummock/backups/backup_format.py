"""The object of one backup: magic, a summary with its checksum, then the whole version, packed, with its own.

The summary stands first, so that a listing reads the beginning of each object and no more.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import pyarrow as pa
import xxhash

from engine.errors import CorruptObject
from engine.hummock.manifests.delta import Delta
from engine.hummock.manifests.manifest import (
    MOST_BYTES,
    VersionCheckpoint,
    build_checkpoint,
    restore_version,
)
from engine.hummock.sorted_files.sst import BUNDLE
from engine.hummock.version import SstInfo, Version

_MAGIC = b"TLB1"
_HEADER = struct.Struct("<4sIQQQ")
"""Magic, bytes of the summary and its checksum, bytes of the version before packing, checksum of the packed bytes."""
VOID = b"void"
"""What stands in place of a backup that was given up, so that nobody can finish it any more."""
SUMMARY_BYTES = 4096
_CODEC = pa.Codec("zstd", compression_level=1)


class BackupSummary(msgspec.Struct, frozen=True):
    """What a listing shows of a backup: its number, the store, the manifest and epoch of the version, and what that has.

    `taken` is when it was made, in seconds since 1970; `copied` and `copied_bytes` tell of the files that were not there before.
    """

    number: int
    store: str
    manifest: int
    epoch: int
    taken: float
    tables: int
    files: int
    bytes: int
    copied: int
    copied_bytes: int


@dataclass(frozen=True)
class Backup:
    """A backup as it was read: its summary, and the version that it holds."""

    summary: BackupSummary
    version: Version


@dataclass(frozen=True)
class BackupFile:
    """An object that a version needs: its path in the store, and the sorted files in it.

    `size` is how many bytes it has at least; exactly, if it is one sorted file.
    """

    path: str
    parts: tuple[SstInfo, ...]

    @property
    def name(self) -> str:
        """Its name in a backup and in a restored store: no two objects of a store and its branches share one."""
        return self.path.rpartition("/")[2]

    @property
    def size(self) -> int:
        """The bytes up to the end of its last part."""
        return max(part.offset + part.length for part in self.parts)

    def is_whole(self, size: int | None) -> bool:
        """Tell whether an object of so many bytes, None if there is none, can be this one."""
        if size is None:
            return False
        return size >= self.size if self.path.endswith(BUNDLE) else size == self.size

    def find_damage(self, data: bytes) -> str | None:
        """Return what is wrong with its bytes, held against the checksums of the version; None if nothing is."""
        if not self.is_whole(len(data)):
            return f"it has {len(data):,} bytes, of {self.size:,}"
        view = memoryview(data)
        for part in self.parts:
            if xxhash.xxh3_64_intdigest(view[part.offset : part.offset + part.length]) != part.checksum:
                return f"the checksum of the sorted file at byte {part.offset:,} does not match"
        return None


def list_backup_files(version: Version) -> list[BackupFile]:
    """Return the objects that a version needs for all its readable epochs, in the order of their paths."""
    parts: dict[str, dict[int, SstInfo]] = {}
    for table in version.tables.values():
        for sst in table.iterate_ssts():
            parts.setdefault(sst.path, {})[sst.offset] = sst
    return [BackupFile(path, tuple(found.values())) for path, found in sorted(parts.items())]


def encode_backup(summary: BackupSummary, version: Version) -> bytes:
    """Return the object of a backup."""
    head = msgspec.msgpack.encode(summary)
    if _HEADER.size + len(head) > SUMMARY_BYTES:
        raise ValueError(f"the address of the store is too long for a backup: {summary.store}")
    raw = msgspec.msgpack.encode(build_checkpoint(version))
    packed = _CODEC.compress(raw, asbytes=True)
    sums = xxhash.xxh3_64_intdigest(head), len(raw), xxhash.xxh3_64_intdigest(packed)
    return _HEADER.pack(_MAGIC, len(head), *sums) + head + packed


def decode_summary(data: bytes, path: str) -> BackupSummary | None:
    """Return the summary at the beginning of a backup's object, None if it was given up; raises CorruptObject."""
    if data == VOID:
        return None
    try:
        magic, length, checksum, _, _ = _HEADER.unpack_from(data)
        head = data[_HEADER.size : _HEADER.size + length]
        if magic[:3] == _MAGIC[:3] and magic != _MAGIC:
            raise CorruptObject(f"{path} was written by a newer version, in form {magic!r}: use that version")
        if magic != _MAGIC or xxhash.xxh3_64_intdigest(head) != checksum:
            raise CorruptObject(f"{path} is damaged: its checksum does not match; use another backup")
        return msgspec.msgpack.decode(head, type=BackupSummary)
    except (struct.error, msgspec.MsgspecError) as error:
        raise CorruptObject(f"{path} is no backup of this format: {error}") from error


def decode_backup(data: bytes, path: str) -> Backup | None:
    """Return a backup from its object, None if it was given up; raises CorruptObject if it is damaged."""
    summary = decode_summary(data, path)
    if summary is None:
        return None
    try:
        _, length, _, size, checksum = _HEADER.unpack_from(data)
        packed = memoryview(data)[_HEADER.size + length :]
        if size > MOST_BYTES or xxhash.xxh3_64_intdigest(packed) != checksum:
            raise CorruptObject(f"{path} is damaged: its checksum does not match; use another backup")
        checkpoint = msgspec.msgpack.decode(_CODEC.decompress(packed, size), type=VersionCheckpoint)
        delta = Delta(summary.manifest, summary.epoch, uuid.uuid4().hex)
        return Backup(summary, restore_version(checkpoint, delta))
    except (OSError, MemoryError, OverflowError, ValueError, msgspec.MsgspecError) as error:
        raise CorruptObject(f"{path} is no backup of this format: {error}") from error


def count_bytes(files: Mapping[str, BackupFile] | list[BackupFile]) -> int:
    """Return the bytes that files have at least."""
    found = files.values() if isinstance(files, Mapping) else files
    return sum(file.size for file in found)

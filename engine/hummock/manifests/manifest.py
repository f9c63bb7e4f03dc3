"""A manifest object: magic, raw length, checksum, then zstd of msgpack: the deltas of one commit or of several that
were made together, those of the manifests before it since the last checkpoint, and in every 64th the whole version.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import msgspec
import pyarrow as pa
import xxhash

from engine.assumptions import CHECKPOINT
from engine.errors import CorruptObject
from engine.hummock.catalog_entries import CatalogEntries
from engine.hummock.manifests.delta import Delta, TableSpec
from engine.hummock.manifests.kept_fingerprints import decode_known, encode_known
from engine.hummock.version import BranchPoint, Generation, LogEntry, SstInfo, TableVersion, Version
from engine.verification import build_assumption_error

CHECKPOINT_EVERY = 64
MOST_BYTES = 1 << 32
_MAGIC, _WITH_BRANCHES = b"TLM1", b"TLM2"
"""The second is of versions that have branches or are one: who knows none must not read them, and not collect."""
_HEADER = struct.Struct("<4sQQ")
_CODEC = pa.Codec("zstd", compression_level=1)


class LoggedRun(msgspec.Struct, frozen=True):
    """A log entry or a generation, as it is written: its epoch and its files by run."""

    epoch: int
    runs: tuple[tuple[SstInfo, ...], ...]


class TableCheckpoint(msgspec.Struct, frozen=True, omit_defaults=True):
    """One table of a whole version, as it is written."""

    spec: TableSpec
    committed_epoch: int
    log: tuple[LoggedRun, ...]
    generations: tuple[LoggedRun, ...]
    acks: dict[str, int]
    pins: dict[str, int]
    watermarks: tuple[tuple[int, int], ...] = ()
    quiet: tuple[int, ...] = ()
    fingerprint: tuple[int, bytes] | None = None


class VersionCheckpoint(msgspec.Struct, frozen=True, omit_defaults=True):
    """A whole version, as it is written."""

    tables: tuple[TableCheckpoint, ...]
    catalog: dict[str, str]
    generations: dict[str, int]
    next_table_id: int
    horizon_ms: int
    garbage: tuple[tuple[int, str], ...]
    branches: dict[str, BranchPoint] = {}
    origin: int = 0


class Manifest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A delta and those that were committed with it (`more`), all of one number, in their order.

    `tail` holds, still encoded, the deltas of the manifests right before it, so that who is behind needs one object
    and not all of them. Every 64th manifest holds the version that it leads to.
    """

    delta: Delta
    checkpoint: VersionCheckpoint | None = None
    more: tuple[Delta, ...] = ()
    tail: tuple[msgspec.Raw, ...] = ()

    @property
    def number(self) -> int:
        """The manifest's number."""
        return self.delta.number

    @property
    def deltas(self) -> tuple[Delta, ...]:
        """All deltas of this manifest, in their order."""
        return (self.delta, *self.more)

    @property
    def reaches_back_to(self) -> int:
        """The number of the version from which this manifest alone leads to its own."""
        return self.number - 1 - len(self.tail)

    def list_deltas_since(self, number: int) -> list[Delta]:
        """Return the deltas from version `number` to this manifest's; it must reach back that far."""
        newer = self.tail[number - self.reaches_back_to :] if number < self.number - 1 else ()
        return [delta for raw in newer for delta in _DECODE_DELTAS(raw)] + list(self.deltas)


_ENCODE = msgspec.msgpack.Encoder().encode
_DECODE = msgspec.msgpack.Decoder(Manifest).decode
_DECODE_DELTAS = msgspec.msgpack.Decoder(tuple[Delta, ...]).decode


def manifest_path(number: int) -> str:
    """Return the path of manifest `number`."""
    return f"manifest/{number:020d}"


def parse_manifest_number(path: str) -> int | None:
    """Return the number of a manifest's path, or None if it is no manifest."""
    name = path.rpartition("/")[2]
    return int(name) if name.isdigit() and len(name) == 20 else None


def encode_manifest(deltas: Sequence[Delta], version: Version, tail: Sequence[bytes] = ()) -> bytes:
    """Return the object of `deltas`, which lead to `version`; `tail` as `encode_deltas` gives it, oldest first."""
    checkpoint = build_checkpoint(version) if version.number % CHECKPOINT_EVERY == 0 else None
    first, *more = deltas
    raw = _ENCODE(Manifest(first, checkpoint, tuple(more), tuple(msgspec.Raw(part) for part in tail)))
    packed = _CODEC.compress(raw, asbytes=True)
    magic = _WITH_BRANCHES if version.needs_branches else _MAGIC
    return _HEADER.pack(magic, len(raw), xxhash.xxh3_64_intdigest(packed)) + packed


def encode_deltas(deltas: Sequence[Delta]) -> bytes:
    """Return the deltas of one manifest as the tails of later ones hold them."""
    return _ENCODE(tuple(deltas))


def decode_manifest(data: bytes, path: str) -> Manifest:
    """Return the manifest in an object; raises CorruptObject if it is not one or is damaged."""
    try:
        magic, length, checksum = _HEADER.unpack_from(data)
        packed = memoryview(data)[_HEADER.size :]
        if length > MOST_BYTES:
            raise CorruptObject(
                f"{path} is damaged: it claims {length} bytes; restore it from a copy of the store"
            )
        if magic[:3] == _MAGIC[:3] and magic not in (_MAGIC, _WITH_BRANCHES):
            raise CorruptObject(f"{path} was written by a newer version, in form {magic!r}: use that version")
        if magic not in (_MAGIC, _WITH_BRANCHES) or xxhash.xxh3_64_intdigest(packed) != checksum:
            raise CorruptObject(
                f"{path} is damaged: its checksum does not match; restore it from a copy of the store"
            )
        return _DECODE(_CODEC.decompress(packed, length))
    except (struct.error, OSError, MemoryError, OverflowError, ValueError, msgspec.MsgspecError) as error:
        raise CorruptObject(f"{path} is no manifest of this format: {error}") from error


def check_checkpoint(version: Version, manifest: Manifest) -> None:
    """Check that the whole version in a manifest is the one that it is to lead to; raises ClaimBroken."""
    restored = (
        None if manifest.checkpoint is None else restore_version(manifest.checkpoint, manifest.deltas[-1])
    )
    if restored != version:
        raise build_assumption_error(
            CHECKPOINT, f"{manifest_path(version.number)} would hold another version than it leads to"
        )


def build_checkpoint(version: Version) -> VersionCheckpoint:
    """Return the written form of a version."""
    tables = tuple(
        TableCheckpoint(
            TableSpec.of(table.table, table.table_id),
            table.committed_epoch,
            tuple(LoggedRun(entry.epoch, (entry.ssts,)) for entry in table.log),
            tuple(LoggedRun(generation.upto, generation.runs) for generation in table.generations),
            dict(table.acks),
            dict(table.pins),
            table.watermarks,
            table.quiet,
            None if table.fingerprint is None else encode_known(table.fingerprint),
        )
        for table in version.tables.values()
    )
    return VersionCheckpoint(
        tables,
        dict(version.catalog),
        dict(version.generations),
        version.next_table_id,
        version.horizon_ms,
        version.garbage,
        dict(version.branches),
        version.origin,
    )


def restore_version(checkpoint: VersionCheckpoint, delta: Delta) -> Version:
    """Return the version that a checkpoint holds; `delta` gives its number and epoch."""
    tables = {
        stored.spec.name: TableVersion(
            stored.spec.to_table(),
            stored.spec.table_id,
            stored.committed_epoch,
            tuple(LogEntry(entry.epoch, entry.runs[0]) for entry in stored.log),
            tuple(Generation(entry.epoch, entry.runs) for entry in stored.generations),
            stored.acks,
            stored.pins,
            stored.watermarks,
            stored.quiet,
            None if stored.fingerprint is None else decode_known(stored.fingerprint),
        )
        for stored in checkpoint.tables
    }
    return Version(
        delta.number,
        delta.epoch,
        tables,
        CatalogEntries(checkpoint.catalog),
        checkpoint.generations,
        checkpoint.next_table_id,
        checkpoint.horizon_ms,
        checkpoint.garbage,
        checkpoint.branches,
        checkpoint.origin,
        delta.closed,
    )

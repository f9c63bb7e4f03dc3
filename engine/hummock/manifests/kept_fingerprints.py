"""The fingerprint that a version keeps of a table: moved on by commits of which is known what they replace, else left behind."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence

from engine.hummock.rows.fingerprint import (
    WIDTH,
    add_fingerprints,
    decode_fingerprint,
    encode_fingerprint,
)
from engine.hummock.version import DEFAULT, Fingerprint, LogEntry, SstInfo, Table


def encode_known(found: Fingerprint) -> tuple[int, bytes]:
    """Return a fingerprint as manifests hold it."""
    return found.epoch, found.form + encode_fingerprint(found.value)


def decode_known(stored: tuple[int, bytes]) -> Fingerprint:
    """Return the fingerprint in a manifest."""
    epoch, data = stored
    return Fingerprint(epoch, decode_fingerprint(data[-WIDTH:]), data[:-WIDTH])


def find_move(table: Table, ssts: Iterable[SstInfo]) -> int | None:
    """Return by what the files of one commit move the fingerprint of a table, None if that is not known."""
    moved = 0
    for sst in ssts:
        if sst.fingerprint is None or sst.fingerprint[:-WIDTH] != table.form:
            return None
        if sst.replaced is None and not sst.new_keys:
            return None
        moved += decode_fingerprint(sst.fingerprint[-WIDTH:])
        moved -= 0 if sst.replaced is None else decode_fingerprint(sst.replaced)
    return moved


def move_fingerprint(
    table: Table, known: Fingerprint | None, log: Sequence[LogEntry], committed: int
) -> Fingerprint | None:
    """Return a fingerprint as far as the log brings it on: to the last commit before one that replaces what is not known."""
    if known is None or known.epoch >= committed:
        return known
    epoch, value = known.epoch, known.value
    for entry in log[bisect.bisect_right(log, known.epoch, key=lambda entry: entry.epoch) :]:
        moved = find_move(table, entry.ssts)
        if moved is None:
            return Fingerprint(epoch, value, known.form)
        epoch, value = entry.epoch, add_fingerprints((value, moved))
    return Fingerprint(committed, value, known.form)


def choose_fingerprint(kept: Fingerprint | None, read: Fingerprint | None) -> Fingerprint | None:
    """Return the fingerprint from which a table goes on, where a commit brings one that was read: the newer one, else that."""
    if read is None or (kept is not None and kept.epoch > read.epoch):
        return kept
    return read


def drop_unreadable(known: Fingerprint | None, committed: int, safe_epoch: int) -> Fingerprint | None:
    """Return a fingerprint unless it is behind, and the history is gone by which it could be moved on."""
    return None if known is not None and known.epoch < min(committed, safe_epoch) else known


def alter_fingerprint(known: Fingerprint | None, before: Table, after: Table) -> Fingerprint | None:
    """Return a table's fingerprint when it is altered: columns of nulls change nothing, what else comes or goes ends it."""
    if known is None or not after.has_fingerprint:
        return None
    added = [field for field in after.schema if field.name not in before.schema.names]
    keeps = set(before.schema.names) <= set(after.schema.names)
    if not keeps or any(DEFAULT in (field.metadata or {}) for field in added):
        return None
    return Fingerprint(known.epoch, known.value, after.form)

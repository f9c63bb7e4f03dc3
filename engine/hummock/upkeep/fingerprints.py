"""Fingerprints of tables: moved on by the change log where a commit left them behind, and held against a scan of all rows."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from engine.hummock.compaction.pickers.vnode import list_group_bounds
from engine.hummock.epoch import format_epoch_time
from engine.hummock.manifests.kept_fingerprints import find_move, move_fingerprint
from engine.hummock.reads.change_log import read_net_changes
from engine.hummock.reads.merge import HashRange
from engine.hummock.reads.reader import Reader
from engine.hummock.rows.fingerprint import WIDTH, add_fingerprints, decode_fingerprint
from engine.hummock.sorted_files.arrow_cache import ArrowCache
from engine.hummock.sorted_files.file_fingerprints import compute_put_fingerprint, compute_row_fingerprint
from engine.hummock.sorted_files.sst import read_by_row_group
from engine.hummock.version import OP, Fingerprint, LogEntry, SstInfo, Table, TableVersion

CHANGED_ROWS = 2_000_000
"""So many changed rows are read at a time to move a fingerprint on."""
SCAN_CACHE_BYTES = 1 << 30
RANGES = 16
"""Into so many ranges of hashes a table is cut where tasks read it."""
Tell = Callable[[int, int], None]
"""Is told how many rows of about how many were read."""


class RangeSums(Protocol):
    """Computes the fingerprints of ranges of hashes elsewhere, several at the same time, each by `sum_range`."""

    def sum_ranges(
        self, table: TableVersion, epoch: int, ranges: Sequence[HashRange], tell: Callable[[int], None]
    ) -> tuple[int, int] | None:
        """Return the sum and how many rows they have, None to leave it to the process that asks; `tell` gets rows as they are
        read.
        """
        ...


@dataclass(frozen=True)
class FingerprintStatus:
    """What a table keeps: `value` of its rows at `epoch`, which is behind `committed_epoch` or not, or why there is none."""

    table: str
    epoch: int | None
    committed_epoch: int
    value: int | None
    reason: str | None = None

    @property
    def is_behind(self) -> bool:
        """Whether the table has changed since in a way that is not counted yet."""
        return self.epoch is not None and self.epoch < self.committed_epoch


@dataclass(frozen=True)
class FingerprintCheck:
    """What a scan of a table has found: the fingerprint of its `rows` at an epoch, and the `expected` one, None if none was kept.

    `damaged` are files that hold other rows than were written to them.
    """

    table: str
    epoch: int
    rows: int
    found: int
    expected: int | None
    damaged: tuple[str, ...] = ()

    @property
    def is_right(self) -> bool:
        """Whether nothing else was found than was kept."""
        return self.expected in (None, self.found)

    def describe_mismatch(self) -> str:
        """Return what is wrong, where, and what to do."""
        where = (
            f"{', '.join(self.damaged)} {'holds' if len(self.damaged) == 1 else 'hold'} other rows than were written"
            if self.damaged
            else "no file that was not merged yet differs from what was written: a merge, or a change, has gone wrong"
        )
        return (
            f"table {self.table} at epoch {format_epoch_time(self.epoch)} UTC: its {self.rows:,} rows have the fingerprint "
            f"{format_fingerprint(self.found)}, kept is {format_fingerprint(self.expected)}; {where}. Restore the store from a "
            f"backup, or compute it anew: a view, with its states and indexes, by "
            f"ALTER MATERIALIZED VIEW … RESYNC, a table by ALTER TABLE {self.table} RESYNC"
        )


def format_fingerprint(value: int | None) -> str:
    """Return a fingerprint as it is shown; nothing for none."""
    return "" if value is None else f"{value:032x}"


def describe_fingerprint(table: TableVersion) -> FingerprintStatus:
    """Return what a version keeps of a table, or why nothing."""
    known = table.fingerprint
    if known is not None:
        return FingerprintStatus(table.name, known.epoch, table.committed_epoch, known.value)
    return FingerprintStatus(table.name, None, table.committed_epoch, None, explain_absence(table.table))


def explain_absence(table: Table) -> str:
    """Return why no fingerprint of a table is kept."""
    options = table.options
    if options.ttl_seconds is not None:
        return "its rows expire, so its content changes without a write"
    if options.watermark_column is not None:
        return "a watermark hides its rows, so its content changes without a write"
    if options.passes:
        return "its rows are not kept"
    if not options.fingerprint:
        return "it was made without"
    return "none was computed yet, or not since its columns changed or its history was let go: --verify keeps one"


def move_on(reader: Reader, table: TableVersion) -> Fingerprint | None:
    """Return the fingerprint of a table that is behind, moved on by its change log; None if it is not behind.

    The log is read in parts of CHANGED_ROWS rows, and no part of it that is known.
    """
    known = table.fingerprint
    while known is not None and known.epoch < table.committed_epoch:
        known = move_fingerprint(table.table, known, table.log, table.committed_epoch)
        assert known is not None
        left = table.list_changes(known.epoch, table.committed_epoch)
        if left:
            label = _choose_label(table.table, left)
            known = Fingerprint(label, _sum_changes(reader, table, known, label), known.form)
    return None if known is table.fingerprint else known


def _choose_label(table: Table, entries: Sequence[LogEntry]) -> int:
    """Return up to which of some entries the log is read at once: the last one that is not known, while they have few rows."""
    rows, label = 0, entries[0].epoch
    for entry in entries:
        rows += entry.rows
        if rows > CHANGED_ROWS:
            break
        if find_move(table, entry.ssts) is None:
            label = entry.epoch
    return label


def _sum_changes(reader: Reader, table: TableVersion, known: Fingerprint, upto: int) -> int:
    value = known.value
    for change in read_net_changes(reader.files, table, known.epoch, upto, table.schema.names, None):
        value += compute_put_fingerprint(table.table, change.rows)
        value -= compute_row_fingerprint(table.table, change.old)
    return add_fingerprints((value,))


def sum_range(
    reader: Reader, table: TableVersion, epoch: int, within: HashRange | None, tell: Callable[[int], None]
) -> tuple[int, int]:
    """Return the fingerprint of the rows of a table in a range of hashes, by default of all, and how many they are."""
    value = rows = 0
    for batch in reader.scan(table, epoch, hash_range=within):
        value = add_fingerprints((value, compute_row_fingerprint(table.table, batch)))
        rows += batch.num_rows
        tell(batch.num_rows)
    return value, rows


@contextmanager
def open_uncached(reader: Reader) -> Iterator[Reader]:
    """Give a reader that has nothing of the store in its cache: what it reads is what is stored."""
    with tempfile.TemporaryDirectory(prefix="tideline-verify-") as folder:
        cache = ArrowCache(Path(folder) / "cache", SCAN_CACHE_BYTES, reader.files.counters)
        fresh = reader.with_cache(cache)
        try:
            yield fresh
        finally:
            fresh.files.forget()


def scan_table(
    reader: Reader, table: TableVersion, epoch: int, tell: Tell, sums: RangeSums | None = None
) -> tuple[int, int]:
    """Return the fingerprint of all rows of a table at an epoch, read from the object store, and how many they are."""
    total = sum(sst.rows for run in table.as_of(epoch) for sst in run)
    read = 0

    def count(rows: int) -> None:
        nonlocal read
        read += rows
        tell(read, total)

    elsewhere = None if sums is None else sums.sum_ranges(table, epoch, list_group_bounds(RANGES), count)
    if elsewhere is not None:
        return elsewhere
    with open_uncached(reader) as fresh:
        return sum_range(fresh, table, epoch, None, count)


def find_damaged_files(reader: Reader, table: TableVersion, epoch: int) -> tuple[str, ...]:
    """Return the files that hold other rows than were written, of those which tell: that is, which no merge has written."""
    found = []
    with open_uncached(reader) as fresh:
        for run in table.as_of(epoch):
            found += [sst.path for sst in run if _is_damaged(fresh, table.table, sst)]
    return tuple(dict.fromkeys(found))


def _is_damaged(reader: Reader, table: Table, sst: SstInfo) -> bool:
    if sst.fingerprint is None or sst.fingerprint[:-WIDTH] != table.form:
        return False
    names = [*table.schema.names, OP]
    parts = (compute_put_fingerprint(table, rows) for rows in read_by_row_group(reader.objects, sst, names))
    return add_fingerprints(parts) != decode_fingerprint(sst.fingerprint[-WIDTH:])

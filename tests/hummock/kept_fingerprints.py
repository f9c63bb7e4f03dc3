"""The fingerprints that a version keeps, held against scans of the rows: as they are kept, and brought on by the change log."""

from __future__ import annotations

from collections.abc import Iterable

from engine.hummock import Version
from engine.hummock.reads.reader import Reader
from engine.hummock.upkeep.fingerprints import move_on, sum_range
from engine.hummock.version import Fingerprint, TableVersion


def list_wrong_fingerprints(reader: Reader, version: Version) -> list[str]:
    """Return what is wrong of the fingerprints of a version's tables, as sentences."""
    return [wrong for table in version.tables.values() for wrong in _check_table(reader, table)]


def _check_table(reader: Reader, table: TableVersion) -> Iterable[str]:
    known = table.fingerprint
    if known is None or known.epoch < table.safe_epoch:
        return
    yield from _compare(reader, table, known, "kept")
    moved = move_on(reader, table)
    if moved is not None:
        yield from _compare(reader, table, moved, "brought on")


def _compare(reader: Reader, table: TableVersion, known: Fingerprint, how: str) -> Iterable[str]:
    found, rows = sum_range(reader, table, known.epoch, None, lambda read: None)
    if found != known.value:
        yield f"{table.name} at {known.epoch}: {rows} rows have {found:032x}, {how} is {known.value:032x}"

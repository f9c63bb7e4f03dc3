"""History: what older epochs and change logs keep of a store, who keeps it beyond its retention, and what a cut has let go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from engine.hummock.epoch import seconds_of
from engine.hummock.version import Table, TableVersion, Version


@dataclass(frozen=True)
class ReleasedHistory:
    """What one table has let go of: epochs and rows of its change log, and bytes of files that it needs no more."""

    table: str
    epochs: int
    rows: int
    bytes: int


@dataclass(frozen=True)
class Holder:
    """A consumer or a pin that keeps a table's change log beyond its retention.

    It stands at `epoch`; `since`, seconds since 1970, is the time of the oldest change that it keeps, `epochs` and `rows` are
    what would go without it, as far as nobody else keeps them.
    """

    table: str
    name: str
    kind: Literal["consumer", "pin"]
    epoch: int
    since: float
    epochs: int
    rows: int


def list_released(before: Version, after: Version) -> tuple[ReleasedHistory, ...]:
    """Return what the tables of a version have let go of in a later one; without those dropped or made between."""
    found = []
    for name, table in before.tables.items():
        now = after.tables.get(name)
        if now is None or now.table_id != table.table_id or now.safe_epoch == table.safe_epoch:
            continue
        gone = [entry for entry in table.log if entry.epoch <= now.safe_epoch]
        retained = set(now.iterate_ssts())
        size = sum(sst.length for sst in set(table.iterate_ssts()) - retained)
        found.append(ReleasedHistory(name, len(gone), sum(entry.rows for entry in gone), size))
    return tuple(found)


def list_holders(version: Version, retained_from: Callable[[Table], int]) -> tuple[Holder, ...]:
    """Return who keeps history beyond the retention, the one that has done so for the longest first.

    `retained_from` gives the first epoch of a table that its retention keeps. A consumer that lacks nothing keeps nothing.
    """
    found = [
        holder
        for table in version.tables.values()
        for holder in _list_table_holders(table, retained_from(table.table))
    ]
    return tuple(sorted(found, key=lambda holder: holder.since))


def count_log_bytes(table: TableVersion) -> int:
    """Return the bytes of the files that a table's change log tells of; those not compacted yet are also its content."""
    return sum(sst.length for entry in table.log for sst in entry.ssts)


def _list_table_holders(table: TableVersion, retained: int) -> list[Holder]:
    found = []
    kinds: tuple[Literal["consumer", "pin"], ...] = ("consumer", "pin")
    for kind, holds in zip(kinds, (table.acks, table.pins), strict=True):
        for name, epoch in holds.items():
            entries = [entry for entry in table.log if epoch < entry.epoch <= retained]
            if entries:
                rows = sum(entry.rows for entry in entries)
                since = seconds_of(entries[0].epoch)
                found.append(Holder(table.name, name, kind, epoch, since, len(entries), rows))
    return found

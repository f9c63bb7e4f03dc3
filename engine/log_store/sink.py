"""The sink log store: readers over a table's change log, each of some vnodes, with offsets that truncate it and rewind.

The change log is the buffer: nothing is written for a sink that is down, its acknowledged epoch holds the log for it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from engine.hummock import Commit, Hummock, Reader, TableVersion
from engine.hummock.back_off import Attempts, BackOff
from engine.hummock.manifests.preconditions import Precondition, require, require_all, require_same_table
from engine.hummock.reads.change_log import read_net_changes
from engine.hummock.reads.merge import HashRange
from engine.hummock.rows.expiry import disable_expiry
from engine.log_store.changes import Changes

VNODES = 256
RETRIES = BackOff(1.0, 300.0)
"""When a reader whose target fails delivers again, less what each takes off by chance."""


@dataclass(frozen=True)
class VnodeGroup:
    """Group `number` of `count`: neighbouring vnodes, as even as it goes."""

    number: int
    count: int

    @property
    def first(self) -> int:
        """The first vnode of the group."""
        return self.number * VNODES // self.count

    @property
    def last(self) -> int:
        """The last vnode of the group."""
        return (self.number + 1) * VNODES // self.count - 1

    @property
    def hash_range(self) -> HashRange:
        """The hashes of the group, both ends included."""
        return (self.first - VNODES // 2) << 56, ((self.last + 1 - VNODES // 2) << 56) - 1


ALL_VNODES = VnodeGroup(0, 1)


@dataclass(frozen=True)
class LogRange:
    """What is delivered at once: the changes in (after, upto], or the rows at `upto` where `snapshot`."""

    after: int
    upto: int
    snapshot: bool = False


@dataclass(frozen=True)
class ReaderPosition:
    """Up to where a reader has delivered; `snapshot`: the rows at that epoch are still to be delivered."""

    epoch: int
    snapshot: bool


class SinkLogStore:
    """One reader: the consumer `consumer` of table `table`, for the keys of one group of vnodes.

    Its place is what the store has acknowledged and nothing that this object remembers: whoever moves the reader, or takes it
    back to the beginning, is followed by the next reading. `truncate` makes the part of a commit that acknowledges an offset,
    durably, together with whatever that commit writes; after a failure the same ranges come again.
    """

    def __init__(
        self, store: Hummock, table: str, consumer: str, columns: Sequence[str], group: VnodeGroup
    ) -> None:
        self.table, self.consumer, self.group = table, consumer, group
        self._store, self._columns = store, list(columns)
        self.attempts = Attempts(RETRIES.scale(random.uniform(0.8, 1.0)))

    def find_position(self, table: TableVersion) -> ReaderPosition | None:
        """Return what is acknowledged, None if the reader holds nothing."""
        if self.consumer in table.pins:
            return ReaderPosition(table.pins[self.consumer], True)
        return ReaderPosition(table.acks[self.consumer], False) if self.consumer in table.acks else None

    def list_ranges(self, table: TableVersion, *, each_epoch: bool) -> Iterator[LogRange]:
        """Yield what comes after the acknowledged place; one range an epoch, or everything as one with its net changes.

        With `each_epoch` the bounds of the ranges depend on the table alone, never on when or how often they are read.
        Raises EpochExpired if the log no longer reaches back.
        """
        position = self.find_position(table)
        if position is not None:
            yield from list_ranges_from(table, position, each_epoch=each_epoch)

    def read(self, table: TableVersion, part: LogRange) -> Iterator[Changes]:
        """Yield the changes of a range in the order of (hash, key); memory follows the parts, not the range."""
        return read_changes(self._store.reader, table, part, self._columns, self.group.hash_range)

    def truncate(self, table: TableVersion, upto: int) -> Commit:
        """Return the part of a commit that acknowledges everything up to an epoch; a snapshot's pin goes with it."""
        pins = {self.table: {self.consumer: None}} if self.consumer in table.pins else {}
        return Commit(acks={self.table: {self.consumer: upto}}, pins=pins)

    def record_acknowledgement(self) -> None:
        """Note that what was read has been acknowledged by a commit."""
        self.attempts = self.attempts.forget()

    def record_failure(self, now: float) -> Attempts:
        """Note a failure; return how many there were in a row. The next attempt begins at what is acknowledged."""
        self.attempts = self.attempts.add(now)
        return self.attempts

    def require_unmoved(self, base: TableVersion) -> Precondition:
        """Return the precondition that no other process has acknowledged anything for this reader since `seen`."""
        before, message = (
            self.find_position(base),
            f"{self.consumer} was moved on by another process at the same time",
        )
        return require_all(
            require_same_table(base, message),
            require(lambda version: self.find_position(version.tables[self.table]) == before, message),
        )


def list_ranges_from(
    table: TableVersion, position: ReaderPosition, *, each_epoch: bool
) -> Iterator[LogRange]:
    """Yield what comes after a place in a table's log; raises EpochExpired if the log no longer reaches back."""
    after = position.epoch
    if position.snapshot:
        yield LogRange(0, after, True)
    entries = table.list_changes(after, table.committed_epoch)
    for entry in entries if each_epoch else entries[-1:]:
        yield LogRange(after, entry.epoch)
        after = entry.epoch


def read_changes(
    reader: Reader, table: TableVersion, part: LogRange, columns: Sequence[str], hashes: HashRange
) -> Iterator[Changes]:
    """Yield the changes of a range in the order of (hash, key), those of the keys with certain hashes."""
    if part.snapshot:
        for batch in reader.scan(table, part.upto, columns=columns, hash_range=hashes):
            yield Changes.from_inserts(pa.Table.from_batches([batch]))
        return
    came = disable_expiry(
        table
    )  # a row that has left by itself has come all the same, and nothing says that it went
    for change in read_net_changes(reader.files, came, part.after, part.upto, columns, hashes):
        yield Changes.of(change, columns)


def attach(table: TableVersion, consumers: Sequence[str], snapshot: bool) -> Commit:
    """Return the part of a commit from which on new readers hold a table's log; with `snapshot` its rows, too."""
    at = max(table.committed_epoch, table.safe_epoch)
    holds: Mapping[str, Mapping[str, int | None]] = {table.name: dict.fromkeys(consumers, at)}
    return Commit(pins=holds) if snapshot else Commit(acks=holds)

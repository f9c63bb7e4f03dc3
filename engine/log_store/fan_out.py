"""One reading of a table's log for several readers of unequal speed: each has a sync log store between the reading and itself.

What does not fit a reader's buffer is not written anywhere: it stands in the table's log, which the reader's acknowledged epoch
holds, so a reference names messages of that log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from engine.errors import LogStoreError
from engine.hummock import TableVersion
from engine.hummock.version import SstInfo
from engine.log_store.changes import Changes
from engine.log_store.log_table import EntryReference, Stage
from engine.log_store.messages import Chunk, Entry, Offset, WatermarkMessage, slice_rows
from engine.log_store.sink import LogRange, SinkLogStore
from engine.log_store.sync import SyncLogStore
from engine.meta.epochs.barrier import Barrier

EPOCH = "_epoch"
BUFFER_BYTES = 16 << 20
CHUNK_ROWS = 65_536
POLL_SECONDS = 1.0


class FanOut:
    """Reads the epochs of a table's log once, for all readers; they have the same columns and vnodes.

    It begins above the newest epoch that one of them has acknowledged: one that is further behind reads up to there by itself, so
    that the others do not wait for it.
    """

    def __init__(
        self, table: TableVersion, readers: Sequence[SinkLogStore], *, buffer_bytes: int = BUFFER_BYTES
    ) -> None:
        self._table, self._reader = table, readers[0]
        positions = [reader.find_position(table) for reader in readers]
        start = max((position.epoch for position in positions if position is not None), default=None)
        self.ranges = () if start is None else tuple(list_epochs(table, start))
        self.channels = {
            reader.consumer: Channel(reader, table, self.ranges, buffer_bytes)
            for reader, position in zip(readers, positions, strict=True)
            if position is not None
        }

    def run(self) -> None:
        """Read all ranges and hand them on; never waits for a reader, and tells every reader if reading fails."""
        channels = self.channels.values()
        try:
            for part in self.ranges:
                wanting = [channel for channel in channels if not channel.closed]
                for channel in wanting:
                    channel.begin(part)
                for changes in self._reader.read(self._table, part) if wanting else ():
                    for channel in wanting:
                        channel.put(changes)
                for channel in wanting:
                    channel.end(part)
        except BaseException as error:  # whatever it is, nobody may wait for what does not come
            for channel in channels:
                channel.failure = error


class Channel:
    """The epochs of a fan-out as one reader gets them, in their order and at its own pace."""

    def __init__(
        self, reader: SinkLogStore, table: TableVersion, ranges: Sequence[LogRange], buffer_bytes: int
    ) -> None:
        self.failure: BaseException | None = None
        self.closed = False
        self._ends = [part.upto for part in ranges]
        self._next = 0
        storage = ChangeLogStorage(reader, table, ranges, max(1, buffer_bytes // 4))
        self._log = SyncLogStore(storage, buffer_bytes=buffer_bytes, chunk_rows=CHUNK_ROWS)
        self.metrics = self._log.metrics

    def is_next(self, part: LogRange) -> bool:
        """Tell whether a range is the next that comes through here; a reader that was moved meanwhile reads by itself."""
        return (
            not part.snapshot and not self.closed and self._ends[self._next : self._next + 1] == [part.upto]
        )

    def begin(self, part: LogRange) -> None:
        """Open an epoch; what was read before it is let go of."""
        checkpoint = self._log.put_barrier(Barrier(part.after, part.upto))
        if checkpoint is not None:
            self._log.record_commit(checkpoint)

    def put(self, changes: Changes) -> None:
        """Hand on some changes of the open epoch."""
        self._log.put(Chunk(changes.pack()))

    def end(self, part: LogRange) -> None:
        """Tell that the open epoch is whole."""
        self._log.put(WatermarkMessage(EPOCH, pa.scalar(part.upto, pa.int64())))

    def read(self, part: LogRange) -> Iterator[Changes]:
        """Yield the changes of the next range; raises LogStoreError if reading the table has failed."""
        while True:
            message = self._log.read(timeout=POLL_SECONDS)
            if isinstance(message, Chunk):
                yield Changes.unpack(message.rows)
            elif isinstance(message, WatermarkMessage):
                epoch = message.value.as_py()
                if epoch != part.upto:
                    raise LogStoreError(
                        f"the changes up to {part.upto} were asked for, those up to {epoch} came"
                    )
                self._next += 1
                return
            elif message is None and self.failure is not None:
                raise LogStoreError(f"the log could not be read: {self.failure}") from self.failure

    def close(self) -> None:
        """Let go of the buffer: the reader takes nothing more from here."""
        self.closed = True
        self._log.close()


class ChangeLogStorage:
    """A table's own log as the durable part of a log store: nothing is written, references are read from the log again."""

    def __init__(
        self, reader: SinkLogStore, table: TableVersion, ranges: Sequence[LogRange], chunk_bytes: int
    ) -> None:
        self.name = reader.consumer
        self._reader, self._table, self._chunk_bytes = reader, table, chunk_bytes
        self._ranges = ranges
        self._again: Iterator[Entry] = iter(())
        self._passed: Offset | None = None

    def list_history(self, most_rows: int, most_bytes: int) -> list[EntryReference]:
        """Nothing: what the reader has not acknowledged is handed to it anew."""
        return []

    def write(self, entries: Sequence[Entry]) -> Stage:
        """Write nothing: the log holds the changes already."""
        return Stage((), entries[-1].offset, submitted=True, committed=True)

    def write_tombstones(self, offsets: Sequence[Offset]) -> tuple[SstInfo, ...]:
        """Delete nothing: the reader's acknowledgement lets go of the log."""
        return ()

    def read(self, reference: EntryReference) -> list[Entry]:
        """Return messages by reading their epochs again, cut as they were cut the first time.

        References come in order, so the log is passed once more at most, from the first epoch that is asked for.
        """
        if self._passed is None or reference.first <= self._passed:
            first = reference.first[0]
            self._again = (e for part in self._ranges if part.upto >= first for e in self._read_entries(part))
        found: list[Entry] = []
        while not found or found[-1].offset < reference.last:
            entry = next(self._again)
            self._passed = entry.offset
            if entry.offset >= reference.first:
                found.append(entry)
        return found

    def _read_entries(self, part: LogRange) -> Iterator[Entry]:
        number = 0
        for changes in self._reader.read(self._table, part):
            for rows in slice_rows(changes.pack(), CHUNK_ROWS, self._chunk_bytes):
                yield Entry.of((part.upto, number), Chunk(rows))
                number += 1
        yield Entry.of((part.upto, number), WatermarkMessage(EPOCH, pa.scalar(part.upto, pa.int64())))


def list_epochs(table: TableVersion, after: int) -> list[LogRange]:
    """Return the epochs of a table's log above `after`, one range each."""
    found = []
    for entry in table.list_changes(after, table.committed_epoch):
        found.append(LogRange(after, entry.epoch))
        after = entry.epoch
    return found

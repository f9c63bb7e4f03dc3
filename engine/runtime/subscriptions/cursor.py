"""Cursors of SQL: the changes of a subscription, a table or a view, row by row, in the order of their epochs."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa

from engine.arrow import Column
from engine.hummock.epoch import micros_of
from engine.log_store.sink import ReaderPosition
from engine.runtime.subscriptions.feed import ChangeFeed, EpochReading
from engine.runtime.subscriptions.starts import EPOCH, TIME

LOOK_SECONDS = 0.2
"""How often a FETCH that waits looks for more."""
_TIME_TYPE = pa.timestamp("us", "UTC")


class SubscriptionCursor:
    """Gives rows by FETCH; what earlier ones gave of whole epochs is acknowledged by the next FETCH, or by CLOSE."""

    def __init__(self, name: str, source: str, feed: ChangeFeed) -> None:
        self.name, self.source = name, source
        self._feed = feed
        self._reading: EpochReading | None = None
        self._parts: Iterator[pa.Table] = iter(())
        self._rest: pa.Table | None = None

    @property
    def epoch(self) -> int:
        """The epoch of the rows that were fetched last, or up to which there were none."""
        return self._feed.place.epoch

    def fetch(self, count: int, seconds: float = 0.0) -> pa.Table:
        """Return the next `count` rows, each with `op`, its epoch and the epoch's time; fewer where there are no more by now.

        Where there is none it waits for the first, for so many `seconds` at most. After an error the epochs that it was in come
        again from their beginning.
        """
        start = self._find_start()
        self._acknowledge(start)
        try:
            return self._read(count, time.monotonic() + seconds)
        except BaseException:
            self._go_back(start)
            raise

    def _read(self, count: int, deadline: float) -> pa.Table:
        found: list[pa.Table] = []
        while count:
            rows = self._get_rest()
            if rows is None:
                self._reading = self._feed.read_next()
                if self._reading is None:
                    left = deadline - time.monotonic()
                    if found or left <= 0:
                        break
                    time.sleep(min(LOOK_SECONDS, left))
                    continue
                self._parts = self._reading.parts
                continue
            taken = rows.slice(0, count)
            found.append(self._add_epoch(taken))
            self._rest = rows.slice(taken.num_rows) if taken.num_rows < rows.num_rows else None
            count -= taken.num_rows
        return pa.concat_tables([self._add_epoch(self._feed.schema.empty_table()), *found])

    def _find_start(self) -> ReaderPosition:
        """Return the place behind the epochs of which all rows were given."""
        if self._reading is None:
            return self._feed.place
        try:
            rows = self._get_rest()
        except BaseException:
            self._go_back(self._reading.start)
            raise
        return self._feed.place if rows is None else self._reading.start

    def _go_back(self, place: ReaderPosition) -> None:
        """Let what comes after a place be read again: what a FETCH that failed had read was given to nobody."""
        self._feed.rewind(place)
        self._reading, self._parts, self._rest = None, iter(()), None

    def close(self) -> None:
        """Acknowledge the epochs of which all rows were fetched, and let go of what was kept for the cursor alone."""
        try:
            self._acknowledge(self._find_start())
        finally:
            self._feed.hold.release()

    def release(self) -> None:
        """Let go of what was kept for the cursor alone; what was fetched last is not acknowledged."""
        self._feed.hold.release()

    def _get_rest(self) -> pa.Table | None:
        """Return the rows of the present epoch that were not given, None if there are none."""
        if self._rest is None:
            self._rest = next(self._parts, None)
        return self._rest

    def _acknowledge(self, place: ReaderPosition) -> None:
        if not place.snapshot:
            self._feed.hold.acknowledge(place.epoch)
        self._feed.hold.renew()

    def _add_epoch(self, rows: pa.Table) -> pa.Table:
        epoch = 0 if self._reading is None else self._reading.epoch
        columns: list[Column] = [
            *rows.columns,
            pa.repeat(pa.scalar(epoch, pa.int64()), rows.num_rows),
            pa.repeat(pa.scalar(micros_of(epoch), pa.int64()), rows.num_rows).cast(_TIME_TYPE),
        ]
        fields = [
            pa.field(EPOCH, pa.int64(), nullable=False),
            pa.field(TIME, _TIME_TYPE, nullable=False),
        ]
        return pa.Table.from_arrays(columns, schema=pa.schema([*rows.schema, *fields]))

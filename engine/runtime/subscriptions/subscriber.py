"""An iterator over the changes of a table, a view or a subscription: one item an epoch, acknowledged by asking for the next."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType

import pyarrow as pa

from engine.errors import SubscriptionError
from engine.hummock import Hummock
from engine.hummock.epoch import micros_of
from engine.meta.catalog.stored_catalog import load_catalog
from engine.meta.status.subscriptions import KIND, find_followed
from engine.runtime.subscriptions.feed import ChangeFeed, EpochReading
from engine.runtime.subscriptions.holds import Hold, PinHold, SubscriptionHold
from engine.runtime.subscriptions.positions import begin_subscription, find_place
from engine.runtime.subscriptions.starts import Since, find_newest, resolve_followed, resolve_start

POLL_SECONDS = 0.5
_1970 = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True, eq=False)
class EpochChanges:
    """What an epoch changed: `changes` has the columns that users see, and `op`: Insert, Delete, UpdateDelete or UpdateInsert.

    An update is two rows, the one before (UpdateDelete) and then the new one. `snapshot`: these are all rows at that epoch.
    """

    epoch: int
    time: datetime.datetime
    changes: pa.Table
    snapshot: bool = False


class Subscriber(Iterator[EpochChanges]):
    """Iterates over what has changed, an item an epoch; it ends when there is nothing more, or waits for more with `follow`.

    An epoch is acknowledged when the next item is asked for, with `acknowledge`; else by `acknowledge()`. What was not
    acknowledged comes again from a subscription: its epoch says whether one has had it. Closing it acknowledges nothing.
    """

    def __init__(self, feed: ChangeFeed, *, follow: bool, poll_seconds: float, acknowledges: bool) -> None:
        self._feed, self._follow, self._acknowledges = feed, follow, acknowledges
        self._poll_seconds = poll_seconds
        self._closed = threading.Event()

    def __iter__(self) -> Subscriber:
        return self

    def __enter__(self) -> Subscriber:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def epoch(self) -> int:
        """The epoch up to which everything was given; what comes next is after it."""
        return self._feed.place.epoch

    @property
    def schema(self) -> pa.Schema:
        """The columns of the changes."""
        return self._feed.schema

    def __next__(self) -> EpochChanges:
        reading = self.read_next()
        if reading is None:
            raise StopIteration
        try:
            changes = pa.concat_tables([reading.schema.empty_table(), *reading.parts])
        except BaseException:
            self._feed.rewind(reading.start)
            raise
        return EpochChanges(reading.epoch, find_time(reading.epoch), changes, reading.snapshot)

    def read_next(self) -> EpochReading | None:
        """Return the next epoch's changes in parts of bounded size, None where there is nothing more; acknowledges as `next`."""
        while not self._closed.is_set():
            reading = self._feed.read_next()
            try:
                if self._acknowledges:
                    self._acknowledge_before(reading)
                self._feed.hold.renew()
            except BaseException:
                if reading is not None:
                    self._feed.rewind(reading.start)  # nobody has got it
                raise
            if reading is not None or not self._follow:
                return reading
            self._closed.wait(self._poll_seconds)
        return None

    def acknowledge(self, epoch: int | None = None) -> None:
        """Note that everything up to an epoch, None: all that was given, need not come again; durable when it returns."""
        place = self._feed.place
        if not place.snapshot:
            self._feed.hold.acknowledge(place.epoch if epoch is None else min(epoch, place.epoch))

    def close(self) -> None:
        """End it; one that waits in another thread ends as well. What was given last comes again from a subscription."""
        if not self._closed.is_set():
            self._closed.set()
            self._feed.hold.release()

    def _acknowledge_before(self, reading: EpochReading | None) -> None:
        if reading is None:
            self.acknowledge()
        elif not reading.snapshot:
            self._feed.hold.acknowledge(reading.after)


def open_feed(store: Hummock, name: str, since: Since | None) -> ChangeFeed:
    """Return what reads the changes of a subscription from where it stands, or of a table or view from now on.

    With `since` a subscription stands there first, and a table or view is followed from there. Raises SqlError for what cannot be
    followed or is no moment, SubscriptionError for a subscription that cannot go on.
    """
    version = store.refresh()
    stored = load_catalog(version)
    relation = stored.catalog.get(name)
    if relation.kind != KIND:
        followed = resolve_followed(version, stored, relation.name)
        start = "now" if since is None else since
        place = resolve_start(start, followed, followed.table.safe_epoch, store.clock())
        hold: Hold = PinHold(store, followed, min(place.epoch, find_newest(followed.table)))
        return ChangeFeed(store, hold, followed, place)
    followed = resolve_followed(version, stored, find_followed(relation))
    found = find_place(version, relation) if since is None else None
    if found is None:
        found = begin_subscription(store, relation.name, "full" if since is None else since)
    hold = SubscriptionHold(store, relation.name, followed.table.table_id)
    return ChangeFeed(store, hold, hold.find(store.refresh()), found)


def open_subscriber(
    store: Hummock,
    name: str,
    since: Since | None = None,
    *,
    follow: bool = False,
    poll_seconds: float = POLL_SECONDS,
    acknowledges: bool = True,
) -> Subscriber:
    """Return the iterator of `Session.subscribe`."""
    if poll_seconds <= 0:
        raise SubscriptionError(f"poll_seconds is {poll_seconds:g}: it has to be more than 0")
    feed = open_feed(store, name, since)
    return Subscriber(feed, follow=follow, poll_seconds=poll_seconds, acknowledges=acknowledges)


def find_time(epoch: int) -> datetime.datetime:
    """Return the time of an epoch, in UTC."""
    return _1970 + datetime.timedelta(microseconds=micros_of(epoch))

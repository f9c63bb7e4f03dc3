"""What keeps changes for somebody who follows: a subscription's place, or a pin that ends by itself unless it is renewed."""

from __future__ import annotations

import contextlib
from typing import Protocol

from engine.errors import BranchDropped, SubscriptionError
from engine.hummock import Commit, Hummock, Pin, TableVersion, Version
from engine.hummock.epoch import COUNTER_BITS, epoch_at, format_epoch
from engine.hummock.transact import ONCE, commit_with_retry
from engine.hummock.upkeep.pins import create_pin
from engine.meta.catalog.stored_catalog import load_catalog
from engine.meta.status.subscriptions import KIND, find_followed_table, read_subscription_state
from engine.runtime.subscriptions.positions import acknowledge_epoch, build_rebuilt_text
from engine.runtime.subscriptions.starts import FollowedTable

PIN_SECONDS = 600.0
"""For so long changes are kept for who follows a table or view, after it has asked for the last time."""
OWNER = "follower"


class Hold(Protocol):
    """Keeps the changes that a follower has not acknowledged."""

    def find(self, version: Version) -> FollowedTable:
        """Return what is followed as it is now; raises SubscriptionError if it is gone."""

    def acknowledge(self, epoch: int) -> None:
        """Let go of the changes up to an epoch; raises SubscriptionError if those after it are not kept any more."""

    def renew(self) -> None:
        """Note that somebody still follows."""

    def release(self) -> None:
        """End the hold, unless it is to outlast the follower."""


class SubscriptionHold:
    """The place of a subscription, which outlasts whoever reads."""

    def __init__(self, store: Hummock, name: str, table_id: int) -> None:
        self.name = name
        self._store, self._table_id = store, table_id
        self._acknowledged = 0

    def find(self, version: Version) -> FollowedTable:
        """Return what is followed as it is now; raises SubscriptionError if it is gone."""
        catalog = load_catalog(version).catalog
        relation = catalog.relations.get(self.name)
        if relation is None or relation.kind != KIND:
            raise SubscriptionError(f"subscription {self.name} was dropped")
        lapsed = read_subscription_state(version, self.name).lapsed
        if lapsed:
            raise SubscriptionError(lapsed)
        table = find_followed_table(version, relation)
        if table is None or table.table_id != self._table_id:
            raise SubscriptionError(build_rebuilt_text(relation))
        return FollowedTable(version, catalog.relations[table.name], table)

    def acknowledge(self, epoch: int) -> None:
        """Let the subscription stand at an epoch, in one commit, unless it stands there or further on."""
        if epoch > self._acknowledged:
            acknowledge_epoch(self._store, self.name, self._table_id, epoch)
            self._acknowledged = epoch

    def renew(self) -> None:
        """Do nothing: a subscription holds its changes whether somebody follows or not."""

    def release(self) -> None:
        """Do nothing: whoever reads next goes on here."""


class PinHold:
    """A pin that ends `PIN_SECONDS` after it was renewed for the last time: a dead process holds nothing for ever."""

    def __init__(self, store: Hummock, followed: FollowedTable, epoch: int) -> None:
        self.name = followed.relation.name
        self._store, self._table_id, self._epoch = store, followed.table.table_id, epoch
        self._made = 0.0
        self._pin: Pin | None = None
        self._move(followed.table)

    def find(self, version: Version) -> FollowedTable:
        """Return what is followed as it is now, whatever it is called; raises SubscriptionError if it is gone."""
        table = next((one for one in version.tables.values() if one.table_id == self._table_id), None)
        relation = None if table is None else load_catalog(version).catalog.relations.get(table.name)
        if table is None or relation is None:
            raise SubscriptionError(f"{self.name} was dropped, or made anew: follow it again")
        return FollowedTable(version, relation, table)

    def acknowledge(self, epoch: int) -> None:
        """Hold the changes after an epoch alone, from the next renewal on."""
        self._epoch = max(self._epoch, epoch)

    def renew(self) -> None:
        """Hold for the whole time again, once a third of it is over."""
        if self._store.clock() - self._made >= PIN_SECONDS / 3:
            self._move(self.find(self._store.refresh()).table)

    def release(self) -> None:
        """Take the pin away; of a table that is gone there is none, nor in a branch that was dropped."""
        pin, self._pin = self._pin, None
        with contextlib.suppress(BranchDropped):
            self._unpin(pin)

    def _unpin(self, pin: Pin | None) -> None:
        version = self._store.refresh()
        table = next((one for one in version.tables.values() if one.table_id == self._table_id), None)
        if pin is not None and table is not None and pin.name in table.pins:
            self._store.commit(Commit(pins={table.name: {pin.name: None}}))

    def _move(self, table: TableVersion) -> None:
        now = self._store.clock()
        until = (epoch_at(self._store.clock.stamp()) >> COUNTER_BITS) + int(PIN_SECONDS * 1000)
        made = create_pin(table.name, self._epoch, OWNER, until)
        pins: dict[str, int | None] = {made.name: made.epoch}
        if self._pin is not None:
            pins[self._pin.name] = None
        commit_with_retry(
            self._store,
            lambda: self._store.commit(Commit(pins={table.name: pins})),
            ONCE,
            build_error=lambda _: build_expiry_error(table.name, self._epoch, table),
        )
        self._pin, self._made = made, now


def build_expiry_error(name: str, epoch: int, table: TableVersion) -> SubscriptionError:
    """Return the error of a follower whose next changes are not kept any more."""
    return SubscriptionError(
        f"changes of {name} after epoch {format_epoch(epoch)} are not kept any more, they are from "
        f"{format_epoch(table.safe_epoch)} on: a subscription keeps them for its retention, a follower of a table or view "
        f"for {PIN_SECONDS:.0f} s after it has asked; go on with since='begin' or 'now' without them, or with 'full'"
    )

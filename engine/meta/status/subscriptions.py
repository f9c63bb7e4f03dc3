"""Subscriptions as the store knows them: which table each follows, where it stands, and from where on changes are kept for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import msgspec

from engine.hummock import TableVersion, Version
from engine.hummock.epoch import seconds_of
from engine.meta.catalog.records import Prefix, Record
from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.meta.domains.creation import find_computed_table
from engine.meta.status.sinks import Holds
from engine.sql.catalog import Relation

KIND: Literal["subscription"] = "subscription"
RETENTION = "retention"
RETENTION_SECONDS = 24 * 3600.0
Phase = Literal["waiting", "snapshot", "log", "lapsed"]


class SubscriptionState(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a subscription needs beside its relation: `table_id` is the table that it follows, 0 before that was computed.

    `lapsed` says why it cannot go on from where it stood.
    """

    table_id: int = 0
    lapsed: str = ""


SUBSCRIPTIONS = Record.of_json(Prefix.SUBSCRIPTION, SubscriptionState)


@dataclass(frozen=True)
class SubscriptionPosition:
    """Up to where a subscription has acknowledged; `snapshot`: the rows at that epoch come first."""

    epoch: int
    snapshot: bool


@dataclass(frozen=True)
class SubscriptionProgress:
    """Where a subscription stands: `epoch` is acknowledged, changes are kept from `kept_from` on, `rows` are still to come.

    Phases: `waiting` (what it follows has not been computed), `snapshot` (all rows come first), `log`, `lapsed`.
    """

    phase: Phase
    epoch: int | None = None
    kept_from: int | None = None
    rows: int = 0
    bytes: int = 0
    oldest: int | None = None

    def lag_seconds(self, now: float) -> float:
        """The age of the oldest change that was not acknowledged."""
        return 0.0 if self.oldest is None else max(0.0, now - seconds_of(self.oldest))


def list_subscriptions(stored: StoredCatalog) -> Iterator[Relation]:
    """Yield the relations of all subscriptions."""
    for relation in stored.catalog.relations.values():
        if relation.kind == KIND:
            yield relation


def find_followed(relation: Relation) -> str:
    """Return the table or view that a subscription follows."""
    return relation.depends_on[0]


def get_retention(relation: Relation) -> float:
    """Return for how many seconds changes are kept for a subscription."""
    return float(relation.options[RETENTION])


def read_subscription_state(version: Version, name: str) -> SubscriptionState:
    """Return the state of a subscription."""
    return SUBSCRIPTIONS.read(version, name) or SubscriptionState()


def position_consumer(name: str) -> str:
    """Return the consumer of a table's log that stands where a subscription does."""
    return f"{SUBSCRIPTIONS.key(name)}/position"


def history_consumer(name: str) -> str:
    """Return the consumer of a table's log that keeps it as far back as a subscription's retention says."""
    return f"{SUBSCRIPTIONS.key(name)}/history"


def find_subscription_position(table: TableVersion, name: str) -> SubscriptionPosition | None:
    """Return where a subscription stands in a table's log, None if it has no place there."""
    consumer = position_consumer(name)
    if consumer in table.pins:
        return SubscriptionPosition(table.pins[consumer], True)
    return SubscriptionPosition(table.acks[consumer], False) if consumer in table.acks else None


def find_followed_table(version: Version, relation: Relation) -> TableVersion | None:
    """Return the table that a subscription has a place in, None if it follows no table yet, or one that is gone."""
    table = find_computed_table(version, find_followed(relation))
    state = read_subscription_state(version, relation.name)
    return table if table is not None and table.table_id == state.table_id else None


def release_subscription(relation: Relation) -> tuple[Holds, Holds]:
    """Return the acknowledgements and pins of a commit that lets go of all that a subscription holds."""
    acks: dict[str, int | None] = dict.fromkeys(
        (position_consumer(relation.name), history_consumer(relation.name))
    )
    pins: dict[str, int | None] = {position_consumer(relation.name): None}
    return {find_followed(relation): acks}, {find_followed(relation): pins}


def compute_subscription_progress(version: Version, relation: Relation) -> SubscriptionProgress:
    """Return where a subscription stands, from one manifest alone."""
    state = read_subscription_state(version, relation.name)
    table = find_followed_table(version, relation)
    kept = None if table is None else table.acks.get(history_consumer(relation.name))
    if state.lapsed:
        return SubscriptionProgress("lapsed", kept_from=kept)
    if not state.table_id:
        return SubscriptionProgress("waiting")
    at = None if table is None else find_subscription_position(table, relation.name)
    if table is None or at is None:
        return SubscriptionProgress("lapsed", kept_from=kept)
    entries = table.list_changes(at.epoch, table.committed_epoch)
    rows, size = sum(entry.rows for entry in entries), sum(sst.length for e in entries for sst in e.ssts)
    if at.snapshot:
        first = [sst for run in table.as_of(at.epoch) for sst in run]
        rows, size = rows + sum(sst.rows for sst in first), size + sum(sst.length for sst in first)
        return SubscriptionProgress("snapshot", None, kept, rows, size, at.epoch)
    return SubscriptionProgress("log", at.epoch, kept, rows, size, table.find_first_change(at.epoch))

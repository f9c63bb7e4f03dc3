"""Upkeep: changes are kept for a subscription as long as its retention says, whether or not somebody has taken them."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from engine.hummock import Commit, Hummock, Version
from engine.hummock.epoch import epoch_at
from engine.hummock.manifests.commit_merge import merge_commits
from engine.hummock.manifests.preconditions import require_all
from engine.hummock.transact import DEFINITION, commit_with_retry
from engine.meta.catalog.stored_catalog import load_catalog
from engine.meta.status.subscriptions import (
    SUBSCRIPTIONS,
    find_followed_table,
    find_subscription_position,
    get_retention,
    history_consumer,
    list_subscriptions,
    position_consumer,
    read_subscription_state,
)
from engine.runtime.subscriptions.positions import (
    build_lapse_text,
    require_unchanged_subscription,
    require_unmoved,
)
from engine.sql.catalog import Relation


@dataclass(frozen=True)
class ReleasedChanges:
    """What upkeep let go of for a subscription: its changes up to an epoch; `lapsed` where it had not taken all of them."""

    subscription: str
    upto: int
    lapsed: bool


def release_overdue_changes(store: Hummock) -> tuple[ReleasedChanges, ...]:
    """Let go of the changes that are older than the retention of the subscriptions that hold them, in one commit.

    A subscription that stands before them has lapsed, and says so to who reads it next. Logs are truncated afterwards.
    """

    def attempt() -> tuple[ReleasedChanges, ...]:
        version = store.refresh()
        parts, found = [], []
        for relation in list_subscriptions(load_catalog(version)):
            part = _build_release(version, relation, store.clock())
            if part is not None:
                parts.append(part[0])
                found.append(part[1])
        if parts:
            store.commit(merge_commits(*parts))
        return tuple(found)

    return commit_with_retry(store, attempt, DEFINITION)


def _build_release(version: Version, relation: Relation, now: float) -> tuple[Commit, ReleasedChanges] | None:
    """Return the part of a commit that lets go of a subscription's overdue changes, None if there are none."""
    table = find_followed_table(version, relation)
    held = None if table is None else table.acks.get(history_consumer(relation.name))
    if table is None or held is None:
        return None
    upto = min(epoch_at(now - get_retention(relation)), table.committed_epoch)
    oldest = table.find_first_change(held)
    if upto <= held or oldest is None or oldest > upto:
        return None
    name, at = relation.name, find_subscription_position(table, relation.name)
    position, history = position_consumer(name), history_consumer(name)
    acks: dict[str, int | None] = {history: upto}
    pins: dict[str, int | None] = {}
    entries: dict[str, str | None] = {}
    lapsed = False
    if at is not None and at.epoch < upto:
        first = table.find_first_change(at.epoch)
        lapsed = at.snapshot or (first is not None and first <= upto)
        (pins if at.snapshot else acks)[position] = None if lapsed else upto
        if lapsed:
            text = build_lapse_text(relation, at.epoch, upto)
            state = msgspec.structs.replace(read_subscription_state(version, name), lapsed=text)
            entries = SUBSCRIPTIONS.record(name, state)
    holds = {table.name: pins} if pins else {}
    check = require_all(require_unchanged_subscription(version, name, table), require_unmoved(name, table))
    part = Commit(acks={table.name: acks}, pins=holds, catalog=entries, precondition=check)
    return part, ReleasedChanges(name, upto, lapsed)

"""Where subscriptions stand: each step forward, and each new beginning, is one commit."""

from __future__ import annotations

from engine.errors import SqlError, SubscriptionError
from engine.hummock import Commit, Hummock, TableVersion, Version
from engine.hummock.epoch import format_epoch
from engine.hummock.manifests.preconditions import Precondition, require, require_all, require_same_table
from engine.hummock.transact import DEFINITION, RetryPolicy, commit_with_retry
from engine.log_store.sink import ReaderPosition
from engine.meta.catalog.stored_catalog import RELATIONS, load_catalog
from engine.meta.status.subscriptions import (
    KIND,
    SUBSCRIPTIONS,
    SubscriptionState,
    find_followed,
    find_followed_table,
    find_subscription_position,
    get_retention,
    history_consumer,
    position_consumer,
    read_subscription_state,
)
from engine.runtime.subscriptions.starts import Since, resolve_followed, resolve_start
from engine.sql.catalog import Relation

STEP = RetryPolicy(50)
"""Of a subscription's steps: writers may be faster many times, and no rows are read again for it."""

REMEDY = (
    "DECLARE … SINCE now() or begin(), `tideline subscribe --since`, or Session.subscribe(…, since=…) goes on without them, "
    "FULL (since='full') with all rows first"
)


def find_subscription(version: Version, name: str) -> Relation:
    """Return the relation of a subscription; raises SqlError if there is none."""
    catalog = load_catalog(version).catalog
    found = catalog.relations.get(name) or catalog.relations.get(name.lower())
    if found is None or found.kind != KIND:
        what = f"there is no subscription {name}" if found is None else f"{name} is a {found.kind}"
        raise SqlError(what, hint="SHOW SUBSCRIPTIONS lists what exists")
    return found


def find_place(version: Version, relation: Relation) -> ReaderPosition | None:
    """Return where a subscription stands, None before it has begun; raises SubscriptionError where it cannot go on."""
    name, state = relation.name, read_subscription_state(version, relation.name)
    if state.lapsed:
        raise SubscriptionError(state.lapsed)
    if not state.table_id:
        return None
    table = find_followed_table(version, relation)
    if table is None:
        raise SubscriptionError(build_rebuilt_text(relation))
    at = find_subscription_position(table, name)
    if at is None:
        raise SubscriptionError(
            f"subscription {name}: its place in the log of {table.name} is gone; {REMEDY}"
        )
    return ReaderPosition(at.epoch, at.snapshot)


def begin_subscription(store: Hummock, name: str, since: Since) -> ReaderPosition:
    """Let a subscription stand where `since` says, and return that place."""

    def attempt() -> ReaderPosition:
        version = store.refresh()
        relation = find_subscription(version, name)
        followed = resolve_followed(version, load_catalog(version), find_followed(relation))
        table = followed.table
        same = read_subscription_state(version, name).table_id == table.table_id
        kept = table.acks.get(history_consumer(name)) if same else None
        place = resolve_start(since, followed, table.safe_epoch if kept is None else kept, store.clock())
        store.commit(build_beginning(version, relation, table, place))
        return place

    return commit_with_retry(store, attempt, DEFINITION)


def build_beginning(
    version: Version, relation: Relation, table: TableVersion, place: ReaderPosition
) -> Commit:
    """Return the commit by which a subscription stands at a place; changes before it stay as far back as they were kept."""
    name = relation.name
    position, history = position_consumer(name), history_consumer(name)
    kept = min(table.acks.get(history, place.epoch), place.epoch)
    acks: dict[str, int | None] = {position: None if place.snapshot else place.epoch, history: kept}
    pins: dict[str, int | None] = {position: place.epoch if place.snapshot else None}
    return Commit(
        acks={table.name: acks},
        pins={table.name: pins},
        catalog=SUBSCRIPTIONS.record(name, SubscriptionState(table.table_id)),
        precondition=require_unchanged_subscription(version, name, table),
    )


def acknowledge_epoch(store: Hummock, name: str, table_id: int, epoch: int) -> None:
    """Let a subscription stand at an epoch, unless it stands there already, or further on; durable when it returns.

    Raises SubscriptionError where it is gone, or its changes were let go.
    """

    def attempt() -> None:
        version = store.refresh()
        relation = load_catalog(version).catalog.relations.get(name)
        if relation is None or relation.kind != KIND:
            raise SubscriptionError(f"subscription {name} was dropped")
        at, table = find_place(version, relation), find_followed_table(version, relation)
        if at is None or table is None or table.table_id != table_id:
            raise SubscriptionError(build_rebuilt_text(relation))
        if not at.snapshot and at.epoch >= epoch:
            return
        consumer = position_consumer(name)
        check = require_all(
            require_unchanged_subscription(version, name, table), require_unmoved(name, table)
        )
        pins = {table.name: {consumer: None}} if at.snapshot else {}
        store.commit(Commit(acks={table.name: {consumer: epoch}}, pins=pins, precondition=check))

    commit_with_retry(store, attempt, STEP)


def mark_rebuilt(store: Hummock, name: str) -> None:
    """Note that what a subscription follows was made anew, so that nobody takes its rows for changes of the rows before."""
    relation = find_subscription(store.refresh(), name)
    state = SubscriptionState(lapsed=build_rebuilt_text(relation))
    store.commit(Commit(catalog=SUBSCRIPTIONS.record(name, state)))


def require_unchanged_subscription(base: Version, name: str, table: TableVersion) -> Precondition:
    """Return the precondition that neither a subscription nor the table that it follows was made anew or dropped."""
    changed = f"subscription {name} was changed by another process at the same time; try again"
    return require_all(
        require_same_table(table, changed),
        RELATIONS.require_same(base, name, changed),
        SUBSCRIPTIONS.require_same(base, name, changed),
    )


def require_unmoved(name: str, base: TableVersion) -> Precondition:
    """Return the precondition that a subscription stands where it did."""
    before = find_subscription_position(base, name)

    def is_same(version: Version) -> bool:
        table = version.tables.get(base.name)
        return table is not None and find_subscription_position(table, name) == before

    return require(is_same, f"subscription {name} was moved on by another process at the same time")


def build_lapse_text(relation: Relation, epoch: int, kept: int) -> str:
    """Return why a subscription that fell behind its retention cannot go on, and what to do."""
    retention = format_span(get_retention(relation))
    return (
        f"subscription {relation.name} fell behind: it stood at epoch {format_epoch(epoch)}, and changes of "
        f"{find_followed(relation)} older than its retention of {retention} were let go, up to {format_epoch(kept)}; {REMEDY}"
    )


def build_rebuilt_text(relation: Relation) -> str:
    """Return why a subscription cannot go on whose table or view is another one by now, and what to do."""
    return (
        f"subscription {relation.name}: {find_followed(relation)} was made anew, and what changed between its old rows and "
        f"the new ones is not known; {REMEDY}"
    )


def format_span(seconds: float) -> str:
    """Return a time span as CREATE SUBSCRIPTION takes it.

    >>> format_span(86400.0), format_span(90.0), format_span(7200.0)
    ('1 day', '90 seconds', '2 hours')
    """
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= size and seconds % size == 0:
            count = int(seconds // size)
            return f"{count} {unit}" if count == 1 else f"{count} {unit}s"
    return f"{seconds:g} second" + ("" if seconds == 1 else "s")

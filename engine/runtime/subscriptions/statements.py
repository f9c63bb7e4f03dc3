"""CREATE SUBSCRIPTION, its cursors, and what SHOW tells of both."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import pyarrow as pa

from engine.errors import SqlError
from engine.hummock import Commit
from engine.hummock.manifests.preconditions import require_all
from engine.hummock.transact import DEFINITION, commit_with_retry
from engine.log_store.sink import ReaderPosition
from engine.meta.catalog.stored_catalog import (
    RELATIONS,
    encode_entries,
    load_catalog,
    require_absent_relation,
)
from engine.meta.domains.creation import find_computed_table, require_same_computed
from engine.meta.status.subscriptions import (
    KIND,
    RETENTION,
    RETENTION_SECONDS,
    SUBSCRIPTIONS,
    SubscriptionState,
    compute_subscription_progress,
    find_followed,
    get_retention,
    list_subscriptions,
    read_subscription_state,
)
from engine.runtime.relations import build_name_error
from engine.runtime.statement_context import StatementContext
from engine.runtime.statements.create.schema import check_schema
from engine.runtime.subscriptions.cursor import SubscriptionCursor
from engine.runtime.subscriptions.positions import build_beginning, format_span
from engine.runtime.subscriptions.starts import Since, check_followable, find_newest
from engine.runtime.subscriptions.subscriber import open_feed
from engine.sql.batch.time_travel import Moment
from engine.sql.catalog import Relation
from engine.sql.statements.ddl.subscription_statements import (
    CloseCursor,
    CreateSubscription,
    DeclareCursor,
    FetchCursor,
    ShowCursors,
    ShowSubscriptions,
)

MOST_CURSORS = 100
"""So many cursors a session has at most: what they follow is kept for each."""


def execute_create_subscription(statement: CreateSubscription, context: StatementContext) -> None:
    """Create a subscription; it stands at the present, or, where there is no content yet, before all rows."""
    store = context.store

    def attempt() -> None:
        version = store.refresh()
        stored = load_catalog(version)
        taken = stored.catalog.relations.get(statement.name)
        if taken is not None:
            if statement.if_not_exists:
                return
            hint = f"drop it first: DROP {taken.kind.upper()} {taken.name}"
            message = f"{taken.name} exists already: it is a {taken.kind}"
            raise build_name_error(message, statement.name, statement.sql, hint)
        check_schema(stored.catalog, statement.name, statement.sql)
        source = stored.catalog.relations.get(statement.source)
        if source is None or source.name.startswith("_"):
            hint = stored.catalog.suggest_names(statement.source)
            message = f"there is no table or view {statement.source}"
            raise build_name_error(message, statement.source, statement.sql, hint)
        try:
            check_followable(source)
        except SqlError as error:
            raise build_name_error(error.message, source.name, statement.sql, error.hint) from error
        seconds = statement.retention_seconds
        relation = Relation(
            name=statement.name,
            kind=KIND,
            columns=(),
            sql=statement.sql,
            dialect=context.dialect,
            options={RETENTION: str(RETENTION_SECONDS if seconds is None else seconds)},
            depends_on=(source.name,),
        )
        table = find_computed_table(version, source.name)
        part = Commit(catalog=SUBSCRIPTIONS.record(relation.name, SubscriptionState()))
        if table is not None:
            part = build_beginning(version, relation, table, ReaderPosition(find_newest(table), False))
        same = f"{source.name}, which {relation.name} follows, was changed at the same time; try again"
        check = require_all(
            require_absent_relation(relation.name),
            RELATIONS.require_same(version, source.name, same),
            require_same_computed(version, source.name, same),
        )
        catalog = encode_entries({relation.name: relation}, {}) | dict(part.catalog)
        store.commit(dataclasses.replace(part, catalog=catalog, precondition=check))

    commit_with_retry(store, attempt, DEFINITION)


def execute_declare_cursor(statement: DeclareCursor, context: StatementContext) -> None:
    """Declare a cursor: over a subscription from where it stands, over a table or view from now on, or SINCE a moment."""
    cursors = context.session.cursors
    if statement.name in cursors:
        hint = f"CLOSE {statement.name} first, or choose another name"
        raise build_name_error(f"there is a cursor {statement.name}", statement.name, statement.sql, hint)
    if len(cursors) >= MOST_CURSORS:
        message = f"the session has {MOST_CURSORS} cursors, the most there may be"
        raise build_name_error(message, statement.name, statement.sql, "CLOSE those that are done")
    stored = context.stored
    if statement.source not in stored.catalog.relations or statement.source.startswith("_"):
        hint = "SHOW SUBSCRIPTIONS lists what exists; a cursor may follow a table or a materialized view, too"
        message = f"there is no subscription {statement.source}"
        raise build_name_error(message, statement.source, statement.sql, hint)
    since: Since | None = statement.since if isinstance(statement.since, str) else None
    if isinstance(statement.since, int):
        since = Moment(seconds=statement.since / 1000)
    try:
        feed = open_feed(context.store, statement.source, since)
    except SqlError as error:
        raise build_name_error(error.message, statement.source, statement.sql, error.hint) from error
    cursors[statement.name] = SubscriptionCursor(statement.name, statement.source, feed)


def execute_fetch_cursor(statement: FetchCursor, context: StatementContext) -> pa.Table:
    """Return the next rows of a cursor, none where nothing has come; what was fetched before is acknowledged."""
    cursor = context.session.cursors.get(statement.name)
    if cursor is None:
        raise _build_no_cursor_error(statement.name, statement.sql)
    return cursor.fetch(statement.count, statement.seconds)


def execute_close_cursor(statement: CloseCursor, context: StatementContext) -> None:
    """Close a cursor, or all; what was fetched of whole epochs is acknowledged."""
    cursors = context.session.cursors
    if statement.name is not None and statement.name not in cursors:
        raise _build_no_cursor_error(statement.name, statement.sql)
    with contextlib.ExitStack() as closing:  # all are closed, whatever one raises
        for name in [*cursors] if statement.name is None else [statement.name]:
            closing.callback(cursors.pop(name).close)


def execute_show_subscriptions(statement: ShowSubscriptions, context: StatementContext) -> pa.Table:
    """Return what every subscription follows, where it stands, and what it lacks."""
    version, now = context.store.refresh(), context.store.clock()
    rows = []
    for relation in list_subscriptions(load_catalog(version)):
        at = compute_subscription_progress(version, relation)
        rows.append(
            {
                "name": relation.name,
                "from": find_followed(relation),
                "retention": format_span(get_retention(relation)),
                "phase": at.phase,
                "epoch": at.epoch,
                "kept_from": at.kept_from,
                "lag_rows": at.rows,
                "lag_seconds": round(at.lag_seconds(now), 1),
                "error": read_subscription_state(version, relation.name).lapsed or None,
            }
        )
    texts: dict[str, pa.DataType] = {name: pa.string() for name in ("name", "from", "retention", "phase")}
    numbers: dict[str, pa.DataType] = {name: pa.int64() for name in ("epoch", "kept_from", "lag_rows")}
    kinds: dict[str, pa.DataType] = {**texts, **numbers, "lag_seconds": pa.float64(), "error": pa.string()}
    return pa.Table.from_pylist(rows, pa.schema(list(kinds.items())))


def execute_show_cursors(statement: ShowCursors, context: StatementContext) -> pa.Table:
    """Return the session's cursors, what each follows, and the epoch at which it is."""
    found = list(context.session.cursors.values())
    columns: dict[str, pa.Array[Any]] = {
        "name": pa.array([one.name for one in found], pa.string()),
        "from": pa.array([one.source for one in found], pa.string()),
        "epoch": pa.array([one.epoch for one in found], pa.int64()),
    }
    return pa.table(columns)


def _build_no_cursor_error(name: str, sql: str) -> SqlError:
    hint = (
        "DECLARE name SUBSCRIPTION CURSOR FOR subscription makes one; SHOW CURSORS lists those of the session"
    )
    return build_name_error(f"there is no cursor {name}", name, sql, hint)

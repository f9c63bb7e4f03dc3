"""CREATE SINK and ALTER SINK: each change is one commit, checked again whenever it is rebased."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection

import msgspec

from engine.connectors.sinks.checked_options import checked
from engine.connectors.sinks.delta_checks import OpenSpark
from engine.connectors.sinks.option_checks import wrong_sink
from engine.connectors.sinks.options import EPOCH, OPERATION, SinkOptions
from engine.connectors.sinks.registry import connector_of_sink
from engine.connectors.sinks.start import beginning, provided
from engine.errors import Conflict, SqlError
from engine.hummock import Commit, Hummock, Version
from engine.meta.catalog_store import StoredCatalog, entries, load
from engine.meta.creation import computed
from engine.meta.sinks import (
    KIND,
    BegunMeanwhile,
    SinkState,
    is_copy,
    released,
    sinks,
    source_of,
    state_entry,
    state_of,
)
from engine.runtime.spark.session import connect
from engine.runtime.statements.create_schema import check_schema
from engine.runtime.statements.drop import drop_own_view
from engine.sql.catalog import ROW_ID, Catalog, Column, Relation
from engine.sql.dialect import Dialect
from engine.sql.incremental.one_row import is_one_row
from engine.sql.parsing.refusals import line_and_column
from engine.sql.statements.sink_statements import AlterSink, CreateSink, SinkAction, view_of
from engine.sql.statements.statement_types import CreateMaterializedView
from engine.sql.typing.conversions import Verdict, verdict
from engine.sql.typing.types import to_arrow

RACE_ATTEMPTS = 20


def create_sink(
    store: Hummock,
    statement: CreateSink,
    dialect: Dialect,
    make_view: Callable[[CreateMaterializedView], None] | None = None,
    spark: OpenSpark = connect,
) -> bool:
    """Create a sink; it holds the log of its view from now on. Returns False if it exists and IF NOT EXISTS is said.

    One AS SELECT has a view of its own, made by `make_view`, which goes with it. `spark` is asked about Delta tables.
    """
    stored = load(store.refresh())
    if statement.name in stored.catalog.relations:
        if statement.if_not_exists:
            return False
        kind = stored.catalog.relations[statement.name].kind
        hint = f"drop it first: DROP {kind.upper()} {statement.name}"
        raise _error(statement, statement.name, f"{statement.name} exists already: it is a {kind}", hint)
    check_schema(stored.catalog, statement.name, statement.sql)
    if statement.query is None:
        _create(store, statement, dialect, spark)
        return True
    checked(statement, append_only=True)  # before there is a view whose rows tell what else cannot be
    drop_own_view(store, statement.name)  # of a statement that was broken off
    query, text = statement.query, statement.query_sql
    assert make_view is not None, "only a session can make views"
    make_view(CreateMaterializedView(statement.source, query, text, {}, False, statement.sql))
    try:
        _create(store, statement, dialect, spark)
    except BaseException:
        drop_own_view(store, statement.name)
        raise
    return True


def _create(store: Hummock, statement: CreateSink, dialect: Dialect, spark: OpenSpark) -> None:
    for attempt in range(RACE_ATTEMPTS):
        version = store.refresh()
        stored = load(version)
        relation = sink_relation(stored, statement, dialect)
        _check_alone(stored, statement, relation)
        relation = connector_of_sink(relation).prepared(store.url, relation, statement, spark)
        table = computed(version, source_of(relation))
        part = Commit(catalog=state_entry(relation.name, SinkState()))
        if table is not None:
            part = beginning(version, relation, table, SinkOptions.of(relation.options).snapshot)
        catalog = entries({relation.name: relation}, {}) | dict(part.catalog)
        try:
            store.commit(provided(dataclasses.replace(part, catalog=catalog), _stands(relation, version)))
            return
        except BegunMeanwhile:
            if attempt == RACE_ATTEMPTS - 1:
                raise


def _check_alone(stored: StoredCatalog, statement: CreateSink, relation: Relation) -> None:
    """Raise SqlError for the place of a Delta table that is a view's own."""
    url = relation.options.get("url")
    other = next((one for one in sinks(stored) if is_copy(one) and one.options.get("url") == url), None)
    if other is not None:
        message = (
            f"{url} is the Delta table of {source_of(other)}, which {other.name} keeps as that view alone"
        )
        raise wrong_sink(
            statement, "path" if "path" in statement.options else "url", message, "name another path"
        )


def alter_sink(store: Hummock, statement: AlterSink) -> None:
    """Pause or resume a sink, or reset it: it begins anew, whatever it or another process delivers at this moment.

    A reset sink delivers the rows as they are now, or, without a snapshot, what changes from now on.
    """
    for attempt in range(RACE_ATTEMPTS):
        version = store.refresh()
        relation = _sink(load(version), statement.name, statement.sql)
        part = _altered(version, relation, statement.action)
        try:
            store.commit(provided(part, _unaltered(version, relation)))
            return
        except Conflict:
            if attempt == RACE_ATTEMPTS - 1:
                raise


def _altered(version: Version, relation: Relation, action: SinkAction) -> Commit:
    state, table = state_of(version, relation.name), computed(version, source_of(relation))
    if action != "reset":
        state = msgspec.structs.replace(state, paused=action == "pause")
        return Commit(catalog=state_entry(relation.name, state))
    if table is not None:
        return beginning(version, relation, table, SinkOptions.of(relation.options).snapshot)
    acks, pins = released(relation)
    return Commit(acks=acks, pins=pins, catalog=state_entry(relation.name, SinkState(paused=state.paused)))


def _unaltered(seen: Version, relation: Relation) -> Callable[[Version], None]:
    source = source_of(relation)
    keys = (f"relation/{relation.name}", *state_entry(relation.name, None))

    def check(now: Version) -> None:
        before, after = computed(seen, source), computed(now, source)
        same = (before and before.table_id) == (after and after.table_id)
        if not same or any(now.catalog.get(key) != seen.catalog.get(key) for key in keys):
            raise Conflict(f"sink {relation.name} was changed by another process at the same time; try again")

    return check


def _shown(source: Relation) -> str:
    """Return how messages name what a sink reads."""
    return "the query" if source.name.startswith("_") else source.name


def sink_relation(stored: StoredCatalog, statement: CreateSink, dialect: Dialect) -> Relation:
    """Return a new sink as the catalog has it; raises SqlError for what it could not do."""
    source = _named(stored.catalog, statement, statement.source, "table or view")
    if source.kind not in ("table", "materialized view"):
        hint = "CREATE MATERIALIZED VIEW of it, and a sink FROM that"
        raise _error(
            statement, statement.source, f"{_shown(source)} is a {source.kind} and keeps no changes", hint
        )
    options = checked(statement, source.append_only)
    if statement.query is not None:
        options["query"] = "true"
    upsert = options["type"] == "upsert"
    if not upsert and not source.append_only and options["force_append_only"] != "true":
        hint = (
            "type = 'upsert'; or force_append_only = true: deletions are left out, a changed row comes again"
        )
        message = f"{_shown(source)} changes and deletes rows, an append-only sink cannot tell so"
        raise _error(statement, statement.source, message, hint)
    shown = [
        Column(c.name, c.type, stored=c.source, sql_type=c.sql_type) for c in source.columns if not c.hidden
    ]
    shown = _under_targets_names(statement, shown)
    key = tuple(c.name for c in shown if c.source in source.primary_key)
    if upsert and len(key) < len(source.primary_key) and not is_one_row(source.name, stored.fragments):
        hidden = ", ".join(k for k in source.primary_key if k not in {c.source for c in shown})
        hint = "select the key columns in the view, or take type = 'append-only' where rows only come"
        message = f"the key of {_shown(source)} ({hidden}) is not among its columns, so nobody could apply updates to its rows"
        raise _error(statement, statement.source, message, hint)
    depends_on: tuple[str, ...] = (source.name,)
    if statement.into is not None:
        target = _named(stored.catalog, statement, statement.into, "table")
        _check_target(stored, statement, source, target, shown, key)
        options["into"] = target.name
        depends_on = (source.name, target.name)
    elif SinkOptions.of(options).has_operations:
        _check_free(statement, source, shown)
        shown = [Column(OPERATION, "string", False), *shown, Column(EPOCH, "bigint", False)]
    return Relation(
        name=statement.name,
        kind=KIND,
        columns=tuple(shown),
        primary_key=key,
        sql=statement.sql,
        dialect=dialect,
        options=options,
        depends_on=depends_on,
    )


def _under_targets_names(statement: CreateSink, shown: list[Column]) -> list[Column]:
    """Return a view's columns under the names that a list after the table's name gives them."""
    if not statement.columns:
        return shown
    if len(statement.columns) != len(shown):
        message = f"{len(statement.columns)} columns for the {len(shown)} of the rows"
        hint = f"they are {', '.join(column.name for column in shown)}"
        raise _error(statement, statement.columns[0], message, hint)
    pairs = zip(shown, statement.columns, strict=True)
    return [msgspec.structs.replace(column, name=name) for column, name in pairs]


def _check_target(
    stored: StoredCatalog,
    statement: CreateSink,
    source: Relation,
    target: Relation,
    shown: list[Column],
    key: tuple[str, ...],
) -> None:
    """Raise SqlError if the rows of a view cannot be kept in a table."""

    def wrong(message: str, hint: str) -> SqlError:
        return _error(statement, statement.into or "", message, hint)

    upsert = statement.options.get("type", "append-only" if source.append_only else "upsert") == "upsert"
    if target.kind != "table":
        raise wrong(f"{target.name} is a {target.kind}, a sink writes INTO a table", "CREATE TABLE for it")
    if target.append_only and upsert:
        raise wrong(
            f"table {target.name} is APPEND ONLY, and the sink updates rows", "give the table a PRIMARY KEY"
        )
    if upsert and ROW_ID in target.primary_key:
        message = (
            f"table {target.name} has no PRIMARY KEY, and the sink updates rows: which ones is not to be told"
        )
        hint = "give the table a PRIMARY KEY; or type = 'append-only' with force_append_only = true: deletions are left out"
        raise wrong(message, hint)
    if upsert and target.on_conflict == "ignore":
        message = f"table {target.name} keeps the first row of a key (ON CONFLICT DO NOTHING), and the sink updates rows"
        hint = "make the table without it; or type = 'append-only' with force_append_only = true: deletions are left out"
        raise wrong(message, hint)
    _check_columns(statement, source, target, shown)
    _check_meeting(stored, statement, source, target, key)
    _check_ttl(statement, target)
    if target.name == source.name or source.name in _fed_by(stored, target.name):
        raise wrong(
            f"{_shown(source)} is computed from {target.name}: the sink would feed itself", "another table"
        )


def _check_columns(statement: CreateSink, source: Relation, target: Relation, shown: list[Column]) -> None:
    """Raise SqlError if the columns of a view are not those that a table asks for."""

    def wrong(message: str, hint: str) -> SqlError:
        return _error(statement, statement.into or "", message, hint)

    known = {column.name: column for column in target.columns if not column.hidden}
    for column in shown:
        mine = known.get(column.name)
        if mine is None:
            hint = f"columns of {target.name} are {', '.join(known)}; select just those in the view"
            raise wrong(f"table {target.name} has no column {column.name}", hint)
        if mine.generated is not None:
            raise wrong(f"column {mine.name} of {target.name} is generated", "leave it out of the view")
        if mine.sql_type not in (None, column.seen_type):
            message = f"column {column.name} is {column.seen_type} in {_shown(source)} and {mine.sql_type} in {target.name}"
            raise wrong(message, f"CAST it to {mine.sql_type} in the view")
        if verdict(to_arrow(column.type), to_arrow(mine.type)) is not Verdict.TAKEN:
            message = (
                f"column {column.name} is {column.type} in {_shown(source)} and {mine.type} in {target.name}"
            )
            raise wrong(message, f"CAST it to {mine.type} in the view")
    for name, mine in known.items():
        if name in {column.name for column in shown} or mine.generated is not None:
            continue
        if not mine.nullable or mine.default is not None or mine.source in target.primary_key:
            what = "a key column" if mine.source in target.primary_key else "NOT NULL or has a DEFAULT"
            raise wrong(
                f"column {name} of {target.name} is {what}, but {_shown(source)} has none", "select it"
            )
    if any(column.generated is not None for column in target.columns):
        raise wrong(
            f"table {target.name} has generated columns, which a sink cannot compute", "sink into another"
        )


def _check_ttl(statement: CreateSink, target: Relation) -> None:
    """Raise SqlError for a table in which a row takes the place of another with its key."""
    if target.unique_key != target.primary_key and ROW_ID not in target.primary_key:
        message = f"table {target.name} has a key and a watermark WITH TTL: a sink does not look for the row that is there"
        hint = "give the table no PRIMARY KEY, or leave WITH TTL out"
        raise _error(statement, statement.into or "", message, hint)


def _check_meeting(
    stored: StoredCatalog,
    statement: CreateSink,
    source: Relation,
    target: Relation,
    key: tuple[str, ...],
) -> None:
    """Raise SqlError if two rows of a view could meet in one row of a table."""
    theirs = {column.name for column in target.columns if column.source in target.primary_key}
    if (
        ROW_ID not in theirs
        and not is_one_row(source.name, stored.fragments)
        and (len(key) < len(source.primary_key) or not set(key) <= theirs)
    ):
        message = (
            f"two rows of {_shown(source)} could meet in one row of {target.name}: its key ({', '.join(sorted(theirs))}) "
            f"lacks columns of the view's key ({', '.join(key) or 'hidden'})"
        )
        hint = "give the table a PRIMARY KEY that holds the view's key"
        raise _error(statement, statement.into or "", message, hint)


def _fed_by(stored: StoredCatalog, name: str) -> Collection[str]:
    """Return everything that is computed from a table, through sinks into other tables too."""
    found: set[str] = set()
    queue = [name]
    while queue:
        for reader in stored.catalog.dependents(queue.pop()):
            relation = stored.catalog.get(reader)
            into = relation.options.get("into") if relation.kind == KIND else None
            for one in (reader, into):
                if one is not None and one not in found:
                    found.add(one)
                    queue.append(one)
    return found


def _check_free(statement: CreateSink, source: Relation, shown: list[Column]) -> None:
    taken = {OPERATION, EPOCH} & {column.name for column in shown}
    if taken:
        message = f"{_shown(source)} has a column {', '.join(taken)}, the name that an upsert sink needs"
        raise _error(statement, statement.source, message, "name the column otherwise in the view")


def _named(catalog: Catalog, statement: CreateSink, name: str, what: str) -> Relation:
    found = catalog.relations.get(name)
    if found is None or (found.name.startswith("_") and name != view_of(statement.name)):
        raise _error(statement, name, f"there is no {what} {name}", catalog.near(name))
    return found


def _sink(stored: StoredCatalog, name: str, sql: str) -> Relation:
    found = stored.catalog.relations.get(name)
    if found is None or found.kind != KIND:
        at = re.search(rf"\b{re.escape(name)}\b", sql, re.IGNORECASE)
        line, column = line_and_column(sql, at.start() if at else 0)
        what = "there is no sink" if found is None else f"{name} is a {found.kind}, not a sink:"
        raise SqlError(
            f"{what} {name}", sql=sql, line=line, column=column, hint="SHOW SINKS lists what exists"
        )
    return found


def _error(statement: CreateSink, name: str, message: str, hint: str) -> SqlError:
    found = re.search(rf"\b{re.escape(name)}\b", statement.sql, re.IGNORECASE) if name else None
    line, column = line_and_column(statement.sql, found.start() if found else 0)
    return SqlError(message, sql=statement.sql, line=line, column=column, hint=hint)


def _stands(relation: Relation, seen: Version) -> Callable[[Version], None]:
    def check(version: Version) -> None:
        if f"relation/{relation.name}" in version.catalog:
            raise Conflict(f"{relation.name} was created by another process at the same time")
        for name in relation.depends_on:
            if version.catalog.get(f"relation/{name}") != seen.catalog.get(f"relation/{name}"):
                raise Conflict(f"{name}, which the sink {relation.name} needs, was changed at the same time")
        now, then = (computed(v, source_of(relation)) for v in (version, seen))
        if (now and now.table_id) != (then and then.table_id):
            raise Conflict(f"{source_of(relation)} was computed at the same time; try again")

    return check

"""CREATE SINK and ALTER SINK: each change is one commit, checked again whenever it is rebased."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection

import msgspec

from engine.connectors.sinks.catalog_options import resolve_options
from engine.connectors.sinks.option_parsing import build_option_error
from engine.connectors.sinks.options import EPOCH, OPERATION, SinkOptions
from engine.connectors.sinks.registry import find_sink_connector
from engine.connectors.sinks.start import add_precondition, build_start
from engine.errors import SqlError
from engine.hummock import Commit, Hummock, Version
from engine.hummock.manifests.preconditions import Precondition, require_all
from engine.hummock.transact import DEFINITION, commit_with_retry
from engine.meta.catalog.stored_catalog import (
    RELATIONS,
    StoredCatalog,
    encode_entries,
    load_catalog,
    require_absent_relation,
)
from engine.meta.domains.creation import find_computed_table, require_same_computed
from engine.meta.status.copy_columns import list_hidden_keys
from engine.meta.status.sinks import (
    KIND,
    SINKS,
    SinkStartConflict,
    SinkState,
    encode_sink_state,
    find_sink_source,
    is_delta_copy,
    list_sinks,
    read_sink_state,
    release_holds,
)
from engine.runtime.statement_context import StatementContext
from engine.runtime.statements.create.required_inputs import require_columns_stay
from engine.runtime.statements.create.schema import check_schema
from engine.runtime.statements.drop import drop_own_view
from engine.sql.catalog import ROW_ID, Catalog, Relation, RelationColumn
from engine.sql.dialect import Dialect
from engine.sql.incremental.one_row import is_one_row
from engine.sql.parsing.statement_errors import locate_character
from engine.sql.statements.ddl.sink_statements import AlterSink, CreateSink, SinkAction, sink_view_name
from engine.sql.statements.statement_types import CreateMaterializedView
from engine.sql.typing.conversions import ConversionVerdict, classify_conversion
from engine.sql.typing.types import to_arrow

MakeView = Callable[[CreateMaterializedView, StatementContext], None]


def create_sink(statement: CreateSink, context: StatementContext, make_view: MakeView) -> bool:
    """Create a sink; it holds the log of its view from now on. Returns False if it exists and IF NOT EXISTS is said.

    One AS SELECT has a view of its own, made by `make_view`, which goes with it.
    """
    store = context.store
    stored = load_catalog(store.refresh())
    if statement.name in stored.catalog.relations:
        if statement.if_not_exists:
            return False
        kind = stored.catalog.relations[statement.name].kind
        hint = f"drop it first: DROP {kind.upper()} {statement.name}"
        raise _build_error(
            statement, statement.name, f"{statement.name} exists already: it is a {kind}", hint
        )
    check_schema(stored.catalog, statement.name, statement.sql)
    if statement.query is None:
        _create(statement, context)
        return True
    resolve_options(statement, append_only=True)  # before there is a view whose rows tell what else cannot be
    drop_own_view(store, statement.name)  # of a statement that was broken off
    make_view(build_own_view(statement, {}), context)
    try:
        _create(statement, context)
    except BaseException:
        drop_own_view(store, statement.name)
        raise
    return True


def build_own_view(statement: CreateSink, options: dict[str, str]) -> CreateMaterializedView:
    """Return what makes the view that a sink AS SELECT has for itself."""
    assert statement.query is not None
    query, text = statement.query, statement.query_sql
    return CreateMaterializedView(statement.source, query, text, options, False, statement.sql)


def _create(statement: CreateSink, context: StatementContext) -> None:
    store = context.store

    def attempt() -> None:
        version = store.refresh()
        stored = load_catalog(version)
        relation = build_sink_relation(stored, statement, context.dialect)
        _check_exclusive(stored, statement, relation)
        relation = find_sink_connector(relation).prepare(store.url, relation, statement, context.spark)
        table = find_computed_table(version, find_sink_source(relation))
        part = Commit(catalog=encode_sink_state(relation.name, SinkState()))
        if table is not None:
            part = build_start(version, relation, table, SinkOptions.of(relation.options).snapshot)
        catalog = encode_entries({relation.name: relation}, {}) | dict(part.catalog)
        check = require_all(
            _require_current(relation, version),
            require_columns_stay(statement.sql, {relation.name: relation}),
        )
        store.commit(add_precondition(dataclasses.replace(part, catalog=catalog), check))

    commit_with_retry(store, attempt, dataclasses.replace(DEFINITION, among=SinkStartConflict))


def _check_exclusive(stored: StoredCatalog, statement: CreateSink, relation: Relation) -> None:
    """Raise SqlError for the place of a Delta table that is a view's own, or of another sink that has it alone."""
    url = relation.options.get("url")
    connector = find_sink_connector(relation)
    if connector.alone:
        for one in list_sinks(stored):
            if one.options.get("url") == url:
                message = f"sink {one.name} writes {url}, and no two sinks write one {connector.place} there"
                hint = f"name another {connector.place}, or DROP SINK {one.name} first"
                raise build_option_error(statement, connector.place, message, hint)
    other = next(
        (one for one in list_sinks(stored) if is_delta_copy(one) and one.options.get("url") == url), None
    )
    if other is not None:
        message = f"{url} is the Delta table of {find_sink_source(other)}, which {other.name} keeps as that view alone"
        raise build_option_error(
            statement, "path" if "path" in statement.options else "url", message, "name another path"
        )


def execute_alter_sink(statement: AlterSink, context: StatementContext) -> None:
    """Run ALTER SINK."""
    alter_sink(context.store, statement)


def alter_sink(store: Hummock, statement: AlterSink) -> None:
    """Pause or resume a sink, or reset it: it begins anew, whatever it or another process delivers at this moment.

    A reset sink delivers the rows as they are now, or, without a snapshot, what changes from now on.
    """

    def attempt() -> None:
        version = store.refresh()
        relation = _find_sink(load_catalog(version), statement.name, statement.sql)
        part = _build_alteration(version, relation, statement.action)
        store.commit(add_precondition(part, _require_unaltered(version, relation)))

    commit_with_retry(store, attempt, DEFINITION)


def _build_alteration(version: Version, relation: Relation, action: SinkAction) -> Commit:
    state, table = (
        read_sink_state(version, relation.name),
        find_computed_table(version, find_sink_source(relation)),
    )
    if action != "reset":
        state = msgspec.structs.replace(state, paused=action == "pause")
        return Commit(catalog=encode_sink_state(relation.name, state))
    if table is not None:
        return build_start(version, relation, table, SinkOptions.of(relation.options).snapshot)
    acks, pins = release_holds(relation)
    return Commit(
        acks=acks, pins=pins, catalog=encode_sink_state(relation.name, SinkState(paused=state.paused))
    )


def _require_unaltered(base: Version, relation: Relation) -> Precondition:
    message = f"sink {relation.name} was changed by another process at the same time; try again"
    return require_all(
        require_same_computed(base, find_sink_source(relation), message),
        RELATIONS.require_same(base, relation.name, message),
        SINKS.require_same(base, relation.name, message),
    )


def _format_source(source: Relation) -> str:
    """Return how messages name what a sink reads."""
    return "the query" if source.name.startswith("_") else source.name


def build_sink_relation(
    stored: StoredCatalog, statement: CreateSink, dialect: Dialect, *, brings_hidden_keys: bool = False
) -> Relation:
    """Return a new sink as the catalog has it; raises SqlError for what it could not do.

    The columns of the key that its view does not show are refused, or brought beside the others.
    """
    source = _find_relation(stored.catalog, statement, statement.source, "table or view")
    if source.kind not in ("table", "materialized view"):
        hint = "CREATE MATERIALIZED VIEW of it, and a sink FROM that"
        raise _build_error(
            statement,
            statement.source,
            f"{_format_source(source)} is a {source.kind} and keeps no changes",
            hint,
        )
    options = resolve_options(statement, source.append_only)
    if statement.query is not None:
        options["query"] = "true"
    upsert = options["type"] == "upsert"
    if not upsert and not source.append_only and options["force_append_only"] != "true":
        hint = (
            "type = 'upsert'; or force_append_only = true: deletions are left out, a changed row comes again"
        )
        message = (
            f"{_format_source(source)} changes and deletes rows, an append-only sink cannot deliver that"
        )
        raise _build_error(statement, statement.source, message, hint)
    columns = [
        RelationColumn(c.name, c.type, stored=c.storage_name, sql_type=c.sql_type)
        for c in source.visible_columns
    ]
    columns = _rename_columns(statement, columns)
    needs_key = upsert and not is_one_row(source.name, stored.fragments)
    if needs_key and brings_hidden_keys:
        columns += list_hidden_keys(source)
    key = tuple(c.name for c in columns if c.storage_name in source.primary_key)
    if needs_key and len(key) < len(source.primary_key):
        hidden = ", ".join(k for k in source.primary_key if k not in {c.storage_name for c in columns})
        hint = "select the key columns in the view, or take type = 'append-only' where rows only come"
        message = (
            f"the key of {_format_source(source)} ({hidden}) is not among its columns, so nobody could apply "
            f"updates to its rows"
        )
        raise _build_error(statement, statement.source, message, hint)
    depends_on: tuple[str, ...] = (source.name,)
    if statement.into is not None:
        target = _find_relation(stored.catalog, statement, statement.into, "table")
        _check_target(stored, statement, source, target, columns, key)
        options["into"] = target.name
        depends_on = (source.name, target.name)
    elif SinkOptions.of(options).has_operations:
        _check_reserved_names(statement, source, columns)
        columns = [
            RelationColumn(OPERATION, "string", False),
            *columns,
            RelationColumn(EPOCH, "bigint", False),
        ]
    return Relation(
        name=statement.name,
        kind=KIND,
        columns=tuple(columns),
        primary_key=key,
        sql=statement.sql,
        dialect=dialect,
        options=options,
        depends_on=depends_on,
    )


def _rename_columns(statement: CreateSink, columns: list[RelationColumn]) -> list[RelationColumn]:
    """Return a view's columns under the names that a list after the table's name gives them."""
    if not statement.columns:
        return columns
    if len(statement.columns) != len(columns):
        message = f"{len(statement.columns)} columns for the {len(columns)} of the rows"
        hint = f"they are {', '.join(column.name for column in columns)}"
        raise _build_error(statement, statement.columns[0], message, hint)
    pairs = zip(columns, statement.columns, strict=True)
    return [msgspec.structs.replace(column, name=name) for column, name in pairs]


def _check_target(
    stored: StoredCatalog,
    statement: CreateSink,
    source: Relation,
    target: Relation,
    columns: list[RelationColumn],
    key: tuple[str, ...],
) -> None:
    """Raise SqlError if the rows of a view cannot be kept in a table."""

    def build_error(message: str, hint: str) -> SqlError:
        return _build_error(statement, statement.into or "", message, hint)

    upsert = statement.options.get("type", "append-only" if source.append_only else "upsert") == "upsert"
    if target.kind != "table":
        raise build_error(
            f"{target.name} is a {target.kind}, a sink writes INTO a table", "CREATE TABLE for it"
        )
    if target.append_only and upsert:
        raise build_error(
            f"table {target.name} is APPEND ONLY, and the sink updates rows", "give the table a PRIMARY KEY"
        )
    if upsert and ROW_ID in target.primary_key:
        message = (
            f"table {target.name} has no PRIMARY KEY, and the sink updates rows: it cannot know which rows"
        )
        hint = "give the table a PRIMARY KEY; or type = 'append-only' with force_append_only = true: deletions are left out"
        raise build_error(message, hint)
    if upsert and target.on_conflict == "ignore":
        message = f"table {target.name} keeps the first row of a key (ON CONFLICT DO NOTHING), and the sink updates rows"
        hint = "make the table without it; or type = 'append-only' with force_append_only = true: deletions are left out"
        raise build_error(message, hint)
    _check_columns(statement, source, target, columns)
    _check_key_clash(stored, statement, source, target, key)
    _check_ttl(statement, target)
    if target.name == source.name or source.name in _list_dependents(stored, target.name):
        raise build_error(
            f"{_format_source(source)} is computed from {target.name}: the sink would feed itself",
            "another table",
        )


def _check_columns(
    statement: CreateSink, source: Relation, target: Relation, columns: list[RelationColumn]
) -> None:
    """Raise SqlError if the columns of a view are not those that a table asks for."""

    def build_error(message: str, hint: str) -> SqlError:
        return _build_error(statement, statement.into or "", message, hint)

    known = {column.name: column for column in target.visible_columns}
    for column in columns:
        mine = known.get(column.name)
        if mine is None:
            hint = f"columns of {target.name} are {', '.join(known)}; select just those in the view"
            raise build_error(f"table {target.name} has no column {column.name}", hint)
        if mine.generated is not None:
            raise build_error(f"column {mine.name} of {target.name} is generated", "leave it out of the view")
        if mine.sql_type not in (None, column.visible_type):
            message = (
                f"column {column.name} is {column.visible_type} in {_format_source(source)} and {mine.sql_type} in "
                f"{target.name}"
            )
            raise build_error(message, f"CAST it to {mine.sql_type} in the view")
        if classify_conversion(to_arrow(column.type), to_arrow(mine.type)) is not ConversionVerdict.TAKEN:
            message = f"column {column.name} is {column.type} in {_format_source(source)} and {mine.type} in {target.name}"
            raise build_error(message, f"CAST it to {mine.type} in the view")
    for name, mine in known.items():
        if name in {column.name for column in columns} or mine.generated is not None:
            continue
        if not mine.nullable or mine.default is not None or mine.storage_name in target.primary_key:
            what = "a key column" if mine.storage_name in target.primary_key else "NOT NULL or has a DEFAULT"
            raise build_error(
                f"column {name} of {target.name} is {what}, but {_format_source(source)} has none",
                "select it",
            )
    if any(column.generated is not None for column in target.columns):
        raise build_error(
            f"table {target.name} has generated columns, which a sink cannot compute", "sink into another"
        )


def _check_ttl(statement: CreateSink, target: Relation) -> None:
    """Raise SqlError for a table in which a row takes the place of another with its key."""
    if target.unique_key != target.primary_key and ROW_ID not in target.primary_key:
        message = f"table {target.name} has a key and a watermark WITH TTL: a sink does not look for the row that is there"
        hint = "give the table no PRIMARY KEY, or leave WITH TTL out"
        raise _build_error(statement, statement.into or "", message, hint)


def _check_key_clash(
    stored: StoredCatalog,
    statement: CreateSink,
    source: Relation,
    target: Relation,
    key: tuple[str, ...],
) -> None:
    """Raise SqlError if two rows of a view could become one row of a table."""
    theirs = {column.name for column in target.columns if column.storage_name in target.primary_key}
    if (
        ROW_ID not in theirs
        and not is_one_row(source.name, stored.fragments)
        and (len(key) < len(source.primary_key) or not set(key) <= theirs)
    ):
        message = (
            f"two rows of {_format_source(source)} could become one row of {target.name}: its key ({', '.join(sorted(theirs))}) "
            f"lacks columns of the view's key ({', '.join(key) or 'hidden'})"
        )
        hint = "give the table a PRIMARY KEY that holds the view's key"
        raise _build_error(statement, statement.into or "", message, hint)


def _list_dependents(stored: StoredCatalog, name: str) -> Collection[str]:
    """Return everything that is computed from a table, through sinks into other tables too."""
    found: set[str] = set()
    queue = [name]
    while queue:
        for reader in stored.catalog.list_dependents(queue.pop()):
            relation = stored.catalog.get(reader)
            into = relation.options.get("into") if relation.kind == KIND else None
            for one in (reader, into):
                if one is not None and one not in found:
                    found.add(one)
                    queue.append(one)
    return found


def _check_reserved_names(statement: CreateSink, source: Relation, columns: list[RelationColumn]) -> None:
    clashing = {OPERATION, EPOCH} & {column.name for column in columns}
    if clashing:
        message = (
            f"{_format_source(source)} has a column {', '.join(clashing)}, the name that an upsert sink needs"
        )
        raise _build_error(statement, statement.source, message, "name the column otherwise in the view")


def _find_relation(catalog: Catalog, statement: CreateSink, name: str, what: str) -> Relation:
    found = catalog.relations.get(name)
    if found is None or (found.name.startswith("_") and name != sink_view_name(statement.name)):
        raise _build_error(statement, name, f"there is no {what} {name}", catalog.suggest_names(name))
    return found


def _find_sink(stored: StoredCatalog, name: str, sql: str) -> Relation:
    found = stored.catalog.relations.get(name)
    if found is None or found.kind != KIND:
        at = re.search(rf"\b{re.escape(name)}\b", sql, re.IGNORECASE)
        line, column = locate_character(sql, at.start() if at else 0)
        what = "there is no sink" if found is None else f"{name} is a {found.kind}, not a sink:"
        raise SqlError(
            f"{what} {name}", sql=sql, line=line, column=column, hint="SHOW SINKS lists what exists"
        )
    return found


def _build_error(statement: CreateSink, name: str, message: str, hint: str) -> SqlError:
    found = re.search(rf"\b{re.escape(name)}\b", statement.sql, re.IGNORECASE) if name else None
    line, column = locate_character(statement.sql, found.start() if found else 0)
    return SqlError(message, sql=statement.sql, line=line, column=column, hint=hint)


def _require_current(relation: Relation, base: Version) -> Precondition:
    source = find_sink_source(relation)
    needed = (
        RELATIONS.require_same(
            base, name, f"{name}, which the sink {relation.name} needs, was changed at the same time"
        )
        for name in relation.depends_on
    )
    return require_all(
        require_absent_relation(relation.name),
        *needed,
        require_same_computed(base, source, f"{source} was computed at the same time; try again"),
    )

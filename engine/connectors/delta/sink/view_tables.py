"""The Delta table that a view has beside it: a sink that the view's own statement makes, in one commit with the view."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

from engine.connectors.delta.sink.checks import prepare_delta_sink
from engine.connectors.sinks.ddl import build_sink_relation
from engine.errors import SqlError
from engine.hummock import Commit
from engine.meta.catalog.stored_catalog import (
    StoredCatalog,
    encode_entries,
    load_catalog,
    require_absent_relation,
    require_same_catalog,
)
from engine.meta.status.sinks import COPY, SinkState, encode_sink_state, list_copies, list_sinks
from engine.runtime.relations import resolve_relation
from engine.runtime.statement_context import StatementContext
from engine.runtime.statements.succession.begin import check_not_succeeded
from engine.sql.dialect import Dialect
from engine.sql.parsing.statement_errors import locate_character
from engine.sql.statements.ddl.sink_statements import CreateSink
from engine.sql.statements.options.delta_options import CONNECTOR, split_options, to_sink_option
from engine.sql.statements.options.option_text import render_literal, with_option
from engine.sql.statements.relation_renaming import quote_name
from engine.sql.statements.statement_types import Alter, CreateMaterializedView


def name_delta_sink(view: str) -> str:
    """Return the name of the sink that keeps a view's Delta table."""
    return f"{view}_delta"


def plan_delta_sink(
    statement: CreateMaterializedView, context: StatementContext
) -> Callable[[StoredCatalog], Commit]:
    """Return what makes, of the catalog with a new view in it, the part of the commit that makes the view's sink as well.

    It raises SqlError, at the place of the option, for what no sink can do; nothing is there then.
    """
    sink_statement = _build_statement(statement.name, statement.copy, statement.places, statement.sql)

    def build_commit(after: StoredCatalog) -> Commit:
        return _build_commit(sink_statement, after, context.dialect, context)

    return build_commit


def set_delta_table(statement: Alter, options: Mapping[str, str], context: StatementContext) -> str:
    """Let a view that is there keep a Delta table, as if its statement had said so; returns the sink's name.

    It is "" where the view may be missing and is.
    """
    store = context.store
    version = store.refresh()
    stored = load_catalog(version)
    if statement.if_exists and statement.name not in stored.catalog.relations:
        return ""
    view = resolve_relation(stored, "materialized view", statement.name, statement.sql)
    check_not_succeeded(version, view.name, statement.sql)
    said = {name: re.search(rf"\b{re.escape(name)}\b\s*=", statement.sql, re.IGNORECASE) for name in options}
    places = {name: found.start() for name, found in said.items() if found is not None}

    def build_error(message: str, hint: str) -> SqlError:
        line, column = locate_character(statement.sql, places.get(CONNECTOR, 0))
        return SqlError(message, sql=statement.sql, line=line, column=column, hint=hint)

    own, copy = split_options(options, places, statement.sql)
    if own:
        raise build_error(
            "the Delta table is set by itself", "set the other options by a statement of their own"
        )
    for sink in list_copies(stored, view.name):
        raise build_error(f"{view.name} keeps a Delta table already", f"DROP SINK {sink.name} first")
    sink_statement = _build_statement(view.name, copy, places, statement.sql)
    made = _build_commit(sink_statement, stored, view.dialect, context)
    text = view.sql
    for option, value in reversed(copy.items()):
        text = with_option(text, view.dialect, option, value)
    changed = msgspec.structs.replace(view, sql=text)
    catalog = dict(made.catalog) | encode_entries({view.name: changed}, {})
    store.commit(Commit(catalog=catalog, precondition=require_same_catalog(version)))
    return sink_statement.name


def _build_statement(view: str, copy: Mapping[str, str], places: Mapping[str, int], sql: str) -> CreateSink:
    """Return the statement that would make a view's sink by itself; places are those of the view's statement."""
    options = {to_sink_option(name): value for name, value in copy.items()}
    found = {to_sink_option(name): places[name] for name in copy if name in places}
    found.setdefault("url", found.get(CONNECTOR, 0))
    return CreateSink(name_delta_sink(view), view, None, options, found, False, sql)


def _build_commit(
    statement: CreateSink, stored: StoredCatalog, dialect: Dialect, context: StatementContext
) -> Commit:
    name, view = statement.name, statement.source
    if name in stored.catalog.relations:
        line, column = locate_character(statement.sql, statement.places["url"])
        message = f"the sink of the view's Delta table is {name}, and a {stored.catalog.get(name).kind} has that name"
        hint = "call the view otherwise; or leave connector out, and CREATE SINK under another name"
        raise SqlError(message, sql=statement.sql, line=line, column=column, hint=hint)
    relation = build_sink_relation(stored, statement, dialect, brings_hidden_keys=True)
    for other in list_sinks(stored):
        if other.options.get("url") == relation.options["url"]:
            line, column = locate_character(
                statement.sql, statement.places.get("path", statement.places["url"])
            )
            message = (
                f"sink {other.name} writes {relation.options['url']}, and the table is to be the view's own"
            )
            raise SqlError(message, sql=statement.sql, line=line, column=column, hint="name another path")
    relation = prepare_delta_sink(context.store.url, relation, statement, context.spark, alone=True)
    options = ", ".join(
        f"{option} = {render_literal(value, dialect)}" for option, value in statement.options.items()
    )
    text = f"CREATE SINK {quote_name(name, dialect)} FROM {quote_name(view, dialect)} WITH ({options})"
    relation = msgspec.structs.replace(relation, sql=text, options={**relation.options, COPY: "true"})
    catalog = encode_entries({name: relation}, {}) | encode_sink_state(name, SinkState())
    return Commit(catalog=catalog, precondition=require_absent_relation(name))

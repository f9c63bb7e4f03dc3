"""The Delta table that a view has beside it: a sink that the view's own statement makes, in one commit with the view."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

from engine.connectors.sinks.ddl import sink_relation
from engine.connectors.sinks.delta_checks import OpenSpark, checked_delta
from engine.errors import Conflict, SqlError
from engine.hummock import Commit, Hummock, Version
from engine.meta.catalog_store import StoredCatalog, catalog_unchanged, entries, load
from engine.meta.sinks import COPY, SinkState, copies_of, sinks, state_entry
from engine.runtime.relations import known
from engine.sql.dialect import Dialect
from engine.sql.parsing.refusals import line_and_column
from engine.sql.statements.copy_options import CONNECTOR, divided, of_sink
from engine.sql.statements.option_text import literal, with_option
from engine.sql.statements.renamed_text import written
from engine.sql.statements.sink_statements import CreateSink
from engine.sql.statements.statement_types import Alter, CreateMaterializedView


def copy_of(view: str) -> str:
    """Return the name of the sink that keeps a view's Delta table."""
    return f"{view}_delta"


def copy_beside(
    store_url: str, statement: CreateMaterializedView, dialect: Dialect, spark: OpenSpark
) -> Callable[[StoredCatalog], Commit]:
    """Return what makes, of the catalog with a new view in it, the part of the commit that makes the view's sink as well.

    It raises SqlError, at the place of the option, for what no sink can do; nothing is there then.
    """
    asked = _asked(statement.name, statement.copy, statement.places, statement.sql)

    def made(after: StoredCatalog) -> Commit:
        return _made(store_url, after, asked, dialect, spark)

    return made


def set_copy(store: Hummock, statement: Alter, options: Mapping[str, str], spark: OpenSpark) -> str:
    """Let a view that is there keep a Delta table, as if its statement had said so; returns the sink's name.

    It is "" where the view may be missing and is.
    """
    version = store.refresh()
    stored = load(version)
    if statement.if_exists and statement.name not in stored.catalog.relations:
        return ""
    view = known(stored, "materialized view", statement.name, statement.sql)
    said = {name: re.search(rf"\b{re.escape(name)}\b\s*=", statement.sql, re.IGNORECASE) for name in options}
    places = {name: found.start() for name, found in said.items() if found is not None}

    def refused(message: str, hint: str) -> SqlError:
        line, column = line_and_column(statement.sql, places.get(CONNECTOR, 0))
        return SqlError(message, sql=statement.sql, line=line, column=column, hint=hint)

    own, copy = divided(options, places, statement.sql)
    if own:
        raise refused("the Delta table is set by itself", "set the other options by a statement of their own")
    for sink in copies_of(stored, view.name):
        raise refused(f"{view.name} keeps a Delta table already", f"DROP SINK {sink.name} first")
    asked = _asked(view.name, copy, places, statement.sql)
    made = _made(store.url, stored, asked, view.dialect, spark)
    text = view.sql
    for option, value in reversed(copy.items()):
        text = with_option(text, view.dialect, option, value)
    changed = msgspec.structs.replace(view, sql=text)
    catalog = dict(made.catalog) | entries({view.name: changed}, {})
    store.commit(Commit(catalog=catalog, precondition=catalog_unchanged(version)))
    return asked.name


def _asked(view: str, copy: Mapping[str, str], places: Mapping[str, int], sql: str) -> CreateSink:
    """Return the statement that would make a view's sink by itself; places are those of the view's statement."""
    options = {of_sink(name): value for name, value in copy.items()}
    found = {of_sink(name): places[name] for name in copy if name in places}
    found.setdefault("url", found.get(CONNECTOR, 0))
    return CreateSink(copy_of(view), view, None, options, found, False, sql)


def _made(
    store_url: str, stored: StoredCatalog, asked: CreateSink, dialect: Dialect, spark: OpenSpark
) -> Commit:
    name, view = asked.name, asked.source
    if name in stored.catalog.relations:
        line, column = line_and_column(asked.sql, asked.places["url"])
        message = f"the sink of the view's Delta table is {name}, and a {stored.catalog.get(name).kind} has that name"
        hint = "call the view otherwise; or leave connector out, and CREATE SINK under another name"
        raise SqlError(message, sql=asked.sql, line=line, column=column, hint=hint)
    relation = sink_relation(stored, asked, dialect)
    for other in sinks(stored):
        if other.options.get("url") == relation.options["url"]:
            line, column = line_and_column(asked.sql, asked.places.get("path", asked.places["url"]))
            message = (
                f"sink {other.name} writes {relation.options['url']}, and the table is to be the view's own"
            )
            raise SqlError(message, sql=asked.sql, line=line, column=column, hint="name another path")
    relation = checked_delta(store_url, relation, asked, spark, alone=True)
    told = ", ".join(f"{option} = {literal(value, dialect)}" for option, value in asked.options.items())
    text = f"CREATE SINK {written(name, dialect)} FROM {written(view, dialect)} WITH ({told})"
    relation = msgspec.structs.replace(relation, sql=text, options={**relation.options, COPY: "true"})
    catalog = entries({name: relation}, {}) | state_entry(name, SinkState())
    return Commit(catalog=catalog, precondition=_absent(name))


def _absent(name: str) -> Callable[[Version], None]:
    def check(version: Version) -> None:
        if f"relation/{name}" in version.catalog:
            raise Conflict(f"{name} was created by another process at the same time")

    return check

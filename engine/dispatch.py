"""Which part of the engine carries a statement of a session out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import SparkSession

from engine.connectors.delta.sink.view_tables import name_delta_sink, plan_delta_sink, set_delta_table
from engine.connectors.landing.tables import TABLES, ensure_landing_tables
from engine.connectors.registry import CONNECTORS
from engine.connectors.resync import resync
from engine.connectors.sinks.ddl import alter_sink, build_own_view, create_sink
from engine.connectors.sinks.show import show_sinks
from engine.connectors.source_statements import as_pass_through
from engine.connectors.table_options import RETENTION_OF_ANY, check_table_options, locate_path_errors
from engine.errors import StorageError
from engine.hummock.monitoring.driver_traffic import track_rows, track_traffic
from engine.hummock.staged_store import StagedStore
from engine.meta.domains.domain import BACKGROUND
from engine.meta.status.sinks import list_copies
from engine.runtime.reads import query
from engine.runtime.relations import resolve_relation
from engine.runtime.spark.session import is_of_this_process
from engine.runtime.spark.shared_folders import is_in_this_process
from engine.runtime.statements.alter.alter import run_alter, run_comment
from engine.runtime.statements.create import relations, replace_view
from engine.runtime.statements.create.function import create_function
from engine.runtime.statements.create.replace_view import change_plain_view
from engine.runtime.statements.create.schema import change_schemas, resolve_schema
from engine.runtime.statements.drop import drop_relation, drop_relations, resolve_parts
from engine.runtime.statements.session.prepared_statements import resolve_execute, store_prepared
from engine.runtime.statements.session.set_variable import set_variable, show_variable
from engine.runtime.statements.session.statement_parser import parse_statement
from engine.runtime.statements.show.jobs import run_jobs_statement
from engine.runtime.statements.show.show import (
    describe_relation,
    explain_incremental,
    explain_statement,
    show_create,
    show_relations,
)
from engine.runtime.statements.show.watermarks import show_watermarks
from engine.runtime.statements.statement_errors import locate_errors
from engine.runtime.writes import dml
from engine.sql.statements import reader as st
from engine.sql.statements.options.delta_options import CONNECTOR
from engine.sql.statements.statement_types import Resync

if TYPE_CHECKING:
    from engine.session import Session


@dataclass(frozen=True)
class Dispatch:
    """Carries out the statements of one call of `Session.sql`; `build` and `policy` are that call's."""

    session: Session
    build: bool
    policy: str | None

    def run(self, statement: st.Statement) -> pa.Table | None:
        """Carry a statement out; what asks for something gives a table, and DML with RETURNING does."""
        self._make_system_tables(statement.sql)
        match statement:
            case st.Insert() | st.Update() | st.DeleteFrom():
                return self._write(statement)
            case st.Execute():
                session = self.session
                resolved = resolve_execute(
                    session.prepared, statement, session.settings, lambda: session.catalog
                )
                with locate_errors(resolved.sql, resolved):
                    return self.run(resolved)
            case st.Several():
                parts = resolve_parts(self.session.stored, statement)
                drops = [part for part in parts if isinstance(part, st.Drop)]
                if drops:
                    drop_relations(self.session.store, drops)
                for part in parts:
                    if not isinstance(part, st.Drop):
                        self.run(part)
            case (
                st.CreateSchema()
                | st.CreateTable()
                | st.CreateIndex()
                | st.CreateFunction()
                | st.CreateView()
                | st.CreateMaterializedView()
                | st.CreateSink()
            ):
                self._create(statement)
            case (
                st.Select()
                | st.Show()
                | st.ShowSinks()
                | st.ShowJobs()
                | st.ShowWatermarks()
                | st.CancelJobs()
                | st.ShowCreate()
                | st.ShowVariable()
                | st.Describe()
                | st.Explain()
            ):
                return self._run_query(statement)
            case _:
                self._alter(statement)
        return None

    def _make_system_tables(self, text: str) -> None:
        """Make the tables of the landing source that a statement names, before anything is in them."""
        store = self.session.store
        names = [table.name for table, _ in TABLES if table.name in text.lower()]
        if any(name not in store.version.tables for name in names):
            with suppress(StorageError):  # who may only read is told that there are none
                ensure_landing_tables(store)

    def _write(self, statement: st.Insert | st.Update | st.DeleteFrom) -> pa.Table | None:
        session = self.session
        spark, dialect = lambda: session.computing, session.dialect
        done = dml.run_write(session.store, session.stored, spark, statement, dialect, session.notice)
        if session.settings.is_on("rw_implicit_flush"):
            session.reflect(statement.table)
        return done

    def _run_query(self, statement: st.Statement) -> pa.Table | None:
        """Return what a statement asks for."""
        session = self.session
        store, stored, dialect = session.store, session.stored, session.dialect
        match statement:
            case st.Select():
                policy = self.policy or session.query_policy
                request = query.QueryRequest(statement.query, statement.sql, dialect, policy)
                with track_traffic(store.counters, "query"):
                    return track_rows(query.answer_query(store, stored, lambda: session.computing, request))
            case st.Show():
                return show_relations(stored, statement, lambda: session.computing, dialect)
            case st.ShowSinks():
                return show_sinks(store.refresh(), session.sinks.collect_errors(), store.clock())
            case st.ShowJobs() | st.CancelJobs():
                return run_jobs_statement(store, statement)
            case st.ShowWatermarks():
                return show_watermarks(store)
            case st.ShowCreate():
                return show_create(stored, statement, dialect)
            case st.ShowVariable():
                return show_variable(session.settings, statement)
            case st.Describe():
                return describe_relation(stored, statement, lambda: session.computing)
            case st.Explain(incremental=True):
                return explain_incremental(stored, session.computing, statement, dialect)
            case st.Explain():
                return explain_statement(stored, statement, dialect)
        raise AssertionError(statement)

    def _create(self, statement: st.Statement) -> None:
        """Make what CREATE says; with `build` a view has content when it returns."""
        session = self.session
        store, dialect = session.store, session.dialect
        match statement:
            case st.CreateSchema():
                change_schemas(store, statement, dialect)
            case st.CreateTable():
                self._create_table(statement)
            case st.CreateIndex():
                if relations.create_index(store, statement, dialect) and self.build:
                    table = session.catalog.get(statement.name).options["table"]
                    session.flush([table]).raise_for_errors()
            case st.CreateFunction():
                create_function(store, lambda: session.computing, statement, dialect)
            case st.CreateView():
                relations.create_view(store, statement, dialect)
            case st.CreateMaterializedView():
                self._create_materialized_view(statement)
            case st.CreateSink():
                make, spark = self._create_materialized_view, lambda: session.computing
                if create_sink(store, statement, dialect, make, spark) and self.build:
                    session.sinks.run([statement.source])

    def _create_table(self, statement: st.CreateTable) -> None:
        session = self.session
        spark, dialect = lambda: session.computing, session.dialect
        check_table_options(statement, any_retention=session.settings.is_on(RETENTION_OF_ANY))
        advice, build_companion = "", relations.build_no_companion
        if not relations.can_skip_create(
            session.catalog, statement.name, statement.if_not_exists, statement.sql
        ):
            if "connector" in statement.options:
                connector = CONNECTORS.find(statement.options["connector"])
                build_companion = connector.build_companion
                with locate_path_errors(statement):
                    statement = connector.resolve_columns(as_pass_through(statement, connector))
                    if session.reaches_out:
                        connector.check_reading(statement, spark)
                        connector.check_executors(statement, self._find_remote_spark)
                        advice = connector.give_advice(statement)
            with track_traffic(session.store.counters, f"statement {statement.name}"):
                relations.create_table(session.store, spark, statement, dialect, build_companion)
            session.notice(advice)

    def _find_remote_spark(self) -> SparkSession | None:
        """Return the Spark session if its tasks run elsewhere than in this process; a master's address tells without it."""
        if is_of_this_process(self.session.on_demand.target):
            return None
        computing = self.session.computing
        return None if is_in_this_process(computing) else computing

    def _create_materialized_view(self, statement: st.CreateMaterializedView) -> None:
        session = self.session
        statement = replace(statement, options={**session.settings.view_options(), **statement.options})
        spark, dialect = lambda: session.computing, session.dialect
        build_sink = plan_delta_sink(session.store.url, statement, dialect, spark) if statement.copy else None
        created = relations.create_materialized_view(session.store, spark, statement, dialect, build_sink)
        if created and build_sink is not None:
            session.notice(_format_delta_notice(name_delta_sink(statement.name), statement.name))
        elif build_sink is not None and not list_copies(session.stored, statement.name):
            session.notice(
                f"{statement.name} is there and keeps no Delta table; ALTER MATERIALIZED VIEW {statement.name} "
                "SET (connector = 'delta', path = …) gives it one"
            )
        if created and self.build and statement.options.get(BACKGROUND, "").lower() != "true":
            report = session.flush([statement.name])
            if report.failed:
                drop_relation(
                    session.store,
                    st.Drop("materialized view", statement.name, True, False, statement.sql),
                )
                report.raise_for_errors()

    def _alter(self, statement: st.Statement) -> None:
        """Alter or drop what exists, let views catch up, or set something of the session."""
        session = self.session
        match statement:
            case st.Flush():
                session.flush().raise_for_all()
            case st.Wait():
                session.wait(statement.views, seconds=statement.seconds)
            case st.Refresh():
                resolve_relation(session.stored, "materialized view", statement.name, statement.sql)
                session.flush([statement.name]).raise_for_errors()
            case st.DropSchema():
                change_schemas(session.store, statement, session.dialect)
            case st.Drop():
                drop_relation(session.store, statement)
            case st.AlterSink():
                alter_sink(session.store, statement)
            case st.Alter(action=st.SetOptions(options)) if CONNECTOR in options:
                sink = set_delta_table(session.store, statement, options, lambda: session.computing)
                session.notice(_format_delta_notice(sink, statement.name) if sink else "")
                if sink and self.build:
                    session.sinks.run([statement.name])
            case st.Alter(action=Resync()):
                stored = session.stored
                session.notice(resync(session.store, stored, statement, lambda: session.computing))
            case st.Alter():
                session.notice(run_alter(session.store, lambda: session.computing, statement))
            case st.Comment():
                run_comment(session.store, statement)
            case st.Use():
                path = resolve_schema(session.catalog, statement, session.dialect)
                session.settings.put("search_path", path)
            case st.Set():
                session.notice(set_variable(session.settings, statement))
            case st.Prepare() | st.Deallocate():
                store_prepared(session.prepared, statement)
            case st.IgnoredStatement():
                session.notice(statement.notice)
            case _:
                raise AssertionError(statement)


def alter_view(session: Session, text: str) -> bool:
    """Give a view that is there the query and options of a CREATE VIEW or CREATE MATERIALIZED VIEW.

    The rows of a materialized view stay, and so do views and sinks over it: the next flush brings the difference, and they
    follow it. False where that cannot be, and it would have to be made anew: its columns, key or partitions are others, its
    rows only come, or leave by a watermark. What reads a plain view is to be changed with it, see `together`.
    """
    statement = parse_statement(text, None, session.settings, lambda: session.catalog)
    with locate_errors(statement.sql, statement):
        if isinstance(statement, st.CreateView):
            change_plain_view(session.store, statement, session.dialect)
            return True
        assert isinstance(statement, st.CreateMaterializedView), statement
        statement = replace(statement, options={**session.settings.view_options(), **statement.options})
        return replace_view.change_view(session.store, lambda: session.computing, statement, session.dialect)


def alter_sink_query(session: Session, text: str) -> bool:
    """Let the view that a sink AS SELECT has for itself follow what it reads, which has changed; True for one without such.

    False where it would have to be made anew, with its sink.
    """
    statement = parse_statement(text, None, session.settings, lambda: session.catalog)
    assert isinstance(statement, st.CreateSink), statement
    if statement.query is None:
        return True
    own = build_own_view(statement, session.catalog.get(statement.source).options)
    with locate_errors(statement.sql, statement):
        return replace_view.change_view(session.store, lambda: session.computing, own, session.dialect)


@contextmanager
def commit_together(session: Session) -> Iterator[None]:
    """Let what is created, changed and dropped inside become visible in one commit; nothing of it where something is refused.

    Statements inside see each other. None of them writes rows, and views are computed by a later flush.
    """
    staged, before = StagedStore(session.store), session.store
    session.store = staged
    try:
        yield
    finally:
        session.store = before
    staged.land()


def _format_delta_notice(sink: str, view: str) -> str:
    return f"sink {sink} keeps the Delta table of {view}"

"""Which part of the engine carries a statement of a session out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import SparkSession

from engine.connectors.landing_tables import TABLES, ensure_tables
from engine.connectors.registry import CONNECTORS
from engine.connectors.resync import resync
from engine.connectors.sinks.copies import copy_beside, copy_of, set_copy
from engine.connectors.sinks.ddl import alter_sink, create_sink
from engine.connectors.sinks.show import show_sinks
from engine.connectors.source_statements import as_passed
from engine.connectors.table_options import RETENTION_OF_ANY, check_table_options, told_at_its_path
from engine.errors import StorageError
from engine.hummock.driver_traffic import held, traffic_of
from engine.hummock.staged import StagedStore
from engine.meta.domain import BACKGROUND
from engine.meta.sinks import copies_of
from engine.runtime.reads import query
from engine.runtime.relations import known
from engine.runtime.spark.session import is_of_this_process
from engine.runtime.spark.shared_folders import runs_here
from engine.runtime.statements import changed_view, ddl
from engine.runtime.statements.alter import alter, comment
from engine.runtime.statements.changed_view import change_plain_view
from engine.runtime.statements.create_function import create_function
from engine.runtime.statements.create_schema import change_schemas, checked_schema
from engine.runtime.statements.drop import checked_parts, drop, drop_all
from engine.runtime.statements.jobs import jobs
from engine.runtime.statements.prepared_statements import executed, keep
from engine.runtime.statements.set_variable import set_variable, show_variable
from engine.runtime.statements.show import describe, explain, explain_incremental, show, show_create
from engine.runtime.statements.statement_errors import told_at_its_place
from engine.runtime.statements.statement_reading import statement_of
from engine.runtime.statements.watermarks import show_watermarks
from engine.runtime.writes import dml
from engine.sql.statements import reader as st
from engine.sql.statements.copy_options import CONNECTOR
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
                meant = executed(session.prepared, statement, session.settings, lambda: session.catalog)
                with told_at_its_place(meant.sql, meant):
                    return self.run(meant)
            case st.Several():
                parts = checked_parts(self.session.stored, statement)
                drops = [part for part in parts if isinstance(part, st.Drop)]
                if drops:
                    drop_all(self.session.store, drops)
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
                return self._answer(statement)
            case _:
                self._change(statement)
        return None

    def _make_system_tables(self, text: str) -> None:
        """Make the tables of the landing source that a statement names, before anything is in them."""
        store = self.session.store
        names = [table.name for table, _ in TABLES if table.name in text.lower()]
        if any(name not in store.version.tables for name in names):
            with suppress(StorageError):  # who may only read is told that there are none
                ensure_tables(store)

    def _write(self, statement: st.Insert | st.Update | st.DeleteFrom) -> pa.Table | None:
        session = self.session
        spark, dialect = lambda: session.computing, session.dialect
        done = dml.run(session.store, session.stored, spark, statement, dialect, session.notice)
        if session.settings.is_on("rw_implicit_flush"):
            session.reflect(statement.table)
        return done

    def _answer(self, statement: st.Statement) -> pa.Table | None:
        """Return what a statement asks for."""
        session = self.session
        store, stored, dialect = session.store, session.stored, session.dialect
        match statement:
            case st.Select():
                policy = self.policy or session.query_policy
                asked = query.Question(statement.query, statement.sql, dialect, policy)
                with traffic_of(store.counters, "query"):
                    return held(query.select(store, stored, lambda: session.computing, asked))
            case st.Show():
                return show(stored, statement, lambda: session.computing, dialect)
            case st.ShowSinks():
                return show_sinks(store.refresh(), session.sinks.errors(), store.clock())
            case st.ShowJobs() | st.CancelJobs():
                return jobs(store, statement)
            case st.ShowWatermarks():
                return show_watermarks(store)
            case st.ShowCreate():
                return show_create(stored, statement, dialect)
            case st.ShowVariable():
                return show_variable(session.settings, statement)
            case st.Describe():
                return describe(stored, statement, lambda: session.computing)
            case st.Explain(incremental=True):
                return explain_incremental(stored, session.computing, statement, dialect)
            case st.Explain():
                return explain(stored, statement, dialect)
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
                if ddl.create_index(store, statement, dialect) and self.build:
                    table = session.catalog.get(statement.name).options["table"]
                    session.flush([table]).raise_for_errors()
            case st.CreateFunction():
                create_function(store, lambda: session.computing, statement, dialect)
            case st.CreateView():
                ddl.create_view(store, statement, dialect)
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
        advice = ""
        if not ddl.is_there(session.catalog, statement.name, statement.if_not_exists, statement.sql):
            if "connector" in statement.options:
                connector = CONNECTORS.named(statement.options["connector"])
                with told_at_its_path(statement):
                    statement = connector.with_columns(as_passed(statement, connector))
                    if session.reaches_out:
                        connector.check_reading(statement, spark)
                        connector.check_executors(statement, self._elsewhere)
                        advice = connector.advice(statement)
            with traffic_of(session.store.counters, f"statement {statement.name}"):
                ddl.create_table(session.store, spark, statement, dialect)
            session.notice(advice)

    def _elsewhere(self) -> SparkSession | None:
        """Return the Spark session if its tasks run elsewhere than in this process; a master's address tells without it."""
        if is_of_this_process(self.session.on_demand.target):
            return None
        computing = self.session.computing
        return None if runs_here(computing) else computing

    def _create_materialized_view(self, statement: st.CreateMaterializedView) -> None:
        session = self.session
        statement = replace(statement, options={**session.settings.view_options(), **statement.options})
        spark, dialect = lambda: session.computing, session.dialect
        beside = copy_beside(session.store.url, statement, dialect, spark) if statement.copy else None
        created = ddl.create_materialized_view(session.store, spark, statement, dialect, beside)
        if created and beside is not None:
            session.notice(_of_copy(copy_of(statement.name), statement.name))
        elif beside is not None and not copies_of(session.stored, statement.name):
            session.notice(
                f"{statement.name} is there and keeps no Delta table; ALTER MATERIALIZED VIEW {statement.name} "
                "SET (connector = 'delta', path = …) gives it one"
            )
        if created and self.build and statement.options.get(BACKGROUND, "").lower() != "true":
            report = session.flush([statement.name])
            if report.failed:
                drop(
                    session.store,
                    st.Drop("materialized view", statement.name, True, False, statement.sql),
                )
                report.raise_for_errors()

    def _change(self, statement: st.Statement) -> None:
        """Alter or drop what exists, let views catch up, or set something of the session."""
        session = self.session
        match statement:
            case st.Flush():
                session.flush().raise_for_all()
            case st.Wait():
                session.wait(statement.views, seconds=statement.seconds)
            case st.Refresh():
                known(session.stored, "materialized view", statement.name, statement.sql)
                session.flush([statement.name]).raise_for_errors()
            case st.DropSchema():
                change_schemas(session.store, statement, session.dialect)
            case st.Drop():
                drop(session.store, statement)
            case st.AlterSink():
                alter_sink(session.store, statement)
            case st.Alter(action=st.SetOptions(options)) if CONNECTOR in options:
                sink = set_copy(session.store, statement, options, lambda: session.computing)
                session.notice(_of_copy(sink, statement.name) if sink else "")
                if sink and self.build:
                    session.sinks.run([statement.name])
            case st.Alter(action=Resync()):
                stored = session.stored
                session.notice(resync(session.store, stored, statement, lambda: session.computing))
            case st.Alter():
                session.notice(alter(session.store, lambda: session.computing, statement))
            case st.Comment():
                comment(session.store, statement)
            case st.Use():
                path = checked_schema(session.catalog, statement, session.dialect)
                session.settings.put("search_path", path)
            case st.Set():
                session.notice(set_variable(session.settings, statement))
            case st.Prepare() | st.Deallocate():
                keep(session.prepared, statement)
            case st.Taken():
                session.notice(statement.notice)
            case _:
                raise AssertionError(statement)


def change_view(session: Session, text: str) -> bool:
    """Give a view that is there the query and options of a CREATE VIEW or CREATE MATERIALIZED VIEW.

    The rows of a materialized view stay, and so do views and sinks over it: the next flush brings the difference, and they
    follow it. False where that cannot be, and it would have to be made anew: its columns, key or partitions are others, its
    rows only come, or leave by a watermark. What reads a plain view is to be changed with it, see `together`.
    """
    statement = statement_of(text, None, session.settings, lambda: session.catalog)
    with told_at_its_place(statement.sql, statement):
        if isinstance(statement, st.CreateView):
            change_plain_view(session.store, statement, session.dialect)
            return True
        assert isinstance(statement, st.CreateMaterializedView), statement
        statement = replace(statement, options={**session.settings.view_options(), **statement.options})
        return changed_view.change_view(session.store, lambda: session.computing, statement, session.dialect)


@contextmanager
def together(session: Session) -> Iterator[None]:
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


def _of_copy(sink: str, view: str) -> str:
    return f"sink {sink} keeps the Delta table of {view}"

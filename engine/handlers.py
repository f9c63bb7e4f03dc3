"""Which handler carries a statement of a session out: a new statement is a file with its handler, and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa

from engine.connectors.landing.tables import TABLES, ensure_landing_tables
from engine.connectors.sinks.ddl import execute_alter_sink
from engine.connectors.sinks.show import execute_show_sinks
from engine.connectors.statements.alter import execute_alter
from engine.connectors.statements.create_table import execute_create_table
from engine.connectors.statements.create_view import execute_create_materialized_view, execute_create_sink
from engine.connectors.statements.drop import forget_dropped_sinks
from engine.errors import StorageError
from engine.hummock import Hummock
from engine.runtime.reads.query import execute_select
from engine.runtime.statement_context import StatementContext
from engine.runtime.statements.alter.alter import execute_comment
from engine.runtime.statements.create.function import execute_create_function
from engine.runtime.statements.create.relations import execute_create_index, execute_create_view
from engine.runtime.statements.create.schema import execute_create_schema, execute_drop_schema, execute_use
from engine.runtime.statements.drop import drop_relations, execute_drop, resolve_parts
from engine.runtime.statements.session.flush import execute_flush, execute_refresh, execute_wait
from engine.runtime.statements.session.prepared_statements import (
    execute_deallocate,
    execute_prepare,
    resolve_execute,
)
from engine.runtime.statements.session.set_variable import (
    execute_ignored,
    execute_set,
    execute_show_variable,
)
from engine.runtime.statements.show.jobs import execute_cancel_jobs, execute_show_jobs
from engine.runtime.statements.show.show import (
    execute_describe,
    execute_explain,
    execute_show,
    execute_show_create,
)
from engine.runtime.statements.show.watermarks import execute_show_watermarks
from engine.runtime.statements.statement_errors import locate_errors
from engine.runtime.subscriptions.statements import (
    execute_close_cursor,
    execute_create_subscription,
    execute_declare_cursor,
    execute_fetch_cursor,
    execute_show_cursors,
    execute_show_subscriptions,
)
from engine.runtime.writes.dml import execute_delete, execute_insert, execute_update
from engine.sql.statements import reader as st

Handler = Callable[[Any, StatementContext], pa.Table | None]
DROPPING = (st.CancelJobs, st.Drop, st.DropSchema, st.Several)
"""Statements that may take a sink away."""


def execute_statement(statement: st.Statement, context: StatementContext) -> pa.Table | None:
    """Carry a statement out; what asks for something gives a table, and DML with RETURNING does."""
    _make_system_tables(statement.sql, context.store)
    if isinstance(statement, DROPPING):
        with forget_dropped_sinks(context):
            return HANDLERS[type(statement)](statement, context)
    return HANDLERS[type(statement)](statement, context)


def execute_prepared(statement: st.Execute, context: StatementContext) -> pa.Table | None:
    """Run EXECUTE: the statement that was prepared, with its values."""
    prepared = resolve_execute(statement, context)
    with locate_errors(prepared.sql, prepared):
        return execute_statement(prepared, context)


def execute_several(statement: st.Several, context: StatementContext) -> None:
    """Run a statement about several relations: all are dropped by one commit, each is emptied by its own."""
    parts = resolve_parts(context.stored, statement)
    drops = [part for part in parts if isinstance(part, st.Drop)]
    if drops:
        drop_relations(context.store, drops)
    for part in parts:
        if not isinstance(part, st.Drop):
            execute_statement(part, context)


HANDLERS: Mapping[type[st.Statement], Handler] = {
    st.Alter: execute_alter,
    st.AlterSink: execute_alter_sink,
    st.CancelJobs: execute_cancel_jobs,
    st.CloseCursor: execute_close_cursor,
    st.Comment: execute_comment,
    st.CreateFunction: execute_create_function,
    st.CreateIndex: execute_create_index,
    st.CreateMaterializedView: execute_create_materialized_view,
    st.CreateSchema: execute_create_schema,
    st.CreateSink: execute_create_sink,
    st.CreateSubscription: execute_create_subscription,
    st.CreateTable: execute_create_table,
    st.CreateView: execute_create_view,
    st.Deallocate: execute_deallocate,
    st.DeclareCursor: execute_declare_cursor,
    st.DeleteFrom: execute_delete,
    st.Describe: execute_describe,
    st.Drop: execute_drop,
    st.DropSchema: execute_drop_schema,
    st.Execute: execute_prepared,
    st.Explain: execute_explain,
    st.FetchCursor: execute_fetch_cursor,
    st.Flush: execute_flush,
    st.IgnoredStatement: execute_ignored,
    st.Insert: execute_insert,
    st.Prepare: execute_prepare,
    st.Refresh: execute_refresh,
    st.Select: execute_select,
    st.Set: execute_set,
    st.Several: execute_several,
    st.Show: execute_show,
    st.ShowCreate: execute_show_create,
    st.ShowCursors: execute_show_cursors,
    st.ShowJobs: execute_show_jobs,
    st.ShowSinks: execute_show_sinks,
    st.ShowSubscriptions: execute_show_subscriptions,
    st.ShowVariable: execute_show_variable,
    st.ShowWatermarks: execute_show_watermarks,
    st.Update: execute_update,
    st.Use: execute_use,
    st.Wait: execute_wait,
}


def _make_system_tables(text: str, store: Hummock) -> None:
    """Make the tables of the landing source that a statement names, before anything is in them."""
    lowered = text.lower()
    names = [table.name for table, _ in TABLES if table.name in lowered]
    if any(name not in store.version.tables for name in names):
        with suppress(StorageError):  # who may only read learns that there are none
            ensure_landing_tables(store)

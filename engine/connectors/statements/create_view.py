"""CREATE MATERIALIZED VIEW, with the Delta table that it may keep, and CREATE SINK, which may have a view of its own."""

from __future__ import annotations

from dataclasses import replace

from engine.connectors.delta.sink.view_tables import name_delta_sink, plan_delta_sink
from engine.connectors.sinks.ddl import create_sink
from engine.meta.domains.domain import BACKGROUND
from engine.meta.status.sinks import list_copies
from engine.runtime.statement_context import StatementContext
from engine.runtime.statements.create.relations import create_materialized_view
from engine.runtime.statements.drop import drop_relation
from engine.sql.statements.ddl.sink_statements import CreateSink
from engine.sql.statements.statement_types import CreateMaterializedView, Drop


def execute_create_materialized_view(statement: CreateMaterializedView, context: StatementContext) -> None:
    """Create a materialized view; one whose content cannot be computed at once is not there."""
    session, store, name = context.session, context.store, statement.name
    statement = replace(statement, options={**context.settings.view_options(), **statement.options})
    build_sink = plan_delta_sink(statement, context) if statement.copy else None
    created = create_materialized_view(statement, context, build_sink)
    if created and build_sink is not None:
        session.notice(format_delta_notice(name_delta_sink(name), name))
    elif build_sink is not None and not list_copies(context.stored, name):
        session.notice(
            f"{name} is there and keeps no Delta table; ALTER MATERIALIZED VIEW {name} "
            "SET (connector = 'delta', path = …) gives it one"
        )
    if created and context.build and statement.options.get(BACKGROUND, "").lower() != "true":
        report = session.flush([name])
        if report.failed:
            drop_relation(store, Drop("materialized view", name, True, False, statement.sql))
            report.raise_for_errors()


def execute_create_sink(statement: CreateSink, context: StatementContext) -> None:
    """Create a sink, and deliver what it is to deliver first."""
    if create_sink(statement, context, execute_create_materialized_view) and context.build:
        context.session.sinks.run([statement.source])


def format_delta_notice(sink: str, view: str) -> str:
    """Return the notice of a view that keeps a Delta table from now on."""
    return f"sink {sink} keeps the Delta table of {view}"

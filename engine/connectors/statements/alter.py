"""ALTER of tables and views: what connectors do of it, everything else is of the relation alone."""

from __future__ import annotations

import dataclasses

from engine.connectors.delta.sink.view_tables import set_delta_table
from engine.connectors.resync import resync
from engine.connectors.statements.create_view import (
    format_delta_notice,
    replace_materialized_view,
    resync_materialized_view,
)
from engine.runtime.relations import build_name_error, resolve_relation
from engine.runtime.statement_context import StatementContext
from engine.runtime.statements.alter.alter import run_alter
from engine.runtime.statements.statement_errors import locate_errors
from engine.sql.statements.ddl.create import extract_query_text
from engine.sql.statements.options.delta_options import CONNECTOR
from engine.sql.statements.reader import parse_statement
from engine.sql.statements.statement_types import (
    Alter,
    ApproveQuery,
    CreateMaterializedView,
    ReplaceQuery,
    Resync,
    SetOptions,
)


def execute_alter(statement: Alter, context: StatementContext) -> None:
    """Run ALTER, and give the notice that there is to give."""
    notice = context.session.notice
    match statement.action:
        case SetOptions(options) if CONNECTOR in options:
            sink = set_delta_table(statement, options, context)
            notice(format_delta_notice(context.stored.catalog.get(sink), statement.name) if sink else "")
            if sink and context.build:
                context.session.sinks.run([statement.name])
        case ReplaceQuery(query):
            _replace_query(statement, query, context)
        case ApproveQuery():
            run_alter(statement, context)
            if context.build:
                context.session.flush([statement.name]).raise_for_errors()
        case Resync() if statement.kind == "materialized view":
            resync_materialized_view(statement, context)
        case Resync():
            notice(resync(statement, context))
        case _:
            notice(run_alter(statement, context))


def _replace_query(statement: Alter, query: str, context: StatementContext) -> None:
    """Run ALTER MATERIALIZED VIEW … AS: the statement that made the view, with the other query and the options of now."""
    stored = context.stored
    if statement.if_exists and statement.name not in stored.catalog.relations:
        return
    view = resolve_relation(stored, "materialized view", statement.name, statement.sql)
    if view.dialect != context.dialect:
        message = (
            f"{view.name} was made in the dialect {view.dialect}, and this session speaks {context.dialect}"
        )
        hint = f"open a session with dialect = '{view.dialect}', or CREATE OR REPLACE MATERIALIZED VIEW"
        raise build_name_error(message, view.name, statement.sql, hint)
    before = extract_query_text(view.sql, view.dialect)
    text = view.sql[: view.sql.rindex(before)] + query
    made = parse_statement(text, view.dialect)
    assert isinstance(made, CreateMaterializedView), made
    named = dataclasses.replace(made, name=view.name, options=dict(view.options))
    with locate_errors(text, named):
        replace_materialized_view(named, context)

"""ALTER of tables and views: what connectors do of it, everything else is of the relation alone."""

from __future__ import annotations

from engine.connectors.delta.sink.view_tables import set_delta_table
from engine.connectors.resync import resync
from engine.connectors.statements.create_view import format_delta_notice
from engine.runtime.statement_context import StatementContext
from engine.runtime.statements.alter.alter import run_alter
from engine.sql.statements.options.delta_options import CONNECTOR
from engine.sql.statements.statement_types import Alter, Resync, SetOptions


def execute_alter(statement: Alter, context: StatementContext) -> None:
    """Run ALTER, and give the notice that there is to give."""
    notice = context.session.notice
    match statement.action:
        case SetOptions(options) if CONNECTOR in options:
            sink = set_delta_table(statement, options, context)
            notice(format_delta_notice(sink, statement.name) if sink else "")
            if sink and context.build:
                context.session.sinks.run([statement.name])
        case Resync():
            notice(resync(statement, context))
        case _:
            notice(run_alter(statement, context))

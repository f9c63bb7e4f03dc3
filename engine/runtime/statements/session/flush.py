"""FLUSH, WAIT and REFRESH MATERIALIZED VIEW: statements that return when views are up to date."""

from __future__ import annotations

from engine.runtime.relations import resolve_relation
from engine.runtime.statement_context import StatementContext
from engine.sql.statements.session.session_statements import Flush, Refresh, Wait


def execute_flush(statement: Flush, context: StatementContext) -> None:
    """Run all that is pending; raises EpochFailed for what cannot be."""
    context.session.flush().raise_for_all()


def execute_wait(statement: Wait, context: StatementContext) -> None:
    """Return when views that are being created are whole."""
    context.session.wait(statement.views, seconds=statement.seconds)


def execute_refresh(statement: Refresh, context: StatementContext) -> None:
    """Bring a view and what it reads up to date."""
    resolve_relation(context.stored, "materialized view", statement.name, statement.sql)
    context.session.flush([statement.name]).raise_for_errors()

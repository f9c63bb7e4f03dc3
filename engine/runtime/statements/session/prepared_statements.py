"""PREPARE, EXECUTE and DEALLOCATE: what a session keeps is the text, and each EXECUTE reads it with its values."""

from __future__ import annotations

from engine.errors import SqlError
from engine.runtime.relations import build_name_error
from engine.runtime.statement_context import StatementContext
from engine.runtime.statements.session.statement_parser import parse_statement
from engine.sql.statements import reader as st
from engine.sql.statements.session.prepared import cast_values


def execute_prepare(statement: st.Prepare, context: StatementContext) -> None:
    """Keep a statement under its name; raises SqlError for a name that is taken."""
    prepared = context.session.prepared
    if statement.name in prepared:
        hint = f"DEALLOCATE {statement.name} first, or take another name"
        message = f"{statement.name} is prepared already"
        raise build_name_error(message, statement.name, statement.sql, hint)
    prepared[statement.name] = statement


def execute_deallocate(statement: st.Deallocate, context: StatementContext) -> None:
    """Forget a statement, or all; raises SqlError for a name that is not known."""
    prepared = context.session.prepared
    if statement.name is None:
        prepared.clear()
    elif prepared.pop(statement.name, None) is None:
        raise _build_unknown_error(statement.name, statement.sql)


def resolve_execute(statement: st.Execute, context: StatementContext) -> st.Statement:
    """Return the statement that EXECUTE means; raises SqlError with the place in it."""
    known = context.session.prepared.get(statement.name)
    if known is None:
        raise _build_unknown_error(statement.name, statement.sql)
    return parse_statement(known.text, cast_values(statement.values, known.types), context)


def _build_unknown_error(name: str, sql: str) -> SqlError:
    return build_name_error(f"{name} is not prepared", name, sql, "PREPARE it in this session")

"""PREPARE, EXECUTE and DEALLOCATE: what a session keeps is the text, and each EXECUTE reads it with its values."""

from __future__ import annotations

from collections.abc import Callable

from engine.errors import SqlError
from engine.runtime.relations import locate_name
from engine.runtime.statements.session.statement_parser import parse_statement
from engine.sql.catalog import Catalog
from engine.sql.statements import reader as st
from engine.sql.statements.session.prepared import cast_values
from engine.sql.statements.session.settings import SessionSettings


def store_prepared(prepared: dict[str, st.Prepare], statement: st.Prepare | st.Deallocate) -> None:
    """Keep a statement under its name, or forget it; raises SqlError for a name that is taken, or not known."""
    if isinstance(statement, st.Deallocate):
        if statement.name is None:
            prepared.clear()
        elif prepared.pop(statement.name, None) is None:
            raise _build_unknown_error(statement.name, statement.sql)
        return
    if statement.name in prepared:
        line, column = locate_name(statement.name, statement.sql)
        hint = f"DEALLOCATE {statement.name} first, or take another name"
        message = f"{statement.name} is prepared already"
        raise SqlError(message, sql=statement.sql, line=line, column=column, hint=hint)
    prepared[statement.name] = statement


def resolve_execute(
    prepared: dict[str, st.Prepare],
    statement: st.Execute,
    settings: SessionSettings,
    catalog: Callable[[], Catalog],
) -> st.Statement:
    """Return the statement that EXECUTE means; raises SqlError with the place in it."""
    known = prepared.get(statement.name)
    if known is None:
        raise _build_unknown_error(statement.name, statement.sql)
    return parse_statement(known.text, cast_values(statement.values, known.types), settings, catalog)


def _build_unknown_error(name: str, sql: str) -> SqlError:
    line, column = locate_name(name, sql)
    hint = "PREPARE it in this session"
    return SqlError(f"{name} is not prepared", sql=sql, line=line, column=column, hint=hint)

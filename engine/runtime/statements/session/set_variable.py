"""SET, RESET and SHOW of a session's settings, and what is a setting elsewhere; errors name the place in the statement."""

from __future__ import annotations

import pyarrow as pa

from engine.errors import SqlError
from engine.meta.epochs.query_policy import check_policy
from engine.runtime.relations import build_name_error
from engine.runtime.statement_context import StatementContext
from engine.sql.statements.session.session_statements import IgnoredStatement
from engine.sql.statements.session.settings import SessionSettings, WrongSetting, resolve_name
from engine.sql.statements.statement_types import Set, ShowVariable

LOCAL = "SET LOCAL has no effect: each statement is its own transaction; SET holds for the session"


def execute_set(statement: Set, context: StatementContext) -> None:
    """Run SET or RESET, and give the notice that there is to give."""
    context.session.notice(set_variable(context.settings, statement))


def execute_ignored(statement: IgnoredStatement, context: StatementContext) -> None:
    """Run a statement that has no meaning here: it gives a notice that says so."""
    context.session.notice(statement.notice)


def set_variable(settings: SessionSettings, statement: Set) -> str:
    """Run SET or RESET; returns the notice that there is to give, else "". Raises SqlError with the place."""
    if not statement.name:
        settings.reset()
        return ""
    try:
        value = statement.value
        if value is not None and resolve_name(statement.name) == "query_policy":
            value = _check_policy(value)
        if statement.local:
            SessionSettings().put(statement.name, value)
            return LOCAL
        return settings.put(statement.name, value)
    except WrongSetting as error:
        raise _build_error(error, statement.name, statement.sql) from error


def execute_show_variable(statement: ShowVariable, context: StatementContext) -> pa.Table:
    """Return the value of a setting under its name, or of all: name, setting, description. Raises SqlError with the place."""
    settings = context.settings
    if statement.name is None:
        names, values, texts = zip(*settings, strict=True)
        return pa.table({"name": names, "setting": values, "description": texts})
    try:
        return pa.table({statement.name.replace(" ", "_"): [settings[statement.name]]})
    except WrongSetting as error:
        raise _build_error(error, statement.name, statement.sql) from error


def _check_policy(value: str) -> str:
    try:
        return check_policy(value)
    except SqlError as error:
        raise WrongSetting(error.message, error.hint) from error


def _build_error(error: WrongSetting, name: str, sql: str) -> SqlError:
    return build_name_error(error.message, name, sql, error.hint)

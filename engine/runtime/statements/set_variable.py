"""SET, RESET and SHOW of a session's settings; errors name the place in the statement."""

from __future__ import annotations

import pyarrow as pa

from engine.errors import SqlError
from engine.meta.policy import check_policy
from engine.runtime.relations import place_of
from engine.sql.statements.settings import Settings, WrongSetting, known_name
from engine.sql.statements.statement_types import Set, ShowVariable

LOCAL = "SET LOCAL has no effect: each statement is a transaction of its own; SET holds for the session"


def set_variable(settings: Settings, statement: Set) -> str:
    """Run SET or RESET; returns the notice that there is to give, else "". Raises SqlError with the place."""
    if not statement.name:
        settings.reset()
        return ""
    try:
        value = statement.value
        if value is not None and known_name(statement.name) == "query_policy":
            value = _policy(value)
        if statement.local:
            Settings().put(statement.name, value)
            return LOCAL
        return settings.put(statement.name, value)
    except WrongSetting as error:
        raise _told(error, statement.name, statement.sql) from error


def show_variable(settings: Settings, statement: ShowVariable) -> pa.Table:
    """Return the value of a setting under its name, or of all: name, setting, description. Raises SqlError with the place."""
    if statement.name is None:
        names, values, texts = zip(*settings, strict=True)
        return pa.table({"name": names, "setting": values, "description": texts})
    try:
        return pa.table({statement.name.replace(" ", "_"): [settings[statement.name]]})
    except WrongSetting as error:
        raise _told(error, statement.name, statement.sql) from error


def _policy(value: str) -> str:
    try:
        return check_policy(value)
    except SqlError as error:
        raise WrongSetting(error.message, error.hint) from error


def _told(error: WrongSetting, name: str, sql: str) -> SqlError:
    line, column = place_of(name, sql)
    return SqlError(error.message, sql=sql, line=line, column=column, hint=error.hint)

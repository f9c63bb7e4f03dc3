"""What a session makes of a text: its statements, each with the values, schemas and case of names that it means."""

from __future__ import annotations

from collections.abc import Iterator

from engine.runtime.statement_context import StatementContext
from engine.runtime.statements.statement_errors import locate_errors
from engine.sql.schemas import parse_search_path
from engine.sql.statements import reader as st
from engine.sql.statements.session.parameters import Parameters
from engine.sql.statements.session.search_path import (
    qualify_names,
    qualify_text,
    rename_in_schema,
    strip_own_schema,
)
from engine.sql.statements.session.settings import SETTINGS
from engine.sql.statements.statement_names import fold_spark_names


def read_statements(
    text: str, parameters: Parameters | None, context: StatementContext
) -> Iterator[st.Statement]:
    """Yield the statements of a text, each as the session means it once those before it have run.

    Raises SqlError, with the place, for one of several that cannot be read, before any is yielded.
    """
    if parameters:
        yield parse_statement(text, parameters, context)
        return
    dialect = context.dialect
    with locate_errors(text):
        parts = st.split_statements(text, dialect)
    if len(parts) < 2:
        yield parse_statement(text, None, context)
        return
    read: list[st.Statement] = []
    for part in parts:
        with locate_errors(part):
            read.append(st.parse_statement(part, dialect))
        if isinstance(read[-1], st.Set) and read[-1].name == "dialect":
            break  # what follows is read in another one
    for number, part in enumerate(parts):
        if number < len(read) and context.dialect == dialect:
            yield _resolve_names(read[number], None, context)
        else:
            yield parse_statement(part, None, context)


def parse_statement(text: str, parameters: Parameters | None, context: StatementContext) -> st.Statement:
    """Return the one statement that a text is to a session; raises SqlError with the place."""
    with locate_errors(text):
        statement = st.parse_statement(text, context.dialect, parameters)
    return _resolve_names(statement, parameters, context)


def _resolve_names(
    statement: st.Statement, parameters: Parameters | None, context: StatementContext
) -> st.Statement:
    """Return a statement about the relations that its names mean in the session: by its search path, and case."""
    settings, dialect = context.settings, context.dialect
    if settings["search_path"] != SETTINGS["search_path"].default:
        known = context.read_catalog()
        path = parse_search_path(settings["search_path"], known, dialect)
        qualified = qualify_text(statement, path, known)
        with locate_errors(qualified):
            if qualified != statement.sql:
                statement = st.parse_statement(qualified, dialect, parameters)
            statement = qualify_names(statement, path, known)
    found: st.Statement = strip_own_schema(rename_in_schema(statement))
    return fold_spark_names(found, context.read_catalog) if dialect == "spark" else found

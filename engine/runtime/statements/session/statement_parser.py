"""What a session makes of a text: its statements, each with the values, schemas and case of names that it means."""

from __future__ import annotations

from engine.runtime.statement_context import StatementContext
from engine.runtime.statements.statement_errors import locate_errors
from engine.sql.dialect import Dialect
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


def split_statements(text: str, dialect: Dialect) -> list[str]:
    """Return the statements of a text; raises SqlError for one of several that cannot be read, before any is run."""
    with locate_errors(text):
        parts = st.split_statements(text, dialect)
    if len(parts) < 2:
        return [text]
    for part in parts:
        with locate_errors(part):
            statement = st.parse_statement(part, dialect)
        if isinstance(statement, st.Set) and statement.name == "dialect":
            break  # what follows is read in another one
    return parts


def parse_statement(text: str, parameters: Parameters | None, context: StatementContext) -> st.Statement:
    """Return the one statement that a text is to a session; raises SqlError with the place."""
    settings, dialect = context.settings, context.dialect
    with locate_errors(text):
        statement = st.parse_statement(text, dialect, parameters)
    if settings["search_path"] != SETTINGS["search_path"].default:
        known = context.read_catalog()
        path = parse_search_path(settings["search_path"], known, dialect)
        qualified = qualify_text(statement, path, known)
        with locate_errors(qualified):
            statement = qualify_names(st.parse_statement(qualified, dialect, parameters), path, known)
    found: st.Statement = strip_own_schema(rename_in_schema(statement))
    return fold_spark_names(found, context.read_catalog) if dialect == "spark" else found

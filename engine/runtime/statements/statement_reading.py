"""What a session makes of a text: its statements, each with the values, schemas and case of names that it means."""

from __future__ import annotations

from collections.abc import Callable

from engine.runtime.statements.statement_errors import told_at_its_place
from engine.sql.catalog import Catalog
from engine.sql.dialect import Dialect
from engine.sql.schemas import path_of
from engine.sql.statements import reader as st
from engine.sql.statements.parameters import Parameters
from engine.sql.statements.search_path import (
    names_in_path,
    renamed_in_its_schema,
    text_in_path,
    with_plain_names,
)
from engine.sql.statements.settings import SETTINGS, Settings
from engine.sql.statements.statement_names import in_sparks_case


def statements_of(text: str, dialect: Dialect) -> list[str]:
    """Return the statements of a text; raises SqlError for one of several that cannot be read, before any is run."""
    with told_at_its_place(text):
        parts = st.split(text, dialect)
    if len(parts) < 2:
        return [text]
    for part in parts:
        with told_at_its_place(part):
            statement = st.parse(part, dialect)
        if isinstance(statement, st.Set) and statement.name == "dialect":
            break  # what follows is read in another one
    return parts


def statement_of(
    text: str, parameters: Parameters | None, settings: Settings, catalog: Callable[[], Catalog]
) -> st.Statement:
    """Return the one statement that a text is to a session; raises SqlError with the place."""
    dialect = settings.dialect
    with told_at_its_place(text):
        statement = st.parse(text, dialect, parameters)
    if settings["search_path"] != SETTINGS["search_path"].default:
        known = catalog()
        path = path_of(settings["search_path"], known, dialect)
        written = text_in_path(statement, path, known)
        with told_at_its_place(written):
            statement = names_in_path(st.parse(written, dialect, parameters), path, known)
    found: st.Statement = with_plain_names(renamed_in_its_schema(statement))
    return in_sparks_case(found, catalog) if dialect == "spark" else found

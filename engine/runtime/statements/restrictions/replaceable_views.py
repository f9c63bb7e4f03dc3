"""CREATE OR REPLACE VIEW: which relations a plain view may take the place of."""

from __future__ import annotations

from engine.errors import SqlError
from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.runtime.relations import list_readers, locate_name
from engine.sql.batch.ad_hoc import query_views
from engine.sql.catalog import Relation
from engine.sql.statements.statement_types import CreateView


def check_replaceable(stored: StoredCatalog, before: Relation, statement: CreateView) -> None:
    """Raise SqlError if a relation cannot be replaced by a plain view: what reads it was planned with its text."""

    def build_error(message: str, hint: str) -> SqlError:
        line, column = locate_name(before.name, statement.sql)
        return SqlError(message, sql=statement.sql, line=line, column=column, hint=hint)

    if before.kind != "view":
        hint = f"DROP {before.kind.upper()} {before.name} first"
        raise build_error(f"{before.name} is a {before.kind}, not a view", hint)
    found = list_readers(stored, before.name)
    if found:
        message = f"{before.name} is read by {', '.join(found)}, which would keep its old text"
        raise build_error(message, f"DROP VIEW {before.name} CASCADE, and make them again")
    if before.name in query_views(statement.query, stored.catalog):
        raise build_error(f"{before.name} would read itself", "read what it reads")

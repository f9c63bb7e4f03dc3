"""What CREATE SOURCE asks of a statement and of its connector: rows that are not kept can be neither filled in nor looked up."""

from __future__ import annotations

from dataclasses import replace

from engine.connectors.contract.connector import Connector, StatementProblem
from engine.sql.statements.statement_types import CreateTable

_TABLE_HINT = "or CREATE TABLE … WITH (connector = …), which keeps the rows"


def as_pass_through(statement: CreateTable, connector: Connector) -> CreateTable:
    """Return the statement as that of a table that its connector would feed: with rows that only come it is APPEND ONLY."""
    return (
        replace(statement, append_only=connector.pass_through == "rows")
        if statement.pass_through
        else statement
    )


def validate_source(statement: CreateTable, connector: Connector) -> StatementProblem | None:
    """Return why a statement makes no source, None if it does."""
    if not connector.pass_through:
        message = (
            f"the connector {connector.name} needs the rows that came before, which a source does not keep"
        )
        return StatementProblem("", message, "CREATE TABLE … WITH (connector = …) keeps them")
    if connector.pass_through == "rows" and statement.primary_key:
        message = f"{statement.name} has a PRIMARY KEY, but nothing holds the keys that have come"
        return StatementProblem("", message, f"leave PRIMARY KEY out, {_TABLE_HINT}")
    for column in statement.columns:
        if column.default is not None or column.generated is not None:
            what = "has a DEFAULT" if column.default is not None else "is generated"
            message = f"column {column.name} {what}, but the rows of a source are read as they are"
            return StatementProblem("", message, f"compute it in a view over the source, {_TABLE_HINT}")
    return None

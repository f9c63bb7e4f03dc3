"""The sources that a script would make: each statement is read by itself, so that one that is refused hides no other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from engine.connectors.registry import CONNECTORS
from engine.connectors.source_statements import as_pass_through
from engine.connectors.table_options import RETENTION_OF_ANY, check_table_options, locate_path_errors
from engine.errors import TidelineError
from engine.runtime.statement_context import StatementContext
from engine.runtime.statements.create.relations import build_table_relation
from engine.runtime.statements.create.source_columns import build_source_relation
from engine.runtime.statements.session.set_variable import set_variable
from engine.runtime.statements.session.statement_parser import parse_statement
from engine.runtime.statements.statement_errors import locate_errors
from engine.sql.catalog import Relation
from engine.sql.statements import reader as st


class RejectedStatement(NamedTuple):
    """A statement that would not be run and why; `name` is "" where nobody can tell which table it would make."""

    number: int
    name: str
    connector: str
    why: str


def list_script_sources(text: str, context: StatementContext) -> Iterator[Relation | RejectedStatement]:
    """Yield each source that a script would make, and each of its statements that would be refused, in their order.

    Nothing is run but SET. Raises SqlError for a text that cannot be taken apart into statements.
    """
    settings = context.settings
    with locate_errors(text):
        parts = st.split_statements(text, settings.dialect)
    for number, part in enumerate(parts, 1):
        name = connector = ""
        try:
            statement = parse_statement(part, None, context)
            with locate_errors(statement.sql, statement):
                if isinstance(statement, st.Set):
                    set_variable(settings, statement)
                if not isinstance(statement, st.CreateTable) or statement.as_query is not None:
                    continue
                name, connector = statement.name, statement.options.get("connector", "")
                check_table_options(statement, any_retention=settings.is_on(RETENTION_OF_ANY))
                if not connector:
                    continue
                offered = CONNECTORS.find(connector)
                with locate_path_errors(statement):
                    made = offered.resolve_columns(as_pass_through(statement, offered))
                relation = build_table_relation(made, settings.dialect, made.columns, made.primary_key)
                relation = build_source_relation(relation) if made.pass_through else relation
        except TidelineError as error:
            yield RejectedStatement(number, name, connector, str(error))
        else:
            yield relation

"""The sources that a script would make: each statement is read by itself, so that one that is refused hides no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from engine.connectors.registry import CONNECTORS
from engine.connectors.source_statements import as_passed
from engine.connectors.table_options import RETENTION_OF_ANY, check_table_options, told_at_its_path
from engine.errors import TidelineError
from engine.runtime.statements.ddl import table_relation
from engine.runtime.statements.set_variable import set_variable
from engine.runtime.statements.source_columns import source_relation
from engine.runtime.statements.statement_errors import told_at_its_place
from engine.runtime.statements.statement_reading import statement_of
from engine.sql.catalog import Catalog, Relation
from engine.sql.statements import reader as st
from engine.sql.statements.settings import Settings


class Refused(NamedTuple):
    """A statement that would not be run and why; `name` is "" where nobody can tell which table it would make."""

    number: int
    name: str
    connector: str
    why: str


def declared_sources(
    text: str, settings: Settings, catalog: Callable[[], Catalog]
) -> Iterator[Relation | Refused]:
    """Yield each source that a script would make, and each of its statements that would be refused, in their order.

    Nothing is run but SET, for `settings`. Raises SqlError for a text that cannot be taken apart into statements.
    """
    with told_at_its_place(text):
        parts = st.split(text, settings.dialect)
    for number, part in enumerate(parts, 1):
        name = connector = ""
        try:
            statement = statement_of(part, None, settings, catalog)
            with told_at_its_place(statement.sql, statement):
                if isinstance(statement, st.Set):
                    set_variable(settings, statement)
                if not isinstance(statement, st.CreateTable) or statement.as_query is not None:
                    continue
                name, connector = statement.name, statement.options.get("connector", "")
                check_table_options(statement, any_retention=settings.is_on(RETENTION_OF_ANY))
                if not connector:
                    continue
                offered = CONNECTORS.named(connector)
                with told_at_its_path(statement):
                    made = offered.with_columns(as_passed(statement, offered))
                relation = table_relation(made, settings.dialect, made.columns, made.primary_key)
                relation = source_relation(relation) if made.passes else relation
        except TidelineError as error:
            yield Refused(number, name, connector, str(error))
        else:
            yield relation

"""`tideline sources`: what feeds tables, looked at before anything is made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli.layout import Column
from engine.cli.opening import session
from engine.cli.options import Output, Spark, Store
from engine.cli.printing import Format, Printing, print_listing
from engine.errors import SqlError

if TYPE_CHECKING:
    from engine.cli.standing import Listing
    from engine.connectors.source_trial import Finding
    from engine.session import Session
    from engine.sql.catalog import Relation

sources = typer.Typer(no_args_is_help=True, help="Say of what feeds tables whether it can be reached.")


@sources.callback()
def _sources() -> None:
    """Say of what feeds tables whether it can be reached."""


@sources.command("test", cls=Printing)
def test(
    name: Annotated[str | None, typer.Argument(help="A table that a connector feeds; default all.")] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", help="A file whose CREATE statements are tried, without running them."),
    ] = None,
    store: Store = "",
    output: Output = Format.table,
    dialect: Annotated[str, typer.Option(help="Of the file: spark, postgres or risingwave.")] = "spark",
    spark: Spark = "",
) -> None:
    """Say in words whether each source can be connected to, read and resumed; writes nothing, status 1 if one cannot."""
    from engine.connectors.source_trial import sources_of, try_source
    from engine.sql.dialect import DIALECTS, is_dialect

    if not is_dialect(dialect):
        raise SqlError(f'dialect "{dialect}" is unknown: use one of {", ".join(DIALECTS)}')
    with session(store, spark, dialect) as running:
        found = sources_of(running.catalog) if file is None else _written(running, file)
        if name is not None:
            found = tuple(one for one in found if one.name == name.lower())
            if not found:
                where = "the store" if file is None else str(file)
                raise SqlError(
                    f"there is no source {name} in {where}", hint="SHOW TABLES lists what there is"
                )
        findings = [(one, try_source(running.store, one, lambda: running.computing)) for one in found]
    print_listing(_listing(findings), output)
    if not all(each.works for _, several in findings for each in several):
        raise typer.Exit(1)


def _written(running: Session, file: Path) -> tuple[Relation, ...]:
    """Return the sources that the statements of a file would make."""
    from engine.connectors.delta_columns import with_columns
    from engine.connectors.source_trial import connector_of
    from engine.connectors.table_options import check_table_options
    from engine.runtime.statements.ddl import table_relation
    from engine.runtime.statements.statement_reading import statement_of, statements_of
    from engine.sql.statements.statement_types import CreateTable

    made = []
    for text in statements_of(file.read_text(encoding="utf-8-sig"), running.dialect):
        statement = statement_of(text, None, running.settings, lambda: running.catalog)
        if isinstance(statement, CreateTable) and statement.as_query is None:
            check_table_options(statement, any_retention=True)
            statement = with_columns(statement)
            columns, key = statement.columns, statement.primary_key
            made.append(table_relation(statement, running.dialect, columns, key))
    return tuple(one for one in made if connector_of(one))


def _listing(findings: Sequence[tuple[Relation, Sequence[Finding]]]) -> Listing:
    from engine.cli.standing import Listing
    from engine.connectors.source_trial import connector_of

    lines = [(one, each) for one, several in findings for each in several]
    columns = (
        Column("source", [one.name for one, _ in lines]),
        Column("connector", [connector_of(one) for one, _ in lines], rank=1),
        Column("asked", [each.asked for _, each in lines]),
        Column("answer", ["works" if each.works else "fails" for _, each in lines]),
    )
    records = [{"source": one.name, "connector": connector_of(one), **each._asdict()} for one, each in lines]
    return Listing(columns, [each.words for _, each in lines], records, "no connector feeds a table")

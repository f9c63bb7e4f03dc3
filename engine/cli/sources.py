"""`tideline sources`: what feeds tables, looked at before anything is made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from engine.cli.connections import open_session
from engine.cli.layout import TextColumn
from engine.cli.options import Output, Spark, Store
from engine.cli.printing import Format, PrintingCommand, print_listing
from engine.errors import SqlError

if TYPE_CHECKING:
    from engine.cli.listings.status import Listing
    from engine.connectors.script_sources import RejectedStatement
    from engine.connectors.source_trial import Finding
    from engine.session import Session
    from engine.sql.catalog import Relation

sources = typer.Typer(no_args_is_help=True, help="Say of what feeds tables whether it can be reached.")


@sources.callback()
def _sources() -> None:
    """Say of what feeds tables whether it can be reached."""


@sources.command("test", cls=PrintingCommand)
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
    from engine.connectors.sources import list_fed_tables
    from engine.sql.dialect import DIALECTS, is_dialect

    if not is_dialect(dialect):
        raise SqlError(f'dialect "{dialect}" is unknown: use one of {", ".join(DIALECTS)}')
    with open_session(store, spark, dialect) as running:
        found = list_fed_tables(running.catalog) if file is None else _read_declared_sources(running, file)
        if name is not None:
            found = tuple(one for one in found if one.name in (name.lower(), ""))
            if not found:
                where = "the store" if file is None else str(file)
                raise SqlError(
                    f"there is no source {name} in {where}", hint="SHOW TABLES lists what there is"
                )
        lines = [line for one in found for line in _describe_source(running, one)]
    print_listing(_build_listing(lines), output)
    if not all(line.finding.works for line in lines):
        raise typer.Exit(1)


class _SourceLine(NamedTuple):
    source: str
    connector: str
    finding: Finding


def _read_declared_sources(running: Session, file: Path) -> tuple[Relation | RejectedStatement, ...]:
    """Return the sources that the statements of a file would make, and the statements that would be refused."""
    from engine.connectors.script_sources import list_script_sources
    from engine.runtime.statement_context import StatementContext

    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise SqlError(f"{file} is no text in UTF-8: {error}", hint="save it as UTF-8") from error
    return tuple(list_script_sources(text, StatementContext.of(running)))


def _describe_source(running: Session, one: Relation | RejectedStatement) -> list[_SourceLine]:
    """Return what is found of a source, or why a statement makes none."""
    from engine.connectors.contract.connector import get_connector_name
    from engine.connectors.script_sources import RejectedStatement
    from engine.connectors.source_trial import Finding, try_source

    if isinstance(one, RejectedStatement):
        label = one.name or f"statement {one.number}"
        return [_SourceLine(label, one.connector, Finding("declare", False, one.why))]
    tried = try_source(running.store, one, running.open_spark)
    return [_SourceLine(one.name, get_connector_name(one), each) for each in tried]


def _build_listing(lines: Sequence[_SourceLine]) -> Listing:
    from engine.cli.listings.status import Listing

    columns = (
        TextColumn("source", [line.source for line in lines]),
        TextColumn("connector", [line.connector for line in lines], rank=1),
        TextColumn("asked", [line.finding.asked for line in lines]),
        TextColumn("answer", ["works" if line.finding.works else "fails" for line in lines]),
    )
    records = [
        {"source": line.source, "connector": line.connector, **line.finding._asdict()} for line in lines
    ]
    return Listing(columns, [line.finding.words for line in lines], records, "no connector feeds a table")

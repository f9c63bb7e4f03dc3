"""`tideline sources`: what feeds tables, looked at before anything is made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from engine.cli.layout import Column
from engine.cli.opening import session
from engine.cli.options import Output, Spark, Store
from engine.cli.printing import Format, Printing, print_listing
from engine.errors import SqlError

if TYPE_CHECKING:
    from engine.cli.standing import Listing
    from engine.connectors.declared_sources import Refused
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
    from engine.connectors.sources import fed_tables
    from engine.sql.dialect import DIALECTS, is_dialect

    if not is_dialect(dialect):
        raise SqlError(f'dialect "{dialect}" is unknown: use one of {", ".join(DIALECTS)}')
    with session(store, spark, dialect) as running:
        found = fed_tables(running.catalog) if file is None else _declared(running, file)
        if name is not None:
            found = tuple(one for one in found if one.name in (name.lower(), ""))
            if not found:
                where = "the store" if file is None else str(file)
                raise SqlError(
                    f"there is no source {name} in {where}", hint="SHOW TABLES lists what there is"
                )
        lines = [line for one in found for line in _lines(running, one)]
    print_listing(_listing(lines), output)
    if not all(line.finding.works for line in lines):
        raise typer.Exit(1)


class _Line(NamedTuple):
    source: str
    connector: str
    finding: Finding


def _declared(running: Session, file: Path) -> tuple[Relation | Refused, ...]:
    """Return the sources that the statements of a file would make, and the statements that would be refused."""
    from engine.connectors.declared_sources import declared_sources

    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise SqlError(f"{file} is no text in UTF-8: {error}", hint="save it as UTF-8") from error
    return tuple(declared_sources(text, running.settings, lambda: running.catalog))


def _lines(running: Session, one: Relation | Refused) -> list[_Line]:
    """Return what is found of a source, or why a statement makes none."""
    from engine.connectors.contract import connector_of
    from engine.connectors.declared_sources import Refused
    from engine.connectors.source_trial import Finding, try_source

    if isinstance(one, Refused):
        shown = one.name or f"statement {one.number}"
        return [_Line(shown, one.connector, Finding("declare", False, one.why))]
    tried = try_source(running.store, one, lambda: running.computing)
    return [_Line(one.name, connector_of(one), each) for each in tried]


def _listing(lines: Sequence[_Line]) -> Listing:
    from engine.cli.standing import Listing

    columns = (
        Column("source", [line.source for line in lines]),
        Column("connector", [line.connector for line in lines], rank=1),
        Column("asked", [line.finding.asked for line in lines]),
        Column("answer", ["works" if line.finding.works else "fails" for line in lines]),
    )
    records = [
        {"source": line.source, "connector": line.connector, **line.finding._asdict()} for line in lines
    ]
    return Listing(columns, [line.finding.words for line in lines], records, "no connector feeds a table")

"""`tideline sources`: what feeds tables, looked at before anything is made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from engine.cli.connections import open_session
from engine.cli.layout import TextColumn
from engine.cli.options import Output, Spark, Store
from engine.cli.printing import Format, PrintingCommand, escape_controls, format_json, print_listing
from engine.errors import SqlError

if TYPE_CHECKING:
    from engine.cli.listings.status import Listing
    from engine.connectors.contract.discovery import FoundTable
    from engine.connectors.script_sources import RejectedStatement
    from engine.connectors.source_trial import Finding
    from engine.session import Session
    from engine.sql.catalog import Relation

sources = typer.Typer(
    no_args_is_help=True, help="Look at what feeds tables, or could, before anything is made."
)


@sources.callback()
def _sources() -> None:
    """Look at what feeds tables, or could, before anything is made."""


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


@sources.command("discover")
def discover(
    place: Annotated[
        str,
        typer.Argument(
            help="A folder, s3://bucket/prefix, postgresql://role@host/database?schema=…, or kafka://host:9092."
        ),
    ],
    given: Annotated[
        list[str] | None,
        typer.Option("--with", help="An option that the address leaves open, as slot=shop; several times."),
    ] = None,
    keys: Annotated[
        list[str] | None,
        typer.Option("--key", help="The key of a table, as orders=id or lines=order,line; several times."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
) -> None:
    """Print the statements that would follow the tables at a place, with types and keys; nothing is written, here or there."""
    from engine.connectors.discovery import discover_tables

    named = {name: columns.split(",") for name, columns in _parse_options("--key", keys or []).items()}
    tables = discover_tables(place, _parse_options("--with", given or []), named)
    if as_json:
        typer.echo(format_json([_build_record(table) for table in tables]))
        return
    for line in _format_script(tables):
        typer.echo(escape_controls(line))
    waiting = sum(bool(table.list_needs()) for table in tables)
    about = f"{len(tables) or 'nothing'} found{f', of which {waiting} cannot be made yet' if waiting else ''}"
    hint = "; write them to a file, and try it: tideline sources test --file FILE" if tables else ""
    typer.echo(about + hint, err=True)


def _parse_options(option: str, given: Sequence[str]) -> dict[str, str]:
    found = dict[str, str]()
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise SqlError(f"{option} {text} names nothing", hint=f"write {option} name=value")
        found[name.strip().lower()] = value
    return found


def _build_record(table: FoundTable) -> dict[str, object]:
    columns = [column._asdict() for column in table.columns]
    known = {"name": table.name, "path": table.path, "columns": columns, "key": list(table.key)}
    said = {"needs": table.list_needs(), "notes": table.list_notes()}
    return {**known, "options": dict(table.options), **said, "statement": table.format_statement()}


def _format_script(tables: Sequence[FoundTable]) -> Iterator[str]:
    """Yield the statements of tables, what is to be known of each above it; what all of them need comes first."""
    shared = [need for need in tables[0].needs if all(need in one.needs for one in tables)] if tables else []
    shared = shared if len(tables) > 1 else []
    for need in shared:
        yield f"-- first: {need}"
    for table in tables:
        yield ""
        yield f"-- {table.path}"
        for note in table.list_notes():
            yield f"-- {note}"
        needs = [need for need in table.list_needs() if need not in shared]
        for need in needs:
            yield f"-- first: {need}"
        lines = table.format_statement().split("\n")  # other separators are characters of names
        yield from (f"-- {line}" for line in lines) if needs else lines


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

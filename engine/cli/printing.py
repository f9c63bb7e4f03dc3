"""What commands print: results and listings as a table, as CSV or as JSON."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import click
import msgspec
import typer

from engine.cli.layout import WIDE_ONLY, TextColumn, format_size, render_columns

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import RenderableType

    from engine.cli.listings.status import Listing
    from engine.hummock.compaction import CompactionReport
    from engine.hummock.metrics import Metrics
    from engine.hummock.monitoring.prices import Spending
    from engine.hummock.upkeep.gc import GcReport

UNKNOWN_WIDTH = 160  # columns of a listing that goes to a file or a pipe
RICH_WIDTH = 200
NULL = "NULL"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""Characters that would move the cursor or command the terminal: data come from anywhere."""


class Format(StrEnum):
    """How a result is printed."""

    table = "table"
    csv = "csv"
    json = "json"


class PrintingCommand(typer.core.TyperCommand):
    """A command that knows --json as another word for --format json."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; behind `--` nothing is an option."""
        end = args.index("--") if "--" in args else len(args)
        options = ["--format=json" if arg == "--json" else arg for arg in args[:end]]
        return super().parse_args(ctx, [*options, *args[end:]])


class SubscribeCommand(PrintingCommand):
    """A command that knows --full as another word for --since full."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; behind `--` nothing is an option."""
        end = args.index("--") if "--" in args else len(args)
        options = ["--since=full" if arg == "--full" else arg for arg in args[:end]]
        return super().parse_args(ctx, [*options, *args[end:]])


def find_output_width() -> int | None:
    """Return the cells of a line: COLUMNS, else the terminal's; None where the output is none."""
    if os.environ.get("COLUMNS", "").isdecimal() and int(os.environ["COLUMNS"]):
        return int(os.environ["COLUMNS"])
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def print_listing(listing: Listing, output: Format, *, wide: bool = False) -> None:
    """Print a listing: as much of it as fits, all of it with `wide`, its numbers as CSV or JSON."""
    if output is Format.json:
        typer.echo(format_json(listing.records))
    elif output is Format.csv:
        _write_csv(list(listing.records[0]) if listing.records else [], (r.values() for r in listing.records))
    else:
        for line in format_listing(listing, None if wide else find_output_width() or UNKNOWN_WIDTH):
            typer.echo(line)


def format_listing(listing: Listing, width: int | None) -> list[str]:
    """Return the lines of a listing: as much of it as fits in `width`, all of it where that is None."""
    if not listing.records:
        return [listing.empty]
    columns = listing.columns if width is None else [c for c in listing.columns if c.rank < WIDE_ONLY]
    footer = [listing.footer] if listing.footer else []
    return [*render_columns(columns, width, listing.notes), *footer]


def refuse_csv(output: Format) -> None:
    """Raise BadParameter where an answer of several tables is to be printed as one of CSV."""
    if output is Format.csv:
        raise typer.BadParameter("csv has room for one table, and this is several: take --json")


def print_table(result: pa.Table, output: Format) -> None:
    """Print a result to standard output."""
    from engine.arrow import as_rows, as_values

    if output is Format.csv:
        columns = [[_flatten(value) for value in as_values(column)] for column in result.columns]
        _write_csv(result.column_names, zip(*columns, strict=True))  # by place: two may have one name
    elif output is Format.json:
        typer.echo(format_json(as_rows(result)))
    else:
        for line in format_result(result, find_output_width()):
            typer.echo(line)


def format_result(result: pa.Table, width: int | None) -> Iterator[str]:
    """Yield a result as lines: a row a line if the rows fit in `width`, else a value a line."""
    import pyarrow as pa

    from engine.arrow import as_values

    if not result.num_columns:
        yield f"({result.num_rows:,} rows without columns)"
        return
    columns = []
    for at, field in enumerate(result.schema):
        kind = field.type
        numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        values = [format_cell(value) for value in as_values(result.column(at))]
        columns.append(TextColumn(field.name, values, right=numeric))
    if width is None or sum(c.width for c in columns) + 2 * (len(columns) - 1) <= width:
        yield from render_columns(columns, None)
        return
    label = max(len(column.name) for column in columns)
    for row in range(result.num_rows):
        yield f"── row {row + 1} ".ljust(min(width, 40), "─")
        for column in columns:
            yield f"{column.name:<{label}}  {column.values[row]}"


def show(what: RenderableType) -> None:
    """Print what has a form of its own."""
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else RICH_WIDTH).print(what)


def print_storage(now: Metrics, spent: Spending | None, output: Format) -> None:
    """Print files by level, bytes, history and requests of a store, and what its newest commits have cost."""
    from engine.hummock.monitoring.inspect import describe_metrics, report_spending

    if output is Format.json:
        report = {**msgspec.to_builtins(now), "spending": None if spent is None else report_spending(spent)}
        typer.echo(msgspec.json.encode(report).decode())
    elif output is Format.csv:
        names = ("level", "sub_levels", "files", "rows", "tombstones", "bytes")
        rows = [
            [table.name, *(getattr(level, name) for name in names)]
            for table in now.tables.values()
            for level in table.levels
        ]
        _write_csv(["table", *names], rows)
    else:
        show(describe_metrics(now, spent))


def format_compaction(report: CompactionReport) -> str:
    """Return what a compaction did, as a sentence."""
    if not report.done:
        return f"{report.table}: there is nothing to merge"
    return (
        f"{report.table}: {format_count(report.files_before, 'file')} of {format_size(report.bytes_before)} became "
        f"{format_count(report.files_after, 'file')} of "
        f"{format_size(report.bytes_after)} in {report.seconds:.1f} s"
    )


def format_collection(report: GcReport) -> str:
    """Return what a garbage collection did, or would do, as a sentence."""
    objects, manifests = (
        format_count(report.deleted_objects, "object"),
        format_count(report.deleted_manifests, "manifest"),
    )
    what = "would be deleted" if report.dry_run else "deleted"
    retained = format_count(report.kept_objects, "object")
    return f"{objects} of {format_size(report.deleted_bytes)} and {manifests} {what}; {retained} kept"


def format_count(number: int, what: str) -> str:
    """Return a number of things with their name."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _write_csv(names: Sequence[str], rows: Iterable[Iterable[Any]]) -> None:
    for row in (names, *rows):
        typer.echo(",".join(_format_csv_field(value) for value in row))


def _format_csv_field(value: object) -> str:
    """Return a value of CSV: texts in quotes, so that the empty one differs from null, which is nothing."""
    if value is None:
        return ""
    if isinstance(value, str):
        doubled = value.replace('"', '""')
        return f'"{doubled}"'
    return (
        str(value).lower()
        if isinstance(value, bool)
        else value.hex()
        if isinstance(value, bytes)
        else str(value)
    )


def format_json(value: object) -> str:
    """Return rows, or what holds some, as JSON: numbers plain, what JSON has no form for as its text."""
    return msgspec.json.Encoder(decimal_format="number", enc_hook=str).encode(value).decode()


def _flatten(value: object) -> object:
    return msgspec.json.encode(value, enc_hook=str).decode() if isinstance(value, list | dict) else value


def format_cell(value: object) -> str:
    """Return a value as a table of the terminal shows it; null is the word NULL."""
    match value:
        case None:
            return NULL
        case bool():
            return str(value).lower()
        case bytes():
            return value.hex()
        case list() | dict():
            text = str(_flatten(value))
        case _:
            text = str(value)
    return escape_controls(text)


def escape_controls(text: str) -> str:
    """Return a text in which characters that would command the terminal are written as they are escaped."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)

"""Why a row of a view is there: the row, the steps to the rows that make it, and these table by table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from engine.arrow import as_rows
from engine.cli.layout import TextColumn, render_columns
from engine.cli.printing import UNKNOWN_WIDTH, Format, find_output_width, format_json, format_result
from engine.hummock.epoch import format_epoch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.runtime.answers.why import RowOrigin
    from engine.sql.catalog import Relation


def parse_key(relation: Relation, words: Sequence[str]) -> Mapping[str, Any] | Sequence[Any]:
    """Return what the words of a call say of a row: values by column where all are column=value, else those of the key."""
    columns = {column.name for column in relation.columns if not column.hidden}
    pairs = [word.partition("=") for word in words]
    if words and all(equal and name in columns for name, equal, _ in pairs):
        return {name: parse_value(value) for name, _, value in pairs}
    return [parse_value(word) for word in words]


def parse_value(word: str) -> str | None:
    """Return a value as it was written, null for the word NULL."""
    return None if word == "NULL" else word


def print_origin(origin: RowOrigin, output: Format) -> None:
    """Print the answer as tables, or as one object of JSON."""
    if output is Format.json:
        typer.echo(format_json(build_record(origin)))
        return
    if output is Format.csv:
        raise typer.BadParameter("csv has room for one table, and this is several: take --json")
    width = find_output_width() or UNKNOWN_WIDTH
    typer.echo(f"{origin.view} at epoch {format_epoch(origin.epoch)}")
    for line in format_result(origin.row, width):
        typer.echo(line)
    steps = (
        TextColumn("in", [step.relation for step in origin.steps]),
        TextColumn("step", [step.operator for step in origin.steps]),
        TextColumn("rows", [f"{step.rows:,}" for step in origin.steps], right=True),
    )
    typer.echo("")
    for line in render_columns(steps, width, [step.text for step in origin.steps]):
        typer.echo(line)
    for name, rows in origin.sources.items():
        typer.echo(f"\n{name}: {rows.num_rows:,} {'row' if rows.num_rows == 1 else 'rows'}")
        for line in format_result(rows, width) if rows.num_rows else ():
            typer.echo(line)


def build_record(origin: RowOrigin) -> dict[str, Any]:
    """Return the answer as one object for programs."""
    return {
        "view": origin.view,
        "epoch": origin.epoch,
        "row": as_rows(origin.row)[0],
        "steps": [
            {"relation": step.relation, "operator": step.operator, "text": step.text, "rows": step.rows}
            for step in origin.steps
        ],
        "sources": {name: as_rows(rows) for name, rows in origin.sources.items()},
    }

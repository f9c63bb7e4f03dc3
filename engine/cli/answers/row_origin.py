"""Why a row of a view is there, or is not: the row, the steps to the rows that make it or to what loses it, and these rows."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import typer

from engine.arrow import as_rows
from engine.cli.layout import TextColumn, render_columns
from engine.cli.printing import (
    UNKNOWN_WIDTH,
    Format,
    find_output_width,
    format_cell,
    format_json,
    format_result,
    refuse_csv,
)
from engine.hummock.epoch import format_epoch

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from engine.runtime.answers.trace import TraceStep
    from engine.runtime.answers.why import RowOrigin
    from engine.runtime.answers.why_not import RowAbsence

MOST_SHOWN = 20
"""So many of the rows are shown that an operator decides by."""


def print_origin(origin: RowOrigin, output: Format) -> None:
    """Print the answer as tables, or as one object of JSON."""
    if output is Format.json:
        typer.echo(format_json(build_record(origin)))
        return
    refuse_csv(output)
    width = find_output_width() or UNKNOWN_WIDTH
    typer.echo(f"{origin.view} at epoch {format_epoch(origin.epoch)}")
    for line in format_result(origin.row, width):
        typer.echo(line)
    _print_steps(origin.steps, width)
    for name, rows in origin.sources.items():
        _print_rows(name, rows, width)


def print_absence(absence: RowAbsence, output: Format) -> None:
    """Print what keeps a row out of a view, and the rows that decide it, or one object of JSON."""
    if output is Format.json:
        typer.echo(format_json(build_absence_record(absence)))
        return
    refuse_csv(output)
    width = find_output_width() or UNKNOWN_WIDTH
    asked = ", ".join(f"{name} = {format_cell(value)}" for name, value in as_rows(absence.asked)[0].items())
    typer.echo(f"{absence.view} at epoch {format_epoch(absence.epoch)}")
    for line in textwrap.wrap(f"has no row with {asked}", width):
        typer.echo(line)
    for loss in absence.losses:
        for line in textwrap.wrap(f"{loss.operator} in {loss.relation}: {loss.reason}", width):
            typer.echo(line)
    _print_steps(absence.steps, width)
    for loss in absence.losses:
        if loss.rows.num_rows:
            shown = loss.rows.slice(0, MOST_SHOWN)
            more = f", {MOST_SHOWN} of them" if loss.rows.num_rows > MOST_SHOWN else ""
            _print_rows(f"{loss.operator} in {loss.relation}", shown, width, loss.rows.num_rows, more)


def _print_steps(steps: Sequence[TraceStep], width: int) -> None:
    columns = (
        TextColumn("in", [step.relation for step in steps]),
        TextColumn("step", [step.operator for step in steps]),
        TextColumn("rows", [f"{step.rows:,}" for step in steps], right=True),
    )
    typer.echo("")
    for line in render_columns(columns, width, [step.text for step in steps]):
        typer.echo(line)


def _print_rows(name: str, rows: pa.Table, width: int, count: int | None = None, more: str = "") -> None:
    number = rows.num_rows if count is None else count
    typer.echo(f"\n{name}: {number:,} {'row' if number == 1 else 'rows'}{more}")
    for line in format_result(rows, width) if rows.num_rows else ():
        typer.echo(line)


def build_record(origin: RowOrigin) -> dict[str, Any]:
    """Return the answer as one object for programs."""
    return {
        "view": origin.view,
        "epoch": origin.epoch,
        "row": as_rows(origin.row)[0],
        "steps": _build_step_records(origin.steps),
        "sources": {name: as_rows(rows) for name, rows in origin.sources.items()},
    }


def build_absence_record(absence: RowAbsence) -> dict[str, Any]:
    """Return what keeps a row out of a view as one object for programs."""
    return {
        "view": absence.view,
        "epoch": absence.epoch,
        "asked": as_rows(absence.asked)[0],
        "losses": [
            {
                "relation": loss.relation,
                "operator": loss.operator,
                "text": loss.text,
                "reason": loss.reason,
                "rows": as_rows(loss.rows.slice(0, MOST_SHOWN)),
            }
            for loss in absence.losses
        ],
        "steps": _build_step_records(absence.steps),
    }


def _build_step_records(steps: Sequence[TraceStep]) -> list[dict[str, Any]]:
    return [
        {"relation": step.relation, "operator": step.operator, "text": step.text, "rows": step.rows}
        for step in steps
    ]

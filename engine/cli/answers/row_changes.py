"""How rows changed: those of a table or view between two moments, and one row from epoch to epoch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import typer
from rich.cells import cell_len

from engine.arrow import as_rows, as_values
from engine.cli.layout import WIDE_ONLY, TextColumn, render_columns
from engine.cli.printing import (
    UNKNOWN_WIDTH,
    Format,
    find_output_width,
    format_cell,
    format_json,
    print_table,
    refuse_csv,
)
from engine.hummock.epoch import format_epoch, format_epoch_time
from engine.hummock.rows.ordering import identical_values, one_chunk

if TYPE_CHECKING:
    from engine.meta.epochs.commit_history import CommitRecord
    from engine.runtime.answers.blame import RowChange, RowHistory
    from engine.runtime.answers.diff import TableDiff

MOST_CHANGES = 20
"""So many rows or changes are printed, unless a caller asks for another number."""
COUNTS = ("rows_before", "rows_after", "inserted", "deleted", "updated", "unchanged")


def print_diff(diff: TableDiff, output: Format) -> None:
    """Print the counts and the rows that are held as tables, the rows alone as CSV, or all as one object of JSON."""
    if output is Format.json:
        typer.echo(format_json(build_diff_record(diff)))
        return
    left_out = diff.changed - diff.rows.num_rows
    more = f"{left_out:,} more changed rows are not shown: --rows N shows N of them"
    if output is Format.csv:
        print_table(diff.rows, output)
        if left_out:
            typer.echo(more, err=True)
        return
    width = find_output_width() or UNKNOWN_WIDTH
    if diff.is_pending:
        typer.echo(
            f"{diff.view} at epoch {format_epoch(diff.from_epoch)}, by its query and by its next one\n"
        )
    else:
        typer.echo(f"{diff.view} from epoch {format_epoch(diff.from_epoch)}")
        typer.echo(f"{' ' * len(diff.view)} to epoch   {format_epoch(diff.to_epoch)}\n")
    if diff.not_compared:
        typer.echo(f"not compared: {', '.join(diff.not_compared)}\n")
    counts = [TextColumn(name.replace("_", " "), [f"{getattr(diff, name):,}"], right=True) for name in COUNTS]
    for line in render_columns(counts, width):
        typer.echo(line)
    columns = {name: rows for name, rows in diff.changed_columns.items() if rows}
    if columns:
        changed = (
            TextColumn("column", list(columns)),
            TextColumn("rows updated", [f"{rows:,}" for rows in columns.values()], right=True),
        )
        typer.echo("")
        for line in render_columns(changed, width):
            typer.echo(line)
    if diff.rows.num_rows:
        typer.echo("")
        for line in _format_rows(_describe_rows(diff), width):
            typer.echo(line)
    if left_out:
        typer.echo(f"\n{more}")


def build_diff_record(diff: TableDiff) -> dict[str, Any]:
    """Return the answer as one object for programs."""
    return {
        "view": diff.view,
        "from_epoch": diff.from_epoch,
        "to_epoch": diff.to_epoch,
        "pending": diff.is_pending,
        **{name: getattr(diff, name) for name in COUNTS},
        "changed_columns": dict(diff.changed_columns),
        **({"not_compared": list(diff.not_compared)} if diff.is_pending else {}),
        "rows": as_rows(diff.rows),
    }


def _describe_rows(diff: TableDiff) -> list[TextColumn]:
    """Return what was inserted and deleted, and of updates the key and the cells that changed, `old -> new`.

    Where the key is hidden all cells are there: nothing else tells rows apart.
    """
    rows, names = diff.rows, list(diff.changed_columns)
    operations = [str(value) for value in as_values(rows.column(0))]
    found = [TextColumn("what", operations)]
    for at, name in enumerate(names, 1):
        new, old = rows.column(at), rows.column(at + len(names))
        same = identical_values(one_chunk(new), one_chunk(old))
        pairs = zip(operations, as_values(old), as_values(new), same, strict=True)
        hides = bool(diff.key) and name not in diff.key
        cells = [_describe_cell(what, old, new, same=same, hides=hides) for what, old, new, same in pairs]
        if any(cells) or not hides:
            found.append(TextColumn(name, cells))
    return found


def _describe_cell(operation: str, old: Any, new: Any, *, same: bool, hides: bool) -> str:
    if operation == "update" and not same:
        return f"{format_cell(old)} -> {format_cell(new)}"
    if operation == "update" and hides:
        return ""
    return format_cell(old if operation == "delete" else new)


def _format_rows(columns: Sequence[TextColumn], width: int) -> Iterator[str]:
    """Yield rows, a row a line if they fit, else a cell a line without those that are empty."""
    if sum(column.width for column in columns) + 2 * (len(columns) - 1) <= width:
        yield from render_columns(columns, None)
        return
    label = max(cell_len(column.name) for column in columns)
    for row, operation in enumerate(columns[0].values):
        yield f"── {operation} ".ljust(min(width, 40), "─")
        for column in columns[1:]:
            if column.values[row]:
                yield f"{column.name:<{label}}  {column.values[row]}"


def print_history(
    history: RowHistory, output: Format, *, rows: int = MOST_CHANGES, wide: bool = False
) -> None:
    """Print the newest changes of a row as a table, each with its cells below it, or all as one object of JSON."""
    if output is Format.json:
        typer.echo(format_json(build_history_record(history)))
        return
    refuse_csv(output)
    width = find_output_width() or UNKNOWN_WIDTH
    named = ", ".join(f"{name} = {format_cell(value)}" for name, value in history.key.items())
    typer.echo(f"{history.view} at epoch {format_epoch(history.epoch)}{': ' if named else ''}{named}")
    if history.known_from is None:
        typer.echo("all its changes are known")
    else:
        there = "the row was there" if history.first is not None else "there was no such row"
        known = format_epoch(history.known_from)
        typer.echo(f"known from epoch {known} on, when {there}; older changes are not kept")
    if not history.changes:
        typer.echo("no change since then")
        return
    changes = history.changes[:rows]
    left_out = len(history.changes) - len(changes)
    more = f"{left_out:,} older changes are not shown: --rows N shows N of them"
    columns = [
        TextColumn("epoch (UTC)", [format_epoch_time(change.epoch) for change in changes]),
        TextColumn("number", [str(change.epoch) for change in changes], rank=WIDE_ONLY),
        TextColumn("what", [change.operation for change in changes]),
        TextColumn("by", [describe_author(change) for change in changes]),
        TextColumn("committed (UTC)", [_format_commit_time(change.commit) for change in changes], rank=2),
    ]
    shown = columns if wide else [column for column in columns if column.rank < WIDE_ONLY]
    typer.echo("")
    notes = [describe_change(change) for change in changes]
    for line in render_columns(shown, None if wide else width, notes) if changes else ():
        typer.echo(line)
    if left_out:
        typer.echo(f"\n{more}" if changes else more)


def describe_change(change: RowChange) -> str:
    """Return the cells of a change: those that are others, or all of a row that came or went."""
    if change.old is not None and change.new is not None:
        cells = (
            f"{name} {format_cell(change.old[name])} -> {format_cell(change.new[name])}"
            for name in change.columns
        )
    else:
        row = change.new if change.old is None else change.old
        cells = (f"{name} {format_cell(value)}" for name, value in (row or {}).items())
    return ", ".join(cells)


def describe_author(change: RowChange) -> str:
    """Return who made a change, as far as manifests tell."""
    if change.cause != "write":
        return f"its {change.cause}"
    if change.commit is None:
        return "no longer recorded"
    if change.commit.domain is None:
        return "a write"
    mutation = "nothing" if change.commit.barrier is None else change.commit.barrier.mutation
    return f"domain {change.commit.domain}" + ("" if mutation == "nothing" else f" ({mutation})")


def _format_commit_time(commit: CommitRecord | None) -> str:
    return "" if commit is None else format_epoch_time(commit.epoch)


def build_history_record(history: RowHistory) -> dict[str, Any]:
    """Return the answer as one object for programs."""
    return {
        "view": history.view,
        "key": dict(history.key),
        "epoch": history.epoch,
        "known_from": history.known_from,
        "first": history.first,
        "row": history.row,
        "changes": [_build_change_record(change) for change in history.changes],
    }


def _build_change_record(change: RowChange) -> dict[str, Any]:
    commit = change.commit
    return {
        "epoch": change.epoch,
        "time": format_epoch_time(change.epoch),
        "operation": change.operation,
        "columns": list(change.columns),
        "old": change.old,
        "new": change.new,
        "cause": change.cause,
        "commit": None if commit is None else _build_commit_record(commit),
    }


def _build_commit_record(commit: CommitRecord) -> dict[str, Any]:
    barrier = commit.barrier
    return {
        "manifest": commit.manifest,
        "epoch": commit.epoch,
        "time": format_epoch_time(commit.epoch),
        "writer": commit.writer,
        "domain": commit.domain,
        "kind": None if barrier is None else barrier.kind,
        "mutation": None if barrier is None else barrier.mutation,
        "inputs_after": None if barrier is None else barrier.prev,
        "inputs_upto": None if barrier is None else barrier.curr,
    }

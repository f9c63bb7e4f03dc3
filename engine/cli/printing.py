"""What commands print: results as a table, as CSV or as JSON, and where things stand as such results."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.csv as pacsv
import typer
from rich.console import Console
from rich.table import Table

from engine.meta.creation import CREATED, Creation
from engine.meta.waits import Wait

if TYPE_CHECKING:
    from rich.console import RenderableType

    from engine.hummock.metrics import Metrics
    from engine.meta.partitions import PartitionStatus
    from engine.meta.status import RelationStatus

WIDE = 200  # columns of output that goes to a file or a pipe


class Format(StrEnum):
    """How a result is printed."""

    table = "table"
    csv = "csv"
    json = "json"


def print_table(result: pa.Table, output: Format) -> None:
    """Print a result to standard output."""
    if output is Format.csv:
        pacsv.write_csv(result, sys.stdout.buffer)
        sys.stdout.flush()
    elif output is Format.json:
        typer.echo(result.to_pandas().to_json(orient="records", date_format="iso"))
    else:
        shown = Table(show_edge=False)
        for name, kind in zip(result.column_names, result.schema.types, strict=True):
            numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
            shown.add_column(name, justify="right" if numeric else "left", overflow="fold")
        for row in result.to_pylist():
            shown.add_row(*("" if value is None else str(value) for value in row.values()))
        Console(soft_wrap=not sys.stdout.isatty()).print(shown)


def show(what: RenderableType) -> None:
    """Print what has a form of its own."""
    Console(width=None if sys.stdout.isatty() else WIDE).print(what)


def print_storage(now: Metrics, output: Format) -> None:
    """Print files by level, bytes, history and requests of a store."""
    from engine.hummock.inspect import describe_metrics

    if output is Format.json:
        typer.echo(msgspec.json.encode(now).decode())
    elif output is Format.csv:
        levels = [(table.name, level) for table in now.tables.values() for level in table.levels]
        found = {"table": pa.array([name for name, _ in levels], pa.string())}
        for column in ("level", "sub_levels", "files", "rows", "tombstones", "bytes"):
            found[column] = pa.array([getattr(level, column) for _, level in levels], pa.int64())
        print_table(pa.table(found), output)
    else:
        show(describe_metrics(now))


def statuses_table(found: Sequence[RelationStatus]) -> pa.Table:
    """Return where tables, views and sinks stand, one a row."""
    rows = [
        {
            "name": s.name,
            "kind": s.kind,
            "epoch": s.committed_epoch,
            "frontier": s.frontier,
            "lag_seconds": round(s.lag_seconds, 1),
            "rows": s.rows,
            "bytes": s.bytes,
            "files": s.files,
            "last_error": s.last_error,
        }
        for s in found
    ]
    names = ["name", "kind", "epoch", "frontier", "lag_seconds", "rows", "bytes", "files", "last_error"]
    return pa.table({name: [row[name] for row in rows] for name in names})


def waits_table(found: Sequence[Wait]) -> pa.Table:
    """Return what lags, why, and until when."""
    columns = {
        "domain": [wait.domain for wait in found],
        "kind": [wait.kind for wait in found],
        "since_utc": [_clock(wait.since) for wait in found],
        "until_utc": [_clock(wait.until) or "the next run" for wait in found],
        "reason": [wait.reason for wait in found],
    }
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})


def backfills_table(found: Mapping[str, Creation], lags: Mapping[str, float]) -> pa.Table:
    """Return how far the backfills are, by domain; `lags` in seconds."""
    rows = [
        {
            "domain": name,
            "phase": creation.state if creation.state != CREATED else "consume_upstream",
            "epoch": creation.epoch,
            "rows": creation.rows,
            "of_about": creation.total,
            "rows_per_second": round(creation.rate),
            "seconds_left": None if creation.state == CREATED else creation.remaining_seconds,
            "lag_seconds": round(lags.get(name, 0.0), 1),
        }
        for name, creation in found.items()
    ]
    kinds = {
        "domain": pa.string(),
        "phase": pa.string(),
        "seconds_left": pa.float64(),
        "lag_seconds": pa.float64(),
    }
    names = ["domain", "phase", "epoch", "rows", "of_about", "rows_per_second", "seconds_left", "lag_seconds"]
    schema = pa.schema([(name, kinds.get(name, pa.int64())) for name in names])
    return pa.Table.from_pylist(rows, schema=schema)


def partitions_table(found: Sequence[PartitionStatus]) -> pa.Table:
    """Return where the partitions of a view stand."""
    columns = {
        "partition": pa.array([one.partition for one in found], pa.string()),
        "epoch": pa.array([one.epoch for one in found], pa.int64()),
        "error": pa.array([one.error for one in found], pa.string()),
        "attempts": pa.array([one.attempts for one in found], pa.int64()),
        "retry_at_utc": pa.array([_clock(one.retry_at) for one in found], pa.string()),
    }
    return pa.table(columns)


def _clock(seconds: float | None) -> str:
    return "" if seconds is None else time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))

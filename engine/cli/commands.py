"""The console script `tideline`; one clear sentence and status 1 when something is wrong."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import pyarrow as pa
import pyarrow.csv as pacsv
import typer
from rich.console import Console
from rich.table import Table

from engine.errors import TidelineError
from engine.meta.creation import CREATED, Creation
from engine.meta.waits import GOING_ON, Wait

if TYPE_CHECKING:
    from rich.console import RenderableType

    from engine.hummock import Hummock
    from engine.hummock.metrics import Metrics

WIDE = 200  # columns of output that goes to a file or a pipe

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Tideline keeps SQL views up to date.")


class Format(StrEnum):
    """How a result is printed."""

    table = "table"
    csv = "csv"
    json = "json"


def default_store() -> str:
    """Return TIDELINE_STORE, or the store in the project folder."""
    home = Path(os.environ.get("TIDELINE_HOME", "."))
    return os.environ.get("TIDELINE_STORE") or (home.resolve() / ".tideline" / "store").as_uri()


Store = Annotated[str, typer.Option("--store", help="Address of the store; default TIDELINE_STORE.")]
Output = Annotated[Format, typer.Option("--format", help="How the result is printed.")]


@app.command()
def init(store: Store = "") -> None:
    """Create an empty store, or check that an existing one opens."""
    from engine.hummock import Hummock

    with Hummock.open(store or default_store()) as opened:
        typer.echo(f"store {opened.url}: {len(opened.version.tables)} tables")


@app.command()
def sql(
    text: Annotated[str, typer.Argument(help="One or more statements.")],
    store: Store = "",
    output: Output = Format.table,
    dialect: Annotated[str, typer.Option(help="spark, postgres or risingwave.")] = "spark",
    spark: Annotated[
        str, typer.Option(help="A master's address or sc://host:port; default SPARK_REMOTE, else local[*].")
    ] = "",
) -> None:
    """Run SQL statements and print their results."""
    from engine.session import Session
    from engine.sql.statements import split

    with Session(store or default_store(), spark or None, dialect) as session:  # type: ignore[arg-type]
        for statement in split(text, dialect):
            result = session.sql(statement)
            if result is not None:
                _print(result, output)


@app.command()
def status(
    store: Store = "",
    output: Output = Format.table,
    waits: Annotated[bool, typer.Option("--waits", help="Show what lags, why, and until when.")] = False,
    storage: Annotated[
        bool, typer.Option("--storage", help="Show files by level, bytes, history, requests.")
    ] = False,
) -> None:
    """Show where every table and view stands: epoch, frontier, lag, rows, bytes, files, last error."""
    if storage:
        _print_storage(store or default_store(), output)
        return
    from engine.session import Session

    with Session(store or default_store()) as session:
        if waits:
            _print(_waits_table(session.waits()), output)
            return
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
            for s in session.status()
        ]
    names = ["name", "kind", "epoch", "frontier", "lag_seconds", "rows", "bytes", "files", "last_error"]
    _print(pa.table({name: [row[name] for row in rows] for name in names}), output)


def _print_storage(url: str, output: Format) -> None:
    from engine.hummock import Hummock
    from engine.hummock.inspect import describe_metrics

    with Hummock.open(url, create=False) as opened:
        now = opened.metrics()
    if output is Format.json:
        typer.echo(msgspec.json.encode(now).decode())
    elif output is Format.csv:
        levels = [(table.name, level) for table in now.tables.values() for level in table.levels]
        found = {"table": pa.array([name for name, _ in levels], pa.string())}
        for column in ("level", "sub_levels", "files", "rows", "tombstones", "bytes"):
            found[column] = pa.array([getattr(level, column) for _, level in levels], pa.int64())
        _print(pa.table(found), output)
    else:
        _show(describe_metrics(now))


def _waits_table(found: Sequence[Wait]) -> pa.Table:
    columns = {
        "domain": [wait.domain for wait in found],
        "kind": [wait.kind for wait in found],
        "since_utc": [_clock(wait.since) for wait in found],
        "until_utc": [_clock(wait.until) or "the next run" for wait in found],
        "reason": [wait.reason for wait in found],
    }
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})


@app.command()
def backfill(
    store: Store = "",
    output: Output = Format.table,
    run: Annotated[bool, typer.Option("--run", help="Go on until every view is created.")] = False,
    spark: Annotated[str, typer.Option(help="Master or sc:// address; default local[*].")] = "",
) -> None:
    """Show how far the snapshot backfills of new views are: rows, rate, lag, estimated end."""
    from engine.session import Session

    with Session(store or default_store(), spark or None) as session:
        while run and (going_on := [w for w in session.waits() if w.kind in GOING_ON]):
            session.flush([name for wait in going_on for name in session.members(wait.domain)])
            for wait in session.waits():
                typer.echo(f"{wait.domain}: {wait.reason}", err=True)
        _print(
            _backfills_table(session.backfills(), {s.name: s.lag_seconds for s in session.status()}), output
        )


def _backfills_table(found: Mapping[str, Creation], lags: Mapping[str, float]) -> pa.Table:
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


ViewName = Annotated[str, typer.Argument(help="A materialized view; its whole domain follows.")]


@app.command()
def pause(view: ViewName, store: Store = "") -> None:
    """Let a view rest from its next barrier on; what reads it waits and says so."""
    from engine.session import Session

    with Session(store or default_store()) as session:
        session.pause(view)
    typer.echo(f"{view}: pause is queued, the next run takes it")


@app.command()
def resume(view: ViewName, store: Store = "") -> None:
    """Let a paused view go on."""
    from engine.session import Session

    with Session(store or default_store()) as session:
        session.resume(view)
    typer.echo(f"{view}: resume is queued, the next run takes it")


@app.command()
def throttle(
    view: ViewName,
    rows_per_second: Annotated[str, typer.Argument(help="Rows a second, 0 to pause, or default.")],
    store: Store = "",
) -> None:
    """Change the rate limit of a view's backfill while it runs."""
    from engine.session import Session

    with Session(store or default_store()) as session:
        session.sql(f"ALTER MATERIALIZED VIEW {view} SET (backfill_rate_limit = '{rows_per_second}')")
    typer.echo(f"{view}: throttle to {rows_per_second} is queued, the next step takes it")


@app.command()
def wait(
    views: Annotated[list[str] | None, typer.Argument(help="Materialized views; default all.")] = None,
    store: Store = "",
    seconds: Annotated[float, typer.Option(help="Give up after so long, with the reasons.")] = 3600.0,
) -> None:
    """Return when views that are being created are whole."""
    from engine.session import Session

    with Session(store or default_store()) as session:
        session.wait(views or (), seconds=seconds)


@app.command()
def partitions(
    view: Annotated[str, typer.Argument(help="A view that is cut into partitions.")],
    store: Store = "",
    output: Output = Format.table,
) -> None:
    """Show where the partitions of a view stand, those in quarantine first: epoch, error, attempts, next try."""
    from engine.session import Session

    with Session(store or default_store()) as session:
        found = session.partitions(view)
    columns = {
        "partition": pa.array([one.partition for one in found], pa.string()),
        "epoch": pa.array([one.epoch for one in found], pa.int64()),
        "error": pa.array([one.error for one in found], pa.string()),
        "attempts": pa.array([one.attempts for one in found], pa.int64()),
        "retry_at_utc": pa.array([_clock(one.retry_at) for one in found], pa.string()),
    }
    _print(pa.table(columns), output)


@app.command()
def materialize(
    view: Annotated[str, typer.Argument(help="A view.")],
    partition: Annotated[
        list[str] | None,
        typer.Option("--partition", help="Compute this one again from the inputs; repeatable."),
    ] = None,
    store: Store = "",
    spark: Annotated[str, typer.Option(help="Master or sc:// address; default local[*].")] = "",
) -> None:
    """Bring a view up to date; with --partition compute just those partitions again and commit the difference."""
    from engine.session import Session

    with Session(store or default_store(), spark or None) as session:
        report = session.materialize(view, partition or None)
    done = next(one for one in report.views if one.view.lower() == view.lower())
    typer.echo(
        f"{done.view} at epoch {done.epoch}: {done.inserted} rows inserted, {done.updated} updated, {done.deleted} deleted; of "
        f"partitions computed again {done.partition_rows_read} rows read, {done.partition_rows_written} written"
    )
    report.raise_for_errors()
    report.raise_for_quarantine()


def _clock(seconds: float | None) -> str:
    return "" if seconds is None else time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))


@app.command()
def compact(
    table: Annotated[str, typer.Argument(help="A table or view; default all.")] = "", store: Store = ""
) -> None:
    """Merge the files of one table, or of all, to one sorted run."""
    from engine.session import Session

    with Session(store or default_store()) as session:
        for report in session.compact(table or None):
            typer.echo(str(report))


@app.command()
def gc(
    store: Store = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be deleted.")] = False,
    grace_seconds: Annotated[float, typer.Option(help="Objects younger than this stay.")] = 3600,
) -> None:
    """Delete objects that no retained version, pin or change log needs."""
    from engine.hummock import Hummock

    with Hummock.open(store or default_store(), create=False) as opened:
        typer.echo(str(opened.gc(dry_run=dry_run, grace_seconds=grace_seconds)))


inspector = typer.Typer(
    no_args_is_help=True, help="Show the engine's objects: a version, a manifest, an SST."
)
app.add_typer(inspector, name="inspect")


@inspector.command("version")
def inspect_version(store: Store = "") -> None:
    """Show the newest version: tables, sub-levels, generations, files, writers."""
    from engine.hummock.inspect import describe_version

    with _opened(store) as opened:
        _show(describe_version(opened.version))


@inspector.command("manifest")
def inspect_manifest(
    number: Annotated[int, typer.Argument(help="The manifest's number.")], store: Store = ""
) -> None:
    """Show what one manifest added."""
    from engine.hummock.inspect import describe_manifest

    with _opened(store) as opened:
        _show(describe_manifest(opened.objects, number))


@inspector.command("sst")
def inspect_sst(
    path: Annotated[str, typer.Argument(help="The object below the store, sst/...")], store: Store = ""
) -> None:
    """Show a sorted file: who refers to it, columns, row groups, first rows."""
    from engine.hummock.inspect import describe_sst

    with _opened(store) as opened:
        _show(describe_sst(opened.objects, opened.version, path))


@app.command()
def metrics(
    store: Store = "",
    port: Annotated[int, typer.Option(help="Serve at http://127.0.0.1:PORT/metrics until Ctrl-C.")] = 0,
) -> None:
    """Print the store's metrics, and those of its views, in Prometheus' text format, or serve them on loopback."""
    from engine.hummock import prometheus
    from engine.runtime.view_metrics import ViewCollector

    with _opened(store) as opened:

        def read() -> Metrics:
            opened.refresh()
            return opened.metrics()

        views = ViewCollector(lambda: opened.version, time.time)
        if not port:
            typer.echo(prometheus.text(read, views), nl=False)
            return
        stop = prometheus.serve(read, port, views)
        typer.echo(f"metrics at http://{prometheus.LOOPBACK}:{port}/metrics; Ctrl-C ends it", err=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            stop()


def _opened(store: str) -> Hummock:
    from engine.hummock import Hummock

    return Hummock.open(store or default_store(), create=False)


def _show(what: RenderableType) -> None:
    Console(width=None if sys.stdout.isatty() else WIDE).print(what)


def _print(result: pa.Table, output: Format) -> None:
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; errors that Tideline knows are printed as one message, with status 1."""
    try:
        app(args=list(arguments) if arguments is not None else None)
    except TidelineError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()

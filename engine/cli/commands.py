"""The commands of `tideline`; one clear sentence and status 1 when something is wrong."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli.printing import (
    Format,
    backfills_table,
    partitions_table,
    print_storage,
    print_table,
    show,
    statuses_table,
    waits_table,
)
from engine.errors import TidelineError

if TYPE_CHECKING:
    from engine.hummock import Hummock
    from engine.hummock.metrics import Metrics

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Tideline keeps SQL views up to date.")


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
                print_table(result, output)


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
        with _opened(store) as opened:
            print_storage(opened.metrics(), output)
        return
    from engine.session import Session

    with Session(store or default_store()) as session:
        if waits:
            print_table(waits_table(session.waits()), output)
            return
        print_table(statuses_table(session.status()), output)


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
        while run and (going_on := [w for w in session.waits() if w.goes_on]):
            session.flush([name for wait in going_on for name in session.members(wait.domain)])
            for wait in session.waits():
                typer.echo(f"{wait.domain}: {wait.reason}", err=True)
        print_table(
            backfills_table(session.backfills(), {s.name: s.lag_seconds for s in session.status()}), output
        )


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
    print_table(partitions_table(found), output)


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
        show(describe_version(opened.version))


@inspector.command("manifest")
def inspect_manifest(
    number: Annotated[int, typer.Argument(help="The manifest's number.")], store: Store = ""
) -> None:
    """Show what one manifest added."""
    from engine.hummock.inspect import describe_manifest

    with _opened(store) as opened:
        show(describe_manifest(opened.objects, number))


@inspector.command("sst")
def inspect_sst(
    path: Annotated[str, typer.Argument(help="The object below the store, sst/...")], store: Store = ""
) -> None:
    """Show a sorted file: who refers to it, columns, row groups, first rows."""
    from engine.hummock.inspect import describe_sst

    with _opened(store) as opened:
        show(describe_sst(opened.objects, opened.version, path))


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


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; errors that Tideline knows are printed as one message, with status 1."""
    try:
        app(args=list(arguments) if arguments is not None else None)
    except TidelineError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(1)

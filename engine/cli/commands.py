"""The commands of `tideline`; one clear sentence and status 1 when something is wrong."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click
import typer

from engine.cli.answers import commands as answers
from engine.cli.cluster import cluster
from engine.cli.connections import (
    make_store,
    open_compaction_session,
    open_session,
    open_store,
    report_progress,
)
from engine.cli.dev import dev
from engine.cli.options import Output, Spark, Store, Wide
from engine.cli.printing import (
    Format,
    PrintingCommand,
    SubscribeCommand,
    format_collection,
    format_compaction,
    print_listing,
    print_storage,
    refuse_csv,
    show,
)
from engine.cli.projects.dbt import dbt
from engine.cli.projects.pipelines import pipelines
from engine.cli.sources import sources
from engine.cli.upkeep import backups, fingerprints, oracle
from engine.cli.upkeep.branches import branches
from engine.errors import SqlError, TidelineError

if TYPE_CHECKING:
    from engine.hummock.metrics import Metrics

INTERRUPTED = 130  # as shells tell of a process that Ctrl-C has ended

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    # locals of a stack trace may hold tokens and rows
    pretty_exceptions_show_locals=False,
    help="Tideline keeps SQL views up to date. `tideline COMMAND --help` explains each.",
)


@app.command()
def init(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Folder of a project to make, with one view and its test; none: the store alone."
        ),
    ] = None,
    store: Store = "",
) -> None:
    """Make a project, or without a name an empty store; a store that is there is checked."""
    if name is not None:
        from engine.cli.new_project import init_project

        init_project(Path(name))
        return
    typer.echo(make_store(store))


@app.command()
def up() -> None:
    """Open Dagster over the working folder's project, its sensors running, with a warm Spark, until Ctrl-C."""
    os.execv(sys.executable, [sys.executable, "-m", "dagster_tideline.up"])


@app.command(cls=PrintingCommand)
def plan(
    branch: Annotated[
        str, typer.Option(help="Try the models on a branch of this name, and show which rows they change.")
    ] = "",
    output: Output = Format.table,
    wide: Wide = False,
) -> None:
    """Show what the working folder's models would change in the store: 0 nothing, 2 changes, 1 a model that cannot be."""
    arguments = [f"--format={output.value}", *(["--wide"] if wide else [])]
    arguments += [f"--branch={branch}"] if branch else []
    os.execv(sys.executable, [sys.executable, "-m", "dagster_tideline.plan", *arguments])


@app.command(cls=PrintingCommand)
def sql(
    text: Annotated[
        str | None,
        typer.Argument(help="One or more statements; none: a prompt, or the input if it is a pipe."),
    ] = None,
    store: Store = "",
    output: Output = Format.table,
    dialect: Annotated[str, typer.Option(help="spark, postgres or risingwave.")] = "spark",
    spark: Spark = "",
) -> None:
    """Run SQL statements and print their results; without any, ask for them."""
    from engine.cli.prompt import Shell, run_lines, run_prompt
    from engine.cli.statements import StatementRunner

    asks = text is None and sys.stdin.isatty()
    with StatementRunner(store, spark, dialect, report_progress, alone=asks) as statements:
        page = asks and sys.stdout.isatty()
        shell = Shell(statements, output, page=page)
        if text is not None:
            shell.run(text)
        elif asks:
            run_prompt(shell)
        else:
            run_lines(shell, sys.stdin)


@app.command(cls=PrintingCommand)
def status(
    store: Store = "",
    output: Output = Format.table,
    wide: Wide = False,
    waits: Annotated[bool, typer.Option("--waits", help="Show what lags, why, and until when.")] = False,
    storage: Annotated[
        bool,
        typer.Option("--storage", help="Show files by level, bytes, history, requests and what they cost."),
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show it anew as the store changes, until Ctrl-C.")
    ] = False,
) -> None:
    """Show where every table, view and sink stands: state, newest epoch, lag, rows, bytes, files, last error."""
    from engine.cli.listings.status import build_status_listing

    if watch and (storage or output is not Format.table):
        raise typer.BadParameter("--watch shows a table: without --storage, --json and --format")
    with open_store(store) as found:
        if watch:
            from engine.cli.watch import watch_store

            watch_store(found, waits=waits, wide=wide)
        elif storage:
            print_storage(found.metrics(), found.spending(), output)
        else:
            listing = build_status_listing(found.version, found.reader, time.time(), waits=waits)
            print_listing(listing, output, wide=wide)


@app.command(cls=PrintingCommand)
def checks(store: Store = "", output: Output = Format.table, wide: Wide = False) -> None:
    """Show how the checks of views came out at their newest epoch, committed or stopped."""
    from engine.cli.listings.checks import build_checks_listing

    with open_store(store) as found:
        print_listing(build_checks_listing(found.version, time.time()), output, wide=wide)


@app.command(cls=PrintingCommand)
def backfill(
    store: Store = "",
    output: Output = Format.table,
    wide: Wide = False,
    run: Annotated[bool, typer.Option("--run", help="Go on until every view is created.")] = False,
    spark: Spark = "",
) -> None:
    """Show how far the snapshot backfills of new views are: share, rows, time left, lag."""
    from engine.cli.backfill_run import run_backfills
    from engine.cli.listings.status import build_backfills_listing
    from engine.meta.catalog.stored_catalog import load_catalog
    from engine.meta.domains.creation import list_creations
    from engine.meta.status.relation_status import list_statuses

    if run:
        run_backfills(store, spark)
    with open_store(store) as found:
        version = found.version
        lags = {s.name: s.lag_seconds for s in list_statuses(version, load_catalog(version), {}, time.time())}
        listing = build_backfills_listing(list_creations(version), lags)
    print_listing(listing, output, wide=wide)


ViewName = Annotated[str, typer.Argument(help="A materialized view; its whole domain follows.")]


@app.command()
def pause(view: ViewName, store: Store = "") -> None:
    """Let a view rest from its next barrier on; what reads it waits and says so."""
    with open_session(store) as running:
        running.pause(view)
    typer.echo(f"{view}: pause is queued; the next run applies it")


@app.command()
def resume(view: ViewName, store: Store = "") -> None:
    """Let a paused view go on."""
    with open_session(store) as running:
        running.resume(view)
    typer.echo(f"{view}: resume is queued; the next run applies it")


@app.command()
def throttle(
    view: ViewName,
    rows_per_second: Annotated[str, typer.Argument(help="Rows a second, 0 to pause, or default.")],
    store: Store = "",
) -> None:
    """Change the rate limit of a view's backfill while it runs."""
    if rows_per_second != "default" and not rows_per_second.isdecimal():
        raise typer.BadParameter(f"{rows_per_second} is neither a whole number nor the word default")
    with open_session(store) as running:
        running.throttle(view, None if rows_per_second == "default" else int(rows_per_second))
    typer.echo(f"{view}: throttle to {rows_per_second} is queued; the next step applies it")


@app.command()
def approve(view: ViewName, store: Store = "") -> None:
    """Let a change that a view's gate holds up take over; `tideline diff VIEW --pending` shows it."""
    with open_session(store) as running:
        running.approve(view)
    typer.echo(f"{view}: the next query is approved; the next run lets it take over")


@app.command()
def discard(view: ViewName, store: Store = "") -> None:
    """Drop the next query of a view, which goes on by its present one."""
    with open_session(store) as running:
        running.discard(view)
    typer.echo(f"{view}: the next query is dropped")


@app.command()
def wait(
    views: Annotated[list[str] | None, typer.Argument(help="Materialized views; default all.")] = None,
    store: Store = "",
    seconds: Annotated[float, typer.Option(help="Give up after so long, with the reasons.")] = 3600.0,
) -> None:
    """Return when views that are being created are whole."""
    with open_session(store) as running:
        running.wait(views or (), seconds=seconds)


@app.command(cls=PrintingCommand)
def partitions(
    view: Annotated[str, typer.Argument(help="A view with partitions.")],
    store: Store = "",
    output: Output = Format.table,
    wide: Wide = False,
) -> None:
    """Show where the partitions of a view stand, those in quarantine first: epoch, error, attempts, next try."""
    from engine.cli.listings.status import build_partitions_listing

    with open_session(store) as running:
        found = running.partitions(view)
    print_listing(build_partitions_listing(found, time.time()), output, wide=wide)


@app.command()
def materialize(
    view: Annotated[str, typer.Argument(help="A view.")],
    partition: Annotated[
        list[str] | None,
        typer.Option("--partition", help="Compute this one again from the inputs; repeatable."),
    ] = None,
    store: Store = "",
    spark: Spark = "",
) -> None:
    """Bring a view up to date; with --partition compute just those partitions again and commit the difference."""
    from engine.hummock.epoch import format_epoch_time

    with open_session(store, spark) as running:
        name = running.catalog.get(view).name
        report = running.materialize(name, partition or None)
    done = next((one for one in report.views if one.view == name), None)
    if done is None:
        hint = "name a view that reads it"
        raise SqlError(f"{name} is no materialized view: it holds what was written", hint=hint)
    at = "without content" if done.epoch is None else f"at epoch {format_epoch_time(done.epoch)} UTC"
    typer.echo(
        f"{done.view} {at}: {done.inserted:,} rows inserted, {done.updated:,} updated, {done.deleted:,} deleted"
    )
    if partition:
        read, written = done.partition_rows_read, done.partition_rows_written
        typer.echo(f"of partitions computed again {read:,} rows read, {written:,} written")
    report.raise_for_all()


answers.add_commands(app)


@app.command(cls=SubscribeCommand)
def subscribe(
    name: Annotated[str, typer.Argument(help="A subscription, a table or a materialized view.")],
    follow: Annotated[bool, typer.Option("--follow", help="Wait for more changes, until Ctrl-C.")] = False,
    since: Annotated[
        str,
        typer.Option(
            "--since",
            help="now, begin, an epoch, a time (UTC), or full (--full): all rows first. Default: where the subscription stands, "
            "else now.",
        ),
    ] = "",
    limit: Annotated[int, typer.Option("--limit", min=0, help="End after so many changes; 0: never.")] = 0,
    store: Store = "",
    output: Output = Format.table,
) -> None:
    """Print the changes of a table or view as they come, epoch by epoch; of a subscription they count as taken."""
    from engine.cli.subscribe import print_changes
    from engine.runtime.subscriptions.subscriber import open_subscriber

    refuse_csv(output)
    with (
        open_store(store) as found,
        open_subscriber(found, name, since or None, follow=follow, acknowledges=False) as subscriber,
    ):
        print_changes(subscriber, output, limit or None)


@app.command()
def compact(
    table: Annotated[str, typer.Argument(help="A table or view; default all.")] = "",
    store: Store = "",
    spark: Annotated[
        str,
        typer.Option(
            "--spark",
            help="Have its tasks merge large tables; default SPARK_REMOTE, the Spark of `make up`, else none: merge here.",
        ),
    ] = "",
) -> None:
    """Merge the files of one table, or of all, to one sorted run."""
    with open_compaction_session(store, spark) as (running, has_spark):
        for report in running.compact(table or None, start_spark=has_spark):
            typer.echo(format_compaction(report))


@app.command()
def gc(
    store: Store = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be deleted.")] = False,
    grace_seconds: Annotated[float, typer.Option(help="Objects younger than this stay.")] = 3600,
) -> None:
    """Delete objects that no retained version, pin or change log needs."""
    from engine.runtime.subscriptions.upkeep import release_overdue_changes

    with open_store(store) as found:
        lapsed = () if dry_run else tuple(one for one in release_overdue_changes(found) if one.lapsed)
        for one in lapsed:
            typer.echo(f"subscription {one.subscription} fell behind its retention", err=True)
        report = found.gc(dry_run=dry_run, grace_seconds=grace_seconds)
    typer.echo(format_collection(report))


explainer = typer.Typer(no_args_is_help=True, help="Say what would be done, and do nothing.")
app.add_typer(explainer, name="explain")


@explainer.command("flush", cls=PrintingCommand)
def explain_flush(
    views: Annotated[
        list[str] | None, typer.Argument(help="Materialized views, with all that they read; default all.")
    ] = None,
    store: Store = "",
    output: Output = Format.table,
    wide: Wide = False,
    scheduled: Annotated[
        bool,
        typer.Option(
            "--scheduled",
            help="As a scheduled run: what has failed waits until its retry.",
        ),
    ] = False,
) -> None:
    """Show what FLUSH would do now, step by step: which work, up to which epoch, over how many rows, and what waits for what."""
    from engine.cli.listings.flush import build_flush_listing
    from engine.meta.epochs.flush_plan import FlushRequest
    from engine.runtime.backfill.eligibility import BACKFILL_ROWS
    from engine.runtime.domains.flush_planning import plan_flush

    with open_store(store) as found:
        now, named = found.clock(), tuple(views) if views else None
        plan = plan_flush(found.version, FlushRequest(now, BACKFILL_ROWS, named, eager=not scheduled))
    print_listing(build_flush_listing(plan, now), output, wide=wide)


app.add_typer(sources, name="sources")
app.add_typer(cluster, name="cluster")
app.add_typer(dev, name="dev")
app.add_typer(branches, name="branch")
app.add_typer(dbt, name="dbt")
app.add_typer(pipelines, name="pipelines")
backups.add_commands(app)
fingerprints.add_commands(app)
oracle.add_commands(app)
inspector = typer.Typer(
    no_args_is_help=True, help="Show the engine's objects: a version, a manifest, an SST."
)
app.add_typer(inspector, name="inspect")


@inspector.command("version")
def inspect_version(store: Store = "") -> None:
    """Show the newest version: tables, sub-levels, generations, files, writers."""
    from engine.hummock.monitoring.inspect import describe_version

    with open_store(store) as found:
        show(describe_version(found.version))


@inspector.command("manifest")
def inspect_manifest(
    number: Annotated[int, typer.Argument(help="The manifest's number.")], store: Store = ""
) -> None:
    """Show what one manifest added."""
    from engine.hummock.monitoring.inspect import describe_manifest

    with open_store(store) as found:
        show(describe_manifest(found.objects, number))


@inspector.command("sst")
def inspect_sst(
    path: Annotated[str, typer.Argument(help="The object below the store, sst/...")], store: Store = ""
) -> None:
    """Show a sorted file: who refers to it, columns, row groups, first rows."""
    from engine.hummock.monitoring.inspect import describe_sst

    with open_store(store) as found:
        show(describe_sst(found.objects, found.version, path))


@app.command()
def metrics(
    store: Store = "",
    port: Annotated[
        int, typer.Option(help="Serve at http://127.0.0.1:PORT/metrics until Ctrl-C.", min=0, max=65535)
    ] = 0,
) -> None:
    """Print the store's metrics, and those of its views, in Prometheus' text format, or serve them on loopback."""
    from engine.hummock.monitoring import prometheus
    from engine.runtime.domains.view_metrics import ViewCollector

    with open_store(store) as found:

        def read() -> Metrics:
            found.refresh()
            return found.metrics()

        views = ViewCollector(lambda: found.version, time.time)
        if not port:
            typer.echo(prometheus.render_metrics(read, views), nl=False)
            return
        stop = prometheus.serve(read, port, views)
        typer.echo(f"metrics at http://{prometheus.LOOPBACK}:{port}/metrics; Ctrl-C ends it", err=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            stop()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line: status 0, 1 with one message where something is wrong, 2 for a wrong call, 130 after Ctrl-C."""
    try:
        words = None if arguments is None else list(arguments)
        status = app(args=words, prog_name="tideline", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        sys.exit(INTERRUPTED)
    except (TidelineError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(1)
    sys.exit(status if isinstance(status, int) else 0)

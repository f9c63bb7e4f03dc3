"""`tideline oracle`, `replay` and `replay-epochs`: rows and epochs of views computed anew, and held against what is stored."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli.connections import get_state_folder, open_session
from engine.cli.layout import TextColumn
from engine.cli.options import Output, Spark, Store
from engine.cli.printing import Format, PrintingCommand, print_listing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.cli.listings.status import Listing
    from engine.runtime.oracle.epoch_replay import EpochReplay
    from engine.runtime.oracle.sampling import SampleReport

REPORTS = "reports"


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this page to the command line."""
    app.command("oracle", cls=PrintingCommand)(compare_samples)
    app.command("replay")(replay_report)
    app.command("replay-epochs", cls=PrintingCommand)(replay_epochs)


def compare_samples(
    views: Annotated[list[str] | None, typer.Argument(help="Views; default all.")] = None,
    seconds: Annotated[float, typer.Option("--seconds", help="Compare rows for so long.", min=0.0)] = 10.0,
    again: Annotated[
        bool, typer.Option("--again", help="Begin anew, and forget what differed before.")
    ] = False,
    store: Store = "",
    output: Output = Format.table,
    spark: Spark = "",
) -> None:
    """Compute some rows of views anew, and compare; 1 if a view has other rows than its query gives."""
    from engine.runtime.oracle.sampling import restart_samples

    with open_session(store, spark) as session:
        if again:
            restart_samples(session.store, views or ())
        found = session.sample_rows(views or (), seconds, reports=get_reports_folder())
    print_listing(_build_listing(found), output)
    wrong = [one for one in found if one.differ]
    for one in wrong:
        typer.echo(
            f"{one.view}: {_count_rows(one.differ)} from what its query gives: {'; '.join(one.examples)}",
            err=True,
        )
        if one.report is not None:
            typer.echo(f"  tideline replay {one.report} computes them again", err=True)
    if wrong:
        raise typer.Exit(1)


def get_reports_folder() -> Path:
    """Return where a project has the reports of rows that differ."""
    return get_state_folder() / REPORTS


def replay_report(
    report: Annotated[
        Path, typer.Argument(help="A report of rows that differ, as `tideline oracle` writes it.")
    ],
    spark: Spark = "",
) -> None:
    """Compute the rows of a report again, without its store; 1 if they differ from the stored ones."""
    from engine.cli.quiet_spark import start_spark
    from engine.hummock.epoch import format_epoch
    from engine.runtime.oracle.comparison import describe_difference
    from engine.runtime.oracle.report import DifferenceReport
    from engine.runtime.spark.session import EngineSpark

    found = DifferenceReport.read(report)
    head = found.head
    typer.echo(f"{head.view} at epoch {format_epoch(head.epoch)}\n{head.sql.strip()}")
    session = start_spark(spark or None)
    computed = found.compute(session, EngineSpark.of(session).count_parallel_tasks())
    read = sum(rows.num_rows for rows in found.rows.values())
    typer.echo(f"{computed.num_rows:,} rows computed from {read:,}; {found.stored.num_rows:,} were stored")
    differences = found.compare(computed)
    for one in differences:
        typer.echo(describe_difference(one, head.by, head.names))
    if differences:
        raise typer.Exit(1)
    typer.echo("they are equal")


def replay_epochs(
    view: Annotated[str, typer.Argument(help="A view.")],
    epoch: Annotated[
        int | None, typer.Option("--epoch", help="The epoch to compute; default the newest ones.")
    ] = None,
    last: Annotated[int, typer.Option("--last", help="So many of the newest epochs.", min=1)] = 1,
    store: Store = "",
    output: Output = Format.table,
    spark: Spark = "",
) -> None:
    """Compute committed epochs of a view again; 1 if one of them gives other rows than were committed."""
    with open_session(store, spark) as session:
        found = session.replay_epochs(view, epoch, last)
    print_listing(_build_epoch_listing(found), output)
    if any(one.outcome == "other rows" for one in found):
        raise typer.Exit(1)


def _build_epoch_listing(found: Sequence[EpochReplay]) -> Listing:
    from engine.cli.listings.status import Listing
    from engine.hummock.epoch import format_epoch, format_epoch_time

    columns = (
        TextColumn("epoch", [format_epoch(one.epoch) for one in found]),
        TextColumn("time (UTC)", [format_epoch_time(one.epoch) for one in found]),
        TextColumn("manifest", [f"{one.manifest:,}" for one in found], right=True),
        TextColumn("changed rows", ["" if one.reason else f"{one.rows:,}" for one in found], right=True),
        TextColumn("computed again", [one.outcome or "" for one in found]),
    )
    notes = [
        one.reason or "; ".join(f"{table.table}: {text}" for table in one.tables for text in table.examples)
        for one in found
    ]
    records = [
        {
            "view": one.view,
            "epoch": one.epoch,
            "manifest": one.manifest,
            "rows": one.rows,
            "outcome": one.outcome,
            "tables": {table.table: table.outcome for table in one.tables},
            "examples": [text for table in one.tables for text in table.examples],
            "seconds": one.seconds,
            "reason": one.reason or None,
        }
        for one in found
    ]
    return Listing(columns, notes, records, "no epochs of it are known any more")


def _build_listing(found: Sequence[SampleReport]) -> Listing:
    from engine.cli.listings.status import Listing
    from engine.hummock.epoch import format_epoch_time

    columns = (
        TextColumn("view", [one.view for one in found]),
        TextColumn("rows compared", [f"{one.rows:,}" for one in found], right=True),
        TextColumn("differ", [f"{one.differ:,}" for one in found], right=True),
        TextColumn("pass", [_describe_pass(one) for one in found], right=True),
        TextColumn(
            "epoch (UTC)", ["" if one.epoch is None else format_epoch_time(one.epoch) for one in found]
        ),
    )
    records = [
        {
            "view": one.view,
            "epoch": one.epoch,
            "rows": one.rows,
            "differ": one.differ,
            "progress": round(one.progress, 4),
            "passed": one.passed,
            "seconds": one.seconds,
            "examples": list(one.examples),
            "reason": one.reason or None,
        }
        for one in found
    ]
    return Listing(columns, [one.reason for one in found], records, "no materialized views")


def _count_rows(rows: int) -> str:
    return "1 row differs" if rows == 1 else f"{rows:,} rows differ"


def _describe_pass(report: SampleReport) -> str:
    """Return how much of a pass is done: each ended one is a whole one."""
    if report.epoch is None:
        return ""
    return "whole" if report.passed or report.progress == 1 else f"{report.progress:.0%}"

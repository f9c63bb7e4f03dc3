"""`tideline fingerprint`: what the rows of tables add up to, and whether all of them are as they were written."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli.connections import open_compaction_session, open_store, report_progress
from engine.cli.layout import TextColumn
from engine.cli.options import Output, Store
from engine.cli.printing import Format, PrintingCommand, format_count, print_listing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.cli.listings.status import Listing
    from engine.hummock import Hummock
    from engine.hummock.upkeep.fingerprints import FingerprintCheck, FingerprintStatus, RangeSums

REPORT_SECONDS = 5.0


def add_commands(app: typer.Typer) -> None:
    """Add the command of this page to the command line."""
    app.command("fingerprint", cls=PrintingCommand)(show_fingerprints)


def show_fingerprints(
    tables: Annotated[list[str] | None, typer.Argument(help="Tables or views; default all.")] = None,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", help="Read all rows and compare; 1 if a table has other rows than it should."
        ),
    ] = False,
    store: Store = "",
    output: Output = Format.table,
    spark: Annotated[
        str,
        typer.Option(
            "--spark",
            help="Have its tasks read large tables; default SPARK_REMOTE or the Spark of `make up`.",
        ),
    ] = "",
) -> None:
    """Show the fingerprints of tables: the sum of a hash of each row, at an epoch; equal rows have equal ones."""
    if not verify:
        with open_store(store) as found:
            listing = _build_listing([found.fingerprint(name) for name in _list_tables(found, tables)])
        print_listing(listing, output)
        return
    from engine.runtime.fingerprint_tasks import FingerprintTasks

    with open_compaction_session(store, spark) as (running, has_spark):
        on_demand = running.on_demand
        tasks = FingerprintTasks(running.store, on_demand.open if has_spark else on_demand.find_started)
        checks = verify_tables(running.store, tables, tasks)
    print_listing(_build_check_listing(checks), output)
    exit_if_wrong(checks)


def verify_tables(
    store: Hummock, named: Sequence[str] | None = None, tasks: RangeSums | None = None
) -> list[FingerprintCheck]:
    """Verify tables that are named, else all that can have a fingerprint; says how far it is."""
    names = _list_tables(store, named)
    known = store.version.tables
    return [_verify(store, name, tasks) for name in names if named or known[name].table.has_fingerprint]


def verify_kept(store: Hummock) -> None:
    """Verify all tables that keep a fingerprint, and say how many that are; ends with 1 if one has other rows."""
    kept = [name for name, table in store.refresh().tables.items() if table.fingerprint is not None]
    checks = verify_tables(store, kept) if kept else []
    exit_if_wrong(checks)
    typer.echo(f"rows verified: {format_count(len(checks), 'table')}")


def exit_if_wrong(checks: Sequence[FingerprintCheck]) -> None:
    """End with 1 if a table has other rows than it should, and say which, where, and what to do."""
    wrong = [check for check in checks if not check.is_right]
    for check in wrong:
        typer.echo(check.describe_mismatch(), err=True)
    if wrong:
        raise typer.Exit(1)


def _list_tables(store: Hummock, named: Sequence[str] | None) -> list[str]:
    known = store.refresh().tables
    return [store.table(name).name for name in named] if named else sorted(known)


def _verify(store: Hummock, name: str, tasks: RangeSums | None) -> FingerprintCheck:
    said = time.monotonic()

    def tell(read: int, rows: int) -> None:
        nonlocal said
        if time.monotonic() - said >= REPORT_SECONDS:
            said = time.monotonic()
            report_progress(f"{name}: {read:,} of about {rows:,} rows read")

    return store.verify_fingerprint(name, tell, tasks)


def _build_listing(found: Sequence[FingerprintStatus]) -> Listing:
    from engine.cli.listings.status import Listing
    from engine.hummock.epoch import format_epoch_time
    from engine.hummock.upkeep.fingerprints import format_fingerprint

    at = ["" if one.epoch is None else format_epoch_time(one.epoch) if one.epoch else "new" for one in found]
    columns = (
        TextColumn("table", [one.table for one in found]),
        TextColumn("fingerprint", [format_fingerprint(one.value) for one in found]),
        TextColumn("epoch (UTC)", at),
    )
    notes = [one.reason or ("behind" if one.is_behind else "") for one in found]
    records = [
        {
            "table": one.table,
            "fingerprint": format_fingerprint(one.value) or None,
            "epoch": one.epoch,
            "committed_epoch": one.committed_epoch,
            "reason": one.reason,
        }
        for one in found
    ]
    return Listing(columns, notes, records, "no tables")


def _build_check_listing(checks: Sequence[FingerprintCheck]) -> Listing:
    from engine.cli.listings.status import Listing
    from engine.hummock.epoch import format_epoch_time
    from engine.hummock.upkeep.fingerprints import format_fingerprint

    outcomes = [_describe_outcome(check) for check in checks]
    columns = (
        TextColumn("table", [check.table for check in checks]),
        TextColumn("fingerprint", [format_fingerprint(check.found) for check in checks]),
        TextColumn(
            "epoch (UTC)", [format_epoch_time(check.epoch) if check.epoch else "new" for check in checks]
        ),
        TextColumn("rows", [f"{check.rows:,}" for check in checks], right=True),
        TextColumn("outcome", outcomes),
    )
    records = [
        {
            "table": check.table,
            "fingerprint": format_fingerprint(check.found),
            "expected": format_fingerprint(check.expected) or None,
            "epoch": check.epoch,
            "rows": check.rows,
            "outcome": outcome,
            "damaged": list(check.damaged),
        }
        for check, outcome in zip(checks, outcomes, strict=True)
    ]
    return Listing(columns, [""] * len(checks), records, "no tables")


def _describe_outcome(check: FingerprintCheck) -> str:
    if check.expected is None:
        return "kept from now on"
    return "right" if check.is_right else "wrong"

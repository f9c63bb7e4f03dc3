"""`tideline backup` and `tideline restore`: a store copied to another place, and put back from there."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli.connections import choose_store, make_state_folder, open_store, report_progress
from engine.cli.layout import TextColumn, format_ago, format_duration, format_size
from engine.cli.options import Output, Store
from engine.cli.printing import Format, PrintingCommand, format_count, format_json, print_listing
from engine.cli.upkeep.fingerprints import exit_if_wrong, verify_kept, verify_tables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from engine.cli.listings.status import Listing
    from engine.hummock.backups.back_up import BackupReport
    from engine.hummock.backups.backup_format import BackupSummary
    from engine.hummock.backups.backup_place import BackupPlace
    from engine.hummock.backups.copying import CopyProgress
    from engine.hummock.version import Version

REPORT_SECONDS = 5.0


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this page to the command line."""
    app.command("backup", cls=PrintingCommand)(back_up_store)
    app.command("restore")(restore_store)


def back_up_store(
    to: Annotated[str, typer.Argument(help="Where the backups are: file:///path or s3://bucket/prefix.")],
    shows_list: Annotated[bool, typer.Option("--list", help="Only show the backups that are there.")] = False,
    keep: Annotated[int, typer.Option(min=0, help="Then drop all but the newest so many; 0: drop none.")] = 0,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Read the files of earlier backups too, and repair those that are damaged; hold all rows against fingerprints.",
        ),
    ] = False,
    store: Store = "",
    output: Output = Format.table,
) -> None:
    """Copy the store, or the branch, as it is after one commit to another place, while it is written; only what is new there."""
    from engine.hummock.backups.back_up import BackupOptions, back_up
    from engine.hummock.backups.backup_place import open_place

    if shows_list:
        place = open_place(to, create=False)
        print_listing(_build_listing(place.list_backups(), time.time()), output)
        _tell_unreadable(place.list_unreadable(), place.url)
        return
    if output is Format.csv:
        raise typer.BadParameter("csv is for --list: take --json")
    with open_store(store) as found:
        place = open_place(to, create=True)
        report = back_up(
            found, place, BackupOptions(keep or None, verify, _ProgressReporter("copied").report)
        )
        typer.echo(format_json(_build_record(report)) if output is Format.json else _format_backup(report))
        _tell_unreadable(report.unreadable, place.url)
        if verify and output is not Format.json:
            verify_kept(found)
        elif verify:
            exit_if_wrong(verify_tables(found))


def restore_store(
    source: Annotated[str, typer.Argument(metavar="FROM", help="Where the backups are.")],
    backup: Annotated[
        int, typer.Option("--backup", min=0, help="The number of a backup; default the newest.")
    ] = 0,
    verify: Annotated[
        bool, typer.Option("--verify", help="Then read all rows, and hold them against their fingerprints.")
    ] = False,
    table: Annotated[
        str,
        typer.Option(
            "--table", help="Put this table of a store back to the backup, instead of a whole store."
        ),
    ] = "",
    store: Store = "",
) -> None:
    """Make the store of a backup, at a place where nothing is, or put back one table; sinks to other places are paused."""
    from engine.hummock.backups.backup_place import open_place
    from engine.hummock.backups.restore import open_target, restore_backup
    from engine.hummock.epoch import format_epoch_time
    from engine.meta.catalog.stored_catalog import load_catalog
    from engine.meta.status.sinks import encode_paused_sinks, list_sinks_to_pause

    paused: list[str] = []

    def pause_sinks(version: Version) -> Mapping[str, str | None]:
        paused[:] = list_sinks_to_pause(version, load_catalog(version))
        return encode_paused_sinks(version, paused)

    place = open_place(source, create=False)
    if table:
        _restore_table(place, table, backup or None, store, verify=verify)
        return
    make_state_folder(store)
    progress = _ProgressReporter("restored")
    report = restore_backup(
        place, open_target(choose_store(store)), backup or None, pause_sinks, progress.report
    )
    summary = report.summary
    typer.echo(
        f"store {report.url}: {format_count(summary.tables, 'table')} of backup {summary.number} at epoch "
        f"{format_epoch_time(summary.epoch)} UTC, {format_count(summary.files, 'file')}, {format_size(summary.bytes)}, in "
        f"{format_duration(report.seconds)}"
    )
    if verify:
        with open_store(store) as restored:
            verify_kept(restored)
    if paused:
        typer.echo(
            f"sinks that are paused: {', '.join(paused)}; what they have delivered since the backup is still in their targets: "
            "ALTER SINK name RESET and then RESUME delivers all rows again, RESUME alone what came after the backup"
        )


def _restore_table(place: BackupPlace, table: str, number: int | None, store: str, *, verify: bool) -> None:
    """Put a table of a store that is there back to what a backup holds of it, and say what that took."""
    from engine.hummock.epoch import format_epoch_time
    from engine.runtime.writes.table_restore import restore_table

    with open_store(store) as found:
        done = restore_table(found, place, table, number, _ProgressReporter("copied").report)
        typer.echo(
            f"table {table.lower()} is as in backup {done.summary.number} at epoch {format_epoch_time(done.summary.epoch)} UTC: "
            f"{format_count(done.written, 'row')} written, {format_count(done.deleted, 'row')} deleted; views that read it get "
            "the difference by their next epoch"
        )
        if verify:
            verify_kept(found)


def _tell_unreadable(found: Mapping[int, str], place: str) -> None:
    """Say which backups cannot be read, beside the output."""
    for number, reason in found.items():
        typer.echo(
            f"backup {number} at {place} cannot be read: {reason}; no file is deleted until --keep drops it, or you delete that "
            "object",
            err=True,
        )


class _ProgressReporter:
    """Says now and then how far a long copy is."""

    def __init__(self, done: str) -> None:
        self._done, self._said = done, time.monotonic()

    def report(self, progress: CopyProgress) -> None:
        """Say it, if there was nothing said for some seconds."""
        if time.monotonic() - self._said < REPORT_SECONDS:
            return
        self._said = time.monotonic()
        report_progress(
            f"{self._done} {progress.done:,} of {progress.files:,} files, {format_size(progress.done_bytes)} of "
            f"{format_size(progress.bytes)}"
        )


def _format_backup(report: BackupReport) -> str:
    from engine.hummock.epoch import format_epoch_time

    summary = report.summary
    copied = f"{format_count(summary.copied, 'file')} copied ({format_size(summary.copied_bytes)})"
    kept = f"{report.kept:,} were there ({format_size(report.kept_bytes)})"
    at = f"{format_epoch_time(summary.epoch)} UTC"
    lines = [f"backup {summary.number} at epoch {at}: {copied}, {kept}, in {format_duration(report.seconds)}"]
    if report.repaired:
        lines.append(f"copied again, as the copy was damaged: {format_count(report.repaired, 'file')}")
    if report.dropped or report.deleted_files:
        dropped = ", ".join(map(str, report.dropped)) or "none"
        lines.append(
            f"backups dropped: {dropped}; {format_count(report.deleted_files, 'file')} that no backup needs deleted "
            f"({format_size(report.deleted_bytes)})"
        )
    return "\n".join(lines)


def _build_record(report: BackupReport) -> Mapping[str, Any]:
    return {
        **_build_summary_record(report.summary),
        "kept": report.kept,
        "kept_bytes": report.kept_bytes,
        "repaired": report.repaired,
        "dropped": list(report.dropped),
        "deleted_files": report.deleted_files,
        "deleted_bytes": report.deleted_bytes,
        "seconds": round(report.seconds, 3),
    }


def _build_summary_record(summary: BackupSummary) -> dict[str, Any]:
    return {
        "backup": summary.number,
        "epoch": summary.epoch,
        "manifest": summary.manifest,
        "taken": datetime.fromtimestamp(summary.taken, UTC).isoformat(timespec="milliseconds"),
        "store": summary.store,
        "tables": summary.tables,
        "files": summary.files,
        "bytes": summary.bytes,
        "copied": summary.copied,
        "copied_bytes": summary.copied_bytes,
    }


def _build_listing(found: Sequence[BackupSummary], now: float) -> Listing:
    from engine.cli.listings.status import Listing
    from engine.hummock.epoch import format_epoch_time

    columns = (
        TextColumn("backup", [str(one.number) for one in found], right=True),
        TextColumn("epoch (UTC)", [format_epoch_time(one.epoch) for one in found]),
        TextColumn("age", [format_ago(now - one.taken) for one in found], right=True),
        TextColumn("tables", [f"{one.tables:,}" for one in found], right=True),
        TextColumn("files", [f"{one.files:,}" for one in found], right=True),
        TextColumn("size", [format_size(one.bytes) for one in found], right=True),
        TextColumn("copied", [format_size(one.copied_bytes) for one in found], right=True),
    )
    records = [_build_summary_record(one) for one in found]
    return Listing(columns, [""] * len(found), records, "no backups")

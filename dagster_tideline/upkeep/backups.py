"""Backups of the store as a job, each night where the project names a place; its numbers are events of an asset."""

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

from dagster_tideline.io.hummock_resource import HummockResource
from dagster_tideline.naming import Naming
from dagster_tideline.runs.epoch_events import Metadata
from dagster_tideline.upkeep.job_lock import hold_job_lock, request_or_skip
from dagster_tideline.upkeep.maintenance import GROUP, build_one_op_job
from engine.errors import StorageError
from engine.hummock.backups.back_up import BackupOptions, BackupReport, back_up
from engine.hummock.backups.backup_place import BackupPlace, check_apart, open_place
from engine.hummock.backups.copying import CopyProgress
from engine.hummock.epoch import format_epoch

if TYPE_CHECKING:
    from engine.hummock import Hummock

BACKUP = "backup"
CRON = "10 2 * * *"
LONG_SECONDS = 7200.0
"""A backup that takes longer is reported as too long by the next tick."""
REPORT_SECONDS = 15.0
_WHAT = "Copies the store, as it is after one commit, to another place."


class BackupConfig(dg.Config):
    """Where a backup goes, how many stay, and whether earlier copies and all rows are read and compared.

    Without `to` and `keep` they are those of the project's settings; `keep` 0 drops none.
    """

    to: str = ""
    keep: int | None = Field(default=None, ge=0)
    verify: bool = False


def back_up_store(
    context: dg.OpExecutionContext,
    config: BackupConfig,
    hummock: HummockResource,
    naming: Naming,
    place: str,
    keep: int,
) -> Iterator[dg.AssetMaterialization]:
    """Copy what is new in the store to the place of its backups; fails where copies or rows turn out to be damaged."""
    url = config.to or place
    if not url:
        raise dg.Failure(
            "no place for backups is named: write `to: s3://bucket/prefix` in the config of the op, or set TIDELINE_BACKUP_TO",
            allow_retries=False,
        )
    with hold_job_lock(context), hummock.open() as store:
        options = BackupOptions(
            (keep if config.keep is None else config.keep) or None, config.verify, _report_to(context)
        )
        report = back_up(store, _open_place(url, store), options)
        for number, reason in report.unreadable.items():
            context.log.warning(
                f"backup {number} at {url} cannot be read: {reason}; no file is deleted until keep drops it, or you delete it"
            )
        yield dg.AssetMaterialization(naming.build_upkeep_key(BACKUP), metadata=_describe(report, url))
        if config.verify:
            _verify_rows(store)


def _open_place(url: str, store: "Hummock") -> BackupPlace:
    """Return a place; raises dg.Failure, which is not tried again, for an address that cannot be one of the store's backups."""
    try:
        check_apart(url, store.url)
        return open_place(url, create=True)
    except StorageError as error:
        raise dg.Failure(str(error), allow_retries=False) from error


def _report_to(context: dg.OpExecutionContext) -> Callable[[CopyProgress], None]:
    """Return what logs now and then how far the copy is."""
    said = time.monotonic()

    def report(progress: CopyProgress) -> None:
        nonlocal said
        if time.monotonic() - said >= REPORT_SECONDS:
            said = time.monotonic()
            context.log.info(f"copied {progress.done:,} of {progress.files:,} files")

    return report


def _describe(report: BackupReport, url: str) -> dict[str, Metadata]:
    summary = report.summary
    return {
        "backup": summary.number,
        "place": dg.MetadataValue.path(url),
        "epoch": format_epoch(summary.epoch),
        "tables": summary.tables,
        "files": summary.files,
        "bytes": summary.bytes,
        "files_copied": summary.copied,
        "bytes_copied": summary.copied_bytes,
        "files_repaired": report.repaired,
        "backups_dropped": len(report.dropped),
        "backups_unreadable": len(report.unreadable),
        "files_deleted": report.deleted_files,
        "seconds": round(report.seconds, 3),
    }


def _verify_rows(store: "Hummock") -> None:
    """Hold the rows of all tables that keep a fingerprint against it; raises dg.Failure for those with others."""
    kept = [name for name, table in store.refresh().tables.items() if table.fingerprint is not None]
    wrong = [check.describe_mismatch() for check in map(store.verify_fingerprint, kept) if not check.is_right]
    if wrong:
        raise dg.Failure("\n".join(wrong), allow_retries=False)


def build_backup_job(naming: Naming, place: str, keep: int) -> dg.JobDefinition:
    """Return the job; by default it copies to a place, and keeps the newest so many backups."""
    work = naming.bind(back_up_store, place=place, keep=keep)
    return build_one_op_job(BACKUP, work, _WHAT, naming)


def build_backup_asset(naming: Naming) -> dg.AssetSpec:
    """Return the asset whose events say what was copied."""
    return dg.AssetSpec(
        naming.build_upkeep_key(BACKUP), group_name=GROUP, kinds={"tideline"}, description=_WHAT
    )


def build_backup_schedule(job: dg.JobDefinition, naming: Naming, *, is_on: bool) -> dg.ScheduleDefinition:
    """Return the schedule that asks for a backup each night; unless it `is_on` it rests until somebody turns it on."""

    @dg.schedule(
        name=naming.format_name("backup_schedule"),
        job=job,
        cron_schedule=CRON,
        default_status=dg.DefaultScheduleStatus.RUNNING if is_on else dg.DefaultScheduleStatus.STOPPED,
        description=_WHAT,
    )
    def tick(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        return request_or_skip(context.instance, job.name, time.time(), long_seconds=LONG_SECONDS)

    return tick

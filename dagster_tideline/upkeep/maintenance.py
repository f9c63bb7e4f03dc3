"""Maintenance of the store as jobs: compaction, history let go, garbage collected, pins that are over; each with its numbers.

What a job did is an event of an asset of its own, `tideline_<job>`, so that Dagster draws its numbers over time.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

from dagster_tideline.io.hummock_resource import HummockResource
from dagster_tideline.io.spark_resource import SparkResource
from dagster_tideline.naming import Naming
from dagster_tideline.runs.epoch_events import Metadata, format_failures
from dagster_tideline.upkeep.job_lock import hold_job_lock
from engine.errors import EnvironmentNotReady, StorageError, UnknownTable
from engine.hummock.compaction.lease import list_leases
from engine.hummock.epoch import seconds_of
from engine.hummock.transact import commit_once
from engine.hummock.upkeep.history import count_log_bytes
from engine.hummock.upkeep.pins import list_pins
from engine.runtime.subscriptions.upkeep import release_overdue_changes

if TYPE_CHECKING:
    from engine.hummock import Hummock
    from engine.hummock.upkeep.history import Holder

COMPACTION = "compaction"
LOG_TRUNCATION = "log_truncation"
GARBAGE_COLLECTION = "garbage_collection"
EXPIRED_PINS = "expired_pins"
GROUP = "tideline"
FULL_COMPACTION_SUBLEVELS = 64
SHOWN_ROWS = 100
RETRY = dg.RetryPolicy(max_retries=2, delay=15, backoff=dg.Backoff.EXPONENTIAL)


class CompactionConfig(dg.Config):
    """Which tables are compacted: those with at least `sublevels` fresh runs; `full` merges them to one run."""

    sublevels: int = Field(default=8, ge=1)
    full: bool = False


class CollectionConfig(dg.Config):
    """What nobody needs is deleted `grace_seconds` after it left the store; with `dry_run` it is counted only."""

    grace_seconds: float = Field(default=3600.0, ge=0)
    dry_run: bool = False


def render_table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], count: int | None = None
) -> dg.MarkdownMetadataValue:
    """Return rows as a table to look at; of very many the first. `count` says how many there are if not all are given."""
    known = len(rows) if count is None else count
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    for row in rows[:SHOWN_ROWS]:
        lines.append(f"| {' | '.join(_format_cell(value) for value in row)} |")
    if known > SHOWN_ROWS:
        lines.append(f"\nand {known - SHOWN_ROWS} more")
    return dg.MetadataValue.md("\n".join(lines))


def compact(
    context: dg.OpExecutionContext,
    config: CompactionConfig,
    hummock: HummockResource,
    spark: SparkResource,
    naming: Naming,
) -> Iterator[dg.AssetMaterialization]:
    """Compact the tables that need it, large ones by a Spark that runs elsewhere; one that fails does not keep others from it."""
    failed: dict[str, str] = {}
    done = []
    lost = 0
    with hold_job_lock(context), hummock.session(spark) as session:
        store, tasks = session.store, session.compaction_tasks()
        started = time.perf_counter()
        for name, known in sorted(store.refresh().tables.items()):
            if known.l0_count < config.sublevels:
                continue
            full = config.full or known.l0_count >= FULL_COMPACTION_SUBLEVELS
            try:
                compact = partial(store.compact if full else store.compact_l0, name, executor=tasks)
                report = commit_once(store, compact, UnknownTable)
            except (StorageError, EnvironmentNotReady) as error:  # the Spark that is named may not be there
                failed[name] = str(error)
                continue
            if report is None:  # another compactor was faster, or the table is gone
                lost += 1
            else:
                context.log.info(f"{name}: {report}")
                done.append(report)
        numbers: dict[str, Metadata] = {
            "tables_compacted": sum(report.done for report in done),
            "tables_failed": len(failed),
            "tables_lost_to_others": lost,
            "runs_merged": sum(report.runs_before - report.runs_after for report in done),
            "rows_written": sum(report.rows_after for report in done if report.done),
            "bytes_written": sum(report.bytes_after for report in done if report.done),
            "seconds": round(time.perf_counter() - started, 3),
        }
        yield _build_event(naming, COMPACTION, numbers | _measure_store(store))
    if failed:
        raise dg.Failure(format_failures(failed), metadata=dict(failed))


def truncate_logs(
    context: dg.OpExecutionContext, hummock: HummockResource, naming: Naming
) -> Iterator[dg.AssetMaterialization]:
    """Let go of the change logs and the history that no consumer, no pin and no retention asks for.

    Subscriptions ask for changes no longer than their own retention.
    """
    with hold_job_lock(context), hummock.open() as store:
        started = time.perf_counter()
        released = release_overdue_changes(store)
        gone = store.maintenance.truncate()
        holders = store.maintenance.list_holders()
        numbers: dict[str, Metadata] = {
            "tables_truncated": len(gone),
            "epochs_released": sum(one.epochs for one in gone),
            "rows_released": sum(one.rows for one in gone),
            "bytes_released": sum(one.bytes for one in gone),
            "log_bytes": sum(count_log_bytes(known) for known in store.version.tables.values()),
            "holders": len(holders),
            "subscriptions_lapsed": sum(one.lapsed for one in released),
            "seconds": round(time.perf_counter() - started, 3),
        }
        if gone:
            rows = [(one.table, one.epochs, one.rows, one.bytes) for one in gone]
            numbers["released"] = render_table(("table", "epochs", "rows", "bytes"), rows)
        yield _build_event(naming, LOG_TRUNCATION, numbers | _describe_holders(holders, store.clock()))


def collect_garbage(
    context: dg.OpExecutionContext, config: CollectionConfig, hummock: HummockResource, naming: Naming
) -> Iterator[dg.AssetMaterialization]:
    """Delete the objects that nobody can read any more, and old manifests."""
    with hold_job_lock(context), hummock.open() as store:
        started = time.perf_counter()
        report = store.maintenance.delete_garbage(dry_run=config.dry_run, grace_seconds=config.grace_seconds)
        verb = "garbage" if report.dry_run else "deleted"
        numbers: dict[str, Metadata] = {
            f"objects_{verb}": report.deleted_objects,
            f"bytes_{verb}": report.deleted_bytes,
            f"manifests_{verb}": report.deleted_manifests,
            "objects_kept": report.kept_objects,
            "seconds": round(time.perf_counter() - started, 3),
        }
        for kind, held_objects in report.held.items():
            numbers |= {
                f"objects_held_by_{kind}": held_objects.objects,
                f"bytes_held_by_{kind}": held_objects.bytes,
            }
        yield _build_event(
            naming,
            GARBAGE_COLLECTION,
            numbers
            | _describe_holders(store.maintenance.list_holders(), store.clock())
            | _measure_store(store),
        )


def end_pins(
    context: dg.OpExecutionContext, hummock: HummockResource, naming: Naming
) -> Iterator[dg.AssetMaterialization]:
    """Take away pins, claims of compactors and holds of backups whose time is over; say who holds what is left."""
    with hold_job_lock(context), hummock.open() as store:
        ended = store.maintenance.end_holds()
        version, now = store.refresh(), store.clock()
        living = sorted(list_pins(version), key=lambda pin: pin.epoch)
        leases = list_leases(version)
        numbers: dict[str, Metadata] = {
            "pins_ended": len(ended.pins),
            "claims_ended": len(ended.leases),
            "backup_holds_ended": len(ended.backups),
            "pins_alive": len(living),
            "claims_alive": len(leases),
            "oldest_pin_seconds": round(now - seconds_of(living[0].epoch), 1) if living else 0.0,
        }
        if living:
            rows = [
                (
                    pin.table,
                    pin.owner,
                    f"{now - seconds_of(pin.epoch):.0f} s",
                    "until it is taken away" if (ends := pin.ends) is None else f"{ends - now:.0f} s left",
                )
                for pin in living
            ]
            numbers["pins"] = render_table(("table", "owner", "age of its epoch", "end"), rows)
            counted = Counter(pin.owner for pin in living)
            numbers["owners"] = render_table(("owner", "pins"), counted.most_common())
        if leases:
            lease_rows = [
                (name, lease.worker, f"{lease.expires - now:.0f} s left") for name, lease in leases.items()
            ]
            numbers["claims"] = render_table(("table", "compactor", "end"), lease_rows)
        for pin in ended.pins:
            context.log.info(f"the pin of {pin.owner} on {pin.table} is over")
        yield _build_event(naming, EXPIRED_PINS, numbers)


MAINTENANCE: dict[str, tuple[Callable[..., object], str]] = {
    COMPACTION: (compact, "Merges small files."),
    LOG_TRUNCATION: (truncate_logs, "Lets go of change logs and history that nobody needs."),
    GARBAGE_COLLECTION: (collect_garbage, "Deletes objects that nobody can read any more."),
    EXPIRED_PINS: (end_pins, "Takes away pins and claims whose time is over."),
}
"""What the jobs run, and what they are for."""


def build_one_op_job(
    name: str,
    work: Callable[..., object],
    description: str,
    naming: Naming,
    retry: dg.RetryPolicy | None = RETRY,
) -> dg.JobDefinition:
    """Return the job of one op, in one process; the op is called as the function that does its work."""
    op = dg.op(name=naming.format_name(work.__name__), out={}, retry_policy=retry)(
        naming.bind(work, naming=naming)
    )

    @dg.job(name=naming.format_name(name), executor_def=dg.in_process_executor, description=description)
    def job() -> None:
        op()

    return job


def build_maintenance_jobs(naming: Naming) -> dict[str, dg.JobDefinition]:
    """Return the jobs, by the name of their kind."""
    return {
        name: build_one_op_job(name, work, summary, naming) for name, (work, summary) in MAINTENANCE.items()
    }


def build_maintenance_assets(naming: Naming) -> list[dg.AssetSpec]:
    """Return the assets whose events say what the jobs did."""
    return [
        dg.AssetSpec(naming.build_upkeep_key(name), group_name=GROUP, kinds={"tideline"}, description=summary)
        for name, (_, summary) in MAINTENANCE.items()
    ]


def _build_event(naming: Naming, job: str, numbers: dict[str, Metadata]) -> dg.AssetMaterialization:
    return dg.AssetMaterialization(naming.build_upkeep_key(job), metadata=numbers)


def _measure_store(store: "Hummock") -> dict[str, Metadata]:
    tables = store.refresh().tables.values()
    return {
        "tables": len(tables),
        "files": sum(known.file_count for known in tables),
        "bytes": sum(known.size_bytes for known in tables),
    }


def _describe_holders(holders: "Sequence[Holder]", now: float) -> dict[str, Metadata]:
    """Return who holds history back: the one of longest standing by name, all of them as a table."""
    if not holders:
        return {"oldest_holder_seconds": 0.0}
    first = holders[0]
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(first.since))
    rows = [
        (one.name, one.kind, one.table, f"{now - one.since:.0f} s", one.epochs, one.rows) for one in holders
    ]
    return {
        "oldest_holder_seconds": round(now - first.since, 1),
        "oldest_holder": f"{first.kind} {first.name} holds back {first.table} since {since} UTC",
        "held_back": render_table(("holder", "kind", "table", "for", "epochs", "rows"), rows),
    }


def _format_cell(value: object) -> str:
    return " ".join(str(value).split()).replace("|", "\\|")

"""Snapshot backfills as partitions of an asset: how far each is, told as it goes on, and gone on with by materializing one."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import dagster as dg
from dagster import AssetRecordsFilter
from pydantic import Field

from dagster_tideline.io.hummock_resource import HummockResource
from dagster_tideline.io.spark_resource import SparkResource
from dagster_tideline.naming import Naming
from dagster_tideline.runs.asset_builder import WORKER_TAG, get_worker_name
from dagster_tideline.runs.epoch_events import Metadata, format_failures
from dagster_tideline.runs.run_log import forward_run_log
from dagster_tideline.upkeep.job_lock import hold_job_lock
from dagster_tideline.upkeep.maintenance import GROUP, RETRY, build_one_op_job
from engine.hummock.epoch import format_epoch
from engine.meta.domains.creation import CREATED, Creation, list_creations

if TYPE_CHECKING:
    from engine.hummock import Version

BACKFILL_PROGRESS = "backfill_progress"
BACKFILLS = "backfills"
SNAPSHOT_TAG = "tideline/snapshot"
"""The epoch of a backfill's snapshot: a view that is built anew has another one, and is told of anew."""

Progress = tuple[int, int, str]


class BackfillConfig(dg.Config):
    """How long a run works on a view that is created in the background; any other is built to its end."""

    seconds: float = Field(default=60.0, gt=0)


def get_partitions_name(naming: Naming) -> str:
    """Return the name of the set of views under construction, as Dagster knows it."""
    return naming.format_name("tideline_backfills")


def build_backfill_asset(naming: Naming) -> dg.AssetsDefinition:
    """Return the asset whose partitions are the views under construction."""
    return dg.multi_asset(
        name=naming.format_name("tideline_backfills"),
        specs=[
            dg.AssetSpec(
                naming.build_upkeep_key(BACKFILLS),
                group_name=GROUP,
                kinds={"tideline"},
                partitions_def=dg.DynamicPartitionsDefinition(name=get_partitions_name(naming)),
                skippable=True,
                description="The views that are built step by step: green once whole. Materializing one goes on with it.",
            )
        ],
        retry_policy=RETRY,
    )(naming.bind(continue_backfill, naming=naming))


def continue_backfill(
    context: dg.AssetExecutionContext,
    config: BackfillConfig,
    hummock: HummockResource,
    spark: SparkResource,
    naming: Naming,
) -> Iterator[dg.AssetObservation | dg.MaterializeResult[None]]:
    """Work on the backfill of one view; it is materialized once it is whole, and observed until then."""
    context.instance.add_run_tags(context.run_id, {WORKER_TAG: get_worker_name()})
    domain = context.partition_key
    with forward_run_log(context), hummock.session(spark) as session:
        if domain not in session.backfills():
            raise dg.Failure(
                f"there is no backfill of {domain} any more: the view was dropped; the schedule takes the partition away",
                allow_retries=False,
            )
        report = session.flush(session.members(domain), background_seconds=config.seconds)
        errors = {view.view: view.error for view in report.failed if view.error is not None}
        creation = session.backfills().get(domain)
        if creation is None:
            raise dg.Failure(f"{domain} was dropped while it was built", allow_retries=False)
        if creation.state == CREATED:
            yield dg.MaterializeResult(
                asset_key=naming.build_upkeep_key(BACKFILLS),
                metadata=build_metrics(creation),
                tags={SNAPSHOT_TAG: str(creation.epoch)},
            )
        else:
            yield build_observation(domain, creation, naming)
            why = next((wait.reason for wait in session.waits() if wait.domain == domain), creation.text)
            context.log.info(f"{domain} is not whole yet: {why}")
        if errors:
            raise dg.Failure(format_failures(errors), metadata=dict(errors), allow_retries=False)


def tell_progress(
    context: dg.OpExecutionContext, hummock: HummockResource, naming: Naming
) -> Iterator[dg.AssetObservation | dg.AssetMaterialization]:
    """Tell how far each view under construction is, and once of each that is whole."""
    with hold_job_lock(context), hummock.open() as store:
        found = list_creations(store.refresh())
    instance = context.instance
    partitions = get_partitions_name(naming)
    there = set(instance.get_dynamic_partitions(partitions))
    for gone in sorted(there - set(found)):
        instance.delete_dynamic_partition(partitions, gone)
    if new := sorted(set(found) - there):
        instance.add_dynamic_partitions(partitions, new)
    for domain, creation in found.items():
        if creation.state != CREATED:
            yield build_observation(domain, creation, naming)
        elif not is_reported(instance, domain, creation, naming):
            yield dg.AssetMaterialization(
                naming.build_upkeep_key(BACKFILLS),
                partition=domain,
                metadata=build_metrics(creation),
                tags={SNAPSHOT_TAG: str(creation.epoch)},
            )


def build_backfill_job(naming: Naming) -> dg.JobDefinition:
    """Return the job that tells of them."""
    told = "Tells how far the snapshot backfills are."
    return build_one_op_job(BACKFILL_PROGRESS, tell_progress, told, naming)


def read_progress(version: "Version") -> dict[str, Progress]:
    """Return how far each backfill is, for comparing: its snapshot, the rows read, the state."""
    return {name: (one.epoch, one.rows, one.state) for name, one in list_creations(version).items()}


def is_reported(instance: dg.DagsterInstance, domain: str, creation: Creation, naming: Naming) -> bool:
    """Tell whether the end of a backfill has been told."""
    newest = instance.fetch_materializations(
        AssetRecordsFilter(asset_key=naming.build_upkeep_key(BACKFILLS), asset_partitions=[domain]), limit=1
    ).records
    event = newest[0].asset_materialization if newest else None
    return event is not None and (event.tags or {}).get(SNAPSHOT_TAG) == str(creation.epoch)


def build_observation(domain: str, creation: Creation, naming: Naming) -> dg.AssetObservation:
    """Return how far a view under construction is."""
    return dg.AssetObservation(
        naming.build_upkeep_key(BACKFILLS), partition=domain, metadata=build_metrics(creation)
    )


def build_metrics(creation: Creation) -> dict[str, Metadata]:
    """Return the numbers of a backfill; the end is estimated by its rate since the start."""
    left = creation.remaining_seconds if creation.state != CREATED else 0.0
    numbers: dict[str, Metadata] = {
        "rows": creation.rows,
        "of_about_rows": creation.total,
        "percent": round(100 * min(1.0, creation.rows / creation.total), 1) if creation.total else 100.0,
        "rows_per_second": round(creation.rate, 1),
        "seconds": round(max(0.0, creation.updated - creation.started), 1),
        "phase": creation.phase,
        "snapshot": format_epoch(creation.epoch),
        "started": dg.MetadataValue.timestamp(creation.started),
    }
    if left is not None and creation.state != CREATED:
        numbers["seconds_left"] = round(left, 1)
        numbers["estimated_end"] = dg.MetadataValue.timestamp(creation.updated + left)
    return numbers

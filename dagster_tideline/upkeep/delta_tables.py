"""Upkeep of the Delta tables that sinks keep, as a job: OPTIMIZE and VACUUM, with their numbers."""

import time
from collections.abc import Iterator

import dagster as dg
from pydantic import Field

from dagster_tideline.io.hummock_resource import HummockResource
from dagster_tideline.io.spark_resource import SparkResource
from dagster_tideline.naming import Naming
from dagster_tideline.runs.epoch_events import Metadata, format_failures
from dagster_tideline.upkeep.job_lock import hold_job_lock
from dagster_tideline.upkeep.maintenance import (
    GROUP,
    build_one_op_job,
    render_table,
)

DELTA_UPKEEP = "delta_upkeep"
_DESCRIPTION = "Optimizes and vacuums the Delta tables of sinks."


class DeltaConfig(dg.Config):
    """What is done to each table: OPTIMIZE, and VACUUM of files that left it more than `retain_hours` ago.

    Below 168 hours, Delta's own least, readers of older versions and slow writers may lose files.
    """

    optimize: bool = True
    vacuum: bool = True
    retain_hours: float = Field(default=168.0, ge=0)


def keep_delta_tables(
    context: dg.OpExecutionContext,
    config: DeltaConfig,
    hummock: HummockResource,
    spark: SparkResource,
    naming: Naming,
) -> Iterator[dg.AssetMaterialization]:
    """Optimize and vacuum the tables that sinks have made; one that fails does not keep others from it."""
    from engine.connectors.delta.sink.maintenance import maintain_tables
    from engine.meta.status.sinks import list_sinks

    with hold_job_lock(context), hummock.session(spark) as session:
        started = time.perf_counter()
        hours = config.retain_hours if config.vacuum else None
        done = list(
            maintain_tables(
                () if session.store.is_branch else list_sinks(session.stored),
                lambda: session.computing,
                optimize=config.optimize,
                retain_hours=hours,
            )
        )
        numbers: dict[str, Metadata] = {
            "tables": len(done),
            "tables_failed": sum(one.error is not None for one in done),
            "tables_lost_to_others": sum(one.lost for one in done),
            "files_added": sum(one.files_added for one in done),
            "files_removed": sum(one.files_removed for one in done),
            "bytes_added": sum(one.bytes_added for one in done),
            "bytes_removed": sum(one.bytes_removed for one in done),
            "files_deleted": sum(one.files_deleted for one in done),
            "seconds": round(time.perf_counter() - started, 3),
        }
        if done:
            rows = [(one.url, one.files_removed, one.files_added, one.files_deleted) for one in done]
            numbers["by_table"] = render_table(("table", "files merged", "into", "files deleted"), rows)
        yield dg.AssetMaterialization(naming.build_upkeep_key(DELTA_UPKEEP), metadata=numbers)
    failed = {one.url: one.error for one in done if one.error is not None}
    if failed:
        raise dg.Failure(format_failures(failed), metadata=dict(failed))


def build_delta_job(naming: Naming) -> dg.JobDefinition:
    """Return the job."""
    return build_one_op_job(DELTA_UPKEEP, keep_delta_tables, _DESCRIPTION, naming)


def build_delta_asset(naming: Naming) -> dg.AssetSpec:
    """Return the asset whose events say what the job did."""
    return dg.AssetSpec(
        naming.build_upkeep_key(DELTA_UPKEEP),
        group_name=GROUP,
        kinds={"tideline", "deltalake"},
        description=_DESCRIPTION,
    )

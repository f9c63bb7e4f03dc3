"""Upkeep of the Delta tables that sinks keep, as a job: OPTIMIZE and VACUUM, with their numbers."""

import time
from collections.abc import Iterator

import dagster as dg
from pydantic import Field

from dagster_tideline.epoch_events import Metadata, failure_text
from dagster_tideline.hummock_resource import HummockResource
from dagster_tideline.maintenance import GROUP, RETRY, maintenance_key, one_op_job, table
from dagster_tideline.spark_resource import SparkResource
from dagster_tideline.turns import in_turn

DELTA_UPKEEP = "delta_upkeep"
_TOLD = "Optimizes and vacuums the Delta tables of sinks."


class DeltaConfig(dg.Config):
    """What is done to each table: OPTIMIZE, and VACUUM of files that left it more than `retain_hours` ago.

    Below 168 hours, Delta's own least, readers of older versions and slow writers may lose files.
    """

    optimize: bool = True
    vacuum: bool = True
    retain_hours: float = Field(default=168.0, ge=0)


@dg.op(out={}, retry_policy=RETRY)
def keep_delta_tables(
    context: dg.OpExecutionContext, config: DeltaConfig, hummock: HummockResource, spark: SparkResource
) -> Iterator[dg.AssetMaterialization]:
    """Optimize and vacuum the tables that sinks have made; one that fails does not keep others from it."""
    from engine.connectors.sinks.delta_upkeep import keep_up
    from engine.meta.sinks import sinks

    with in_turn(context), hummock.session(spark) as session:
        started = time.perf_counter()
        hours = config.retain_hours if config.vacuum else None
        done = list(
            keep_up(
                sinks(session.stored), lambda: session.computing, optimize=config.optimize, retain_hours=hours
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
            numbers["by_table"] = table(("table", "files merged", "into", "files deleted"), rows)
        yield dg.AssetMaterialization(maintenance_key(DELTA_UPKEEP), metadata=numbers)
    failed = {one.url: one.error for one in done if one.error is not None}
    if failed:
        raise dg.Failure(failure_text(failed), metadata=dict(failed))


delta_upkeep_job = one_op_job(DELTA_UPKEEP, keep_delta_tables, _TOLD)
DELTA_ASSETS = [
    dg.AssetSpec(
        maintenance_key(DELTA_UPKEEP), group_name=GROUP, kinds={"tideline", "deltalake"}, description=_TOLD
    )
]

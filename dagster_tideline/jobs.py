"""The jobs: an epoch run over all assets, and compaction with garbage collection."""

import time
from collections.abc import Sequence

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from dagster_tideline.hummock_resource import HummockResource
from engine.errors import StorageError

EPOCH_RUN = "epoch_run"
COMPACTION = "compaction"
GROUP_TAG = "tideline/group"
FULL_COMPACTION_SUBLEVELS = 64


class CompactionConfig(dg.Config):
    """Which tables are compacted: those with at least `sublevels` fresh runs; `full` merges them to one run."""

    sublevels: int = 8
    full: bool = False
    grace_seconds: float = 3600.0


def epoch_job(keys: Sequence[dg.AssetKey]) -> UnresolvedAssetJobDefinition:
    """Return the job that the sensor asks for: everything that is pending, in one process.

    It plans no check: it tells of those that it has news of.
    """
    return dg.define_asset_job(
        EPOCH_RUN,
        selection=dg.AssetSelection.assets(*keys).without_checks(),
        executor_def=dg.in_process_executor,
        description="Takes landing files and brings every lagging view to the frontier of its inputs.",
    )


@dg.op
def compact_and_collect(
    context: dg.OpExecutionContext, config: CompactionConfig, hummock: HummockResource
) -> None:
    """Compact the tables that need it, then delete objects that nobody can read any more; the numbers are metadata."""
    failed: dict[str, str] = {}
    compacted: dict[str, str] = {}
    with hummock.open() as store:
        started = time.perf_counter()
        for name, table in sorted(store.refresh().tables.items()):
            if table.l0_count < config.sublevels:
                continue
            try:
                full = config.full or table.l0_count >= FULL_COMPACTION_SUBLEVELS
                compacted[name] = str((store.compact if full else store.compact_l0)(name))
            except StorageError as error:
                failed[name] = str(error)
        seconds = time.perf_counter() - started
        collected = store.gc(grace_seconds=config.grace_seconds)
        version = store.refresh()
        context.add_output_metadata(
            {
                "tables": len(version.tables),
                "tables_compacted": len(compacted),
                "seconds": round(seconds, 3),
                "files": sum(table.file_count for table in version.tables.values()),
                "bytes": sum(table.size_bytes for table in version.tables.values()),
                "garbage": str(collected),
            }
        )
    for name, report in compacted.items():
        context.log.info(f"{name}: {report}")
    if failed:
        raise dg.Failure("\n".join(f"{name}: {error}" for name, error in failed.items()))


@dg.job(
    name=COMPACTION,
    executor_def=dg.in_process_executor,
    description="Merges small files and deletes objects that nobody can read any more.",
)
def compaction_job() -> None:
    """Compact and collect."""
    compact_and_collect()

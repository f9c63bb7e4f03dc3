"""The job that the sensor asks for: an epoch run over all assets."""

from collections.abc import Sequence

import dagster as dg

from dagster_tideline.dagster_internals import UnresolvedAssetJobDefinition

EPOCH_RUN = "epoch_run"
GROUP_TAG = "tideline/group"


def build_epoch_job(keys: Sequence[dg.AssetKey], name: str = EPOCH_RUN) -> UnresolvedAssetJobDefinition:
    """Return the job that the sensor asks for: everything that is pending, in one process.

    It plans no check: it tells of those that it has news of.
    """
    return dg.define_asset_job(
        name,
        selection=dg.AssetSelection.assets(*keys).without_checks(),
        executor_def=dg.in_process_executor,
        description="Takes landing files and brings every lagging view to the frontier of its inputs.",
    )

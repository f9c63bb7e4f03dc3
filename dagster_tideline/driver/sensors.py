"""The level-triggered sensor: whenever something is pending and no run is under way, one run over all of it."""

import time
from collections.abc import Sequence

import dagster as dg
from dagster import RunsFilter

from dagster_tideline.dagster_internals import UnresolvedAssetJobDefinition
from dagster_tideline.driver.driver_job import (
    DRIVE,
    MODELS_TAG,
    compute_models_digest,
    find_start_reason,
)
from dagster_tideline.io.hummock_resource import HummockResource
from dagster_tideline.models.loader import Model
from dagster_tideline.naming import Naming
from dagster_tideline.runs.epoch_job import EPOCH_RUN, GROUP_TAG
from dagster_tideline.runs.liveness import ACTIVE, find_active_run
from dagster_tideline.runs.pending import RETRIES, Pending, find_pending
from dagster_tideline.settings import Settings, normalize_store
from engine.hummock import Hummock
from engine.hummock.back_off import Attempts
from engine.hummock.epoch import format_epoch_time

WORK_TAG = "tideline/work"
GROUP = "default"
# The daemon looks every 5 s at the soonest. A tick that finds a run under way, or nothing to do, looks again for a
# little while, so that what comes in meanwhile need not wait for the next tick. TIDELINE_SENSOR_WAIT=0 turns that off.
WAIT_STEP_SECONDS = 0.25
STORE = "tideline/store"
"""What a sensor's metadata says of the store that it updates."""


def build_sensor(
    models: Sequence[Model], job: UnresolvedAssetJobDefinition, settings: Settings, naming: Naming
) -> dg.SensorDefinition:
    """Return the sensor over these models; it opens the store once and then probes for the next manifest."""
    store = normalize_store(settings.store)

    @dg.sensor(
        name=naming.format_name("frontier_sensor"),
        job=job,
        minimum_interval_seconds=1,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Starts one run over all views that lag behind their inputs and all pending files.",
        metadata={STORE: store},
    )
    @naming.bind
    def frontier_sensor(
        context: dg.SensorEvaluationContext, hummock: HummockResource
    ) -> dg.RunRequest | dg.SkipReason:
        check_only_sensor(context, store)
        deadline = time.monotonic() + settings.sensor_wait
        while True:
            answer = evaluate_sensor(context.instance, hummock.open_cached(), models, job.name)
            if isinstance(answer, dg.RunRequest) or time.monotonic() >= deadline:
                return answer
            time.sleep(WAIT_STEP_SECONDS)

    return frontier_sensor


def check_only_sensor(context: dg.SensorEvaluationContext, store: str) -> None:
    """Raise an error where several sensors of the code location update one store.

    Each would start runs over all of it, and an epoch that one of them commits has no event from the other.
    """
    known = () if context.repository_def is None else context.repository_def.sensor_defs
    same = sorted(one.name for one in known if STORE in one.metadata and one.metadata[STORE].value == store)
    if len(same) > 1:
        raise dg.DagsterInvalidDefinitionError(
            f"the sensors {', '.join(same)} update the same store, {store}, and each updates all of it: give each "
            "`build_definitions` a store of its own, or put the models of all below one folder, in one `build_definitions`"
        )


def evaluate_sensor(
    instance: dg.DagsterInstance, store: Hummock, models: Sequence[Model], job: str = EPOCH_RUN
) -> dg.RunRequest | dg.SkipReason:
    """Ask for a run over all that is pending, or say why there is none to ask for."""
    run = find_active_run(instance, job)
    if run is not None:
        return dg.SkipReason(f"run {run.run_id[:8]} is active")
    pending = find_pending(store, models)
    return request_run(instance, pending, time.time(), job) if pending else dg.SkipReason(pending.reason)


def request_run(
    instance: dg.DagsterInstance, pending: Pending, now: float, job: str = EPOCH_RUN
) -> dg.RunRequest | dg.SkipReason:
    """Ask for a run; work that has been tried already, and is still there, is tried again at growing distances."""
    tried = [
        record
        for record in instance.get_run_records(
            RunsFilter(job_name=job, tags={WORK_TAG: pending.digest}), limit=20
        )
        if record.dagster_run.status not in ACTIVE
    ]
    if tried:
        last = max(record.end_time or record.update_timestamp.timestamp() for record in tried)
        if wait := Attempts(RETRIES, len(tried), last).find_wait(now):
            return dg.SkipReason(
                f"the last {len(tried)} runs left this undone, see their errors; tried again in {wait:.0f} s ({pending.reason})"
            )
    return dg.RunRequest(
        run_key=f"{GROUP}:{pending.epoch}:{pending.digest}:{len(tried)}",
        tags={
            WORK_TAG: pending.digest,
            GROUP_TAG: GROUP,
            "tideline/epoch": f"{format_epoch_time(pending.epoch)} UTC",
        },
    )


def build_driver_sensor(
    models: Sequence[Model], job: dg.JobDefinition, settings: Settings, naming: Naming
) -> dg.SensorDefinition:
    """Return the sensor that keeps one driver at work: it asks for the first, for successors, and in place of a dead one."""
    store = normalize_store(settings.store)

    @dg.sensor(
        name=naming.format_name("driver_sensor"),
        job=job,
        minimum_interval_seconds=1,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Keeps one driver run active, which updates the views as files and rows arrive.",
        metadata={STORE: store},
    )
    def driver_sensor(context: dg.SensorEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        check_only_sensor(context, store)
        now = time.time()
        why, skip_reason = find_start_reason(context.instance, models, settings.driver_seconds, now, naming)
        if why is None:
            return dg.SkipReason(skip_reason)
        context.log.info(why)
        driver_config = {
            "seconds": settings.driver_seconds,
            "event_seconds": settings.event_seconds,
            "epochs_in_flight": settings.epochs_in_flight,
        }
        tags = {MODELS_TAG: compute_models_digest(models, naming), GROUP_TAG: GROUP}
        return dg.RunRequest(
            run_config={"ops": {naming.format_name(DRIVE): {"config": driver_config}}}, tags=tags
        )

    return driver_sensor

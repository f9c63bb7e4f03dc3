"""The schedules of maintenance: each asks for its job unless one is under way, and names a run that takes too long."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import dagster as dg

from dagster_tideline.io.hummock_resource import HummockResource
from dagster_tideline.upkeep.backfills import BACKFILL_PROGRESS, Progress, backfill_job, read_progress
from dagster_tideline.upkeep.delta_tables import DELTA_UPKEEP, delta_upkeep_job
from dagster_tideline.upkeep.freshness import FRESHNESS, freshness_job
from dagster_tideline.upkeep.job_lock import has_last_failed, request_or_skip
from dagster_tideline.upkeep.maintenance import (
    COMPACTION,
    EXPIRED_PINS,
    GARBAGE_COLLECTION,
    LOG_TRUNCATION,
    MAINTENANCE_JOBS,
)

RUNNING = dg.DefaultScheduleStatus.RUNNING
FULL_TAG = "tideline/full"


@dataclass(frozen=True)
class JobTimes:
    """When a job of maintenance runs, how it is configured then, and after how many seconds a run of it is named.

    One with `tags` asks for its run also while others of the job are at work: it waits for its turn.
    """

    job: str
    cron: str
    description: str
    config: Mapping[str, object] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    long_seconds: float = 600.0


SCHEDULES: dict[str, JobTimes] = {
    "compaction_schedule": JobTimes(
        COMPACTION, "*/10 * * * *", "Merges the newest small files of tables that have many."
    ),
    "full_compaction_schedule": JobTimes(
        COMPACTION,
        "30 3 * * *",
        "Merges every table that was written to one sorted run.",
        {"ops": {"compact": {"config": {"full": True, "sublevels": 2}}}},
        {FULL_TAG: "true"},
        long_seconds=7200.0,
    ),
    "log_truncation_schedule": JobTimes(
        LOG_TRUNCATION, "3-59/20 * * * *", "Lets go of change logs and history that nobody needs."
    ),
    "garbage_collection_schedule": JobTimes(
        GARBAGE_COLLECTION, "6-59/30 * * * *", "Deletes objects that nobody can read any more."
    ),
    "expired_pins_schedule": JobTimes(
        EXPIRED_PINS, "1-59/30 * * * *", "Takes away pins and claims whose time is over."
    ),
    "delta_upkeep_schedule": JobTimes(
        DELTA_UPKEEP, "50 3 * * *", "Optimizes and vacuums the Delta tables of sinks.", long_seconds=7200.0
    ),
    "freshness_schedule": JobTimes(
        FRESHNESS,
        "*/5 * * * *",
        "Reports how far the views lag, and updates the overview.",
        long_seconds=120.0,
    ),
}
"""By name; the minutes differ so that jobs that commit do not start together."""


def build_schedules(
    max_lag_seconds: float,
) -> Sequence[dg.ScheduleDefinition]:
    """Return the schedules; the one of freshness fails where a view lags by more than `max_lag_seconds`."""
    late = {"ops": {"look_at_freshness": {"config": {"max_lag_seconds": max_lag_seconds}}}}
    plain = [
        _build_schedule(name, times, late if times.job == FRESHNESS else times.config)
        for name, times in SCHEDULES.items()
    ]
    return [*plain, _build_backfill_schedule()]


def _build_schedule(name: str, times: JobTimes, config: Mapping[str, object]) -> dg.ScheduleDefinition:
    @dg.schedule(
        name=name,
        job=JOBS[times.job],
        cron_schedule=times.cron,
        default_status=RUNNING,
        description=times.description,
    )
    def tick(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        return request_or_skip(
            context.instance,
            times.job,
            time.time(),
            run_config=config,
            tags=times.tags,
            long_seconds=times.long_seconds,
        )

    return tick


def _build_backfill_schedule() -> dg.ScheduleDefinition:
    """Return the schedule of progress; it asks for a run where a backfill has moved since it asked for the last one."""
    told: dict[str, Progress] = {}

    @dg.schedule(
        name="backfill_schedule",
        job=backfill_job,
        cron_schedule="* * * * *",
        default_status=RUNNING,
        description="Tells how far the views are that are built step by step.",
    )
    def tick(
        context: dg.ScheduleEvaluationContext, hummock: HummockResource
    ) -> dg.RunRequest | dg.SkipReason:
        now = read_progress(hummock.open_cached().refresh())
        if now == told and not has_last_failed(context.instance, BACKFILL_PROGRESS):
            return dg.SkipReason(
                "no view is under construction, or none has advanced since it was last reported"
            )
        answer = request_or_skip(context.instance, BACKFILL_PROGRESS, time.time(), long_seconds=120.0)
        if isinstance(answer, dg.RunRequest):
            told.clear()
            told.update(now)
        return answer

    return tick


JOBS = {
    **MAINTENANCE_JOBS,
    DELTA_UPKEEP: delta_upkeep_job,
    FRESHNESS: freshness_job,
    BACKFILL_PROGRESS: backfill_job,
}
"""All jobs of maintenance by name."""

"""The schedules of maintenance: each asks for its job unless one is under way, and names a run that takes too long."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import dagster as dg

from dagster_tideline.io.hummock_resource import HummockResource
from dagster_tideline.naming import Naming
from dagster_tideline.upkeep.backfills import BACKFILL_PROGRESS, Progress, build_backfill_job, read_progress
from dagster_tideline.upkeep.delta_tables import DELTA_UPKEEP, build_delta_job
from dagster_tideline.upkeep.freshness import FRESHNESS, build_freshness_job, look_at_freshness
from dagster_tideline.upkeep.job_lock import has_last_failed, request_or_skip
from dagster_tideline.upkeep.maintenance import (
    COMPACTION,
    EXPIRED_PINS,
    GARBAGE_COLLECTION,
    LOG_TRUNCATION,
    build_maintenance_jobs,
    compact,
)
from dagster_tideline.upkeep.sampled_oracle import (
    EVERY_SECONDS,
    SAMPLED_ORACLE,
    build_oracle_job,
    sample_rows,
)
from engine.runtime.oracle.sampling import SHARE

RUNNING = dg.DefaultScheduleStatus.RUNNING
FULL_TAG = "tideline/full"


@dataclass(frozen=True)
class JobTimes:
    """When a job of maintenance runs, how its op is configured then, and after how many seconds a run of it is named.

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
        {"full": True, "sublevels": 2},
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
    "oracle_schedule": JobTimes(
        SAMPLED_ORACLE,
        "8-59/10 * * * *",
        "Compares some rows of the views with what their queries give.",
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
    jobs: Mapping[str, dg.JobDefinition] | None = None,
    naming: Naming | None = None,
    *,
    are_on: bool = True,
    oracle_share: float = SHARE,
) -> Sequence[dg.ScheduleDefinition]:
    """Return the schedules of jobs; the one of freshness fails where a view lags by more than `max_lag_seconds`.

    Unless they `are_on`, they rest until somebody turns them on; so does that of the sampled oracle if its share is 0.
    """
    jobs, naming = jobs or JOBS, naming or Naming()
    configs: dict[str, tuple[str, Mapping[str, object]]] = {
        FRESHNESS: (look_at_freshness.__name__, {"max_lag_seconds": max_lag_seconds}),
        SAMPLED_ORACLE: (
            sample_rows.__name__,
            {"share": oracle_share, "seconds": oracle_share * EVERY_SECONDS} if oracle_share else {},
        ),
    }
    stopped = dg.DefaultScheduleStatus.STOPPED
    plain = []
    status = RUNNING if are_on else stopped
    for name, times in SCHEDULES.items():
        op, config = configs.get(times.job, (compact.__name__, times.config))
        run_config = {"ops": {naming.format_name(op): {"config": config}}} if config else {}
        own = stopped if times.job == SAMPLED_ORACLE and not oracle_share else status
        plain.append(_build_schedule(naming.format_name(name), times, jobs[times.job], run_config, own))
    return [*plain, _build_backfill_schedule(jobs[BACKFILL_PROGRESS], naming, status)]


def _build_schedule(
    name: str,
    times: JobTimes,
    job: dg.JobDefinition,
    config: Mapping[str, object],
    status: dg.DefaultScheduleStatus,
) -> dg.ScheduleDefinition:
    @dg.schedule(
        name=name,
        job=job,
        cron_schedule=times.cron,
        default_status=status,
        description=times.description,
    )
    def tick(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        return request_or_skip(
            context.instance,
            job.name,
            time.time(),
            run_config=config,
            tags=times.tags,
            long_seconds=times.long_seconds,
        )

    return tick


def _build_backfill_schedule(
    job: dg.JobDefinition, naming: Naming, status: dg.DefaultScheduleStatus
) -> dg.ScheduleDefinition:
    """Return the schedule of progress; it asks for a run where a backfill has moved since it asked for the last one."""
    reported: dict[str, Progress] = {}

    @dg.schedule(
        name=naming.format_name("backfill_schedule"),
        job=job,
        cron_schedule="* * * * *",
        default_status=status,
        description="Tells how far the views are that are built step by step.",
    )
    @naming.bind
    def tick(
        context: dg.ScheduleEvaluationContext, hummock: HummockResource
    ) -> dg.RunRequest | dg.SkipReason:
        now = read_progress(hummock.open_cached().refresh())
        if now == reported and not has_last_failed(context.instance, job.name):
            return dg.SkipReason(
                "no view is under construction, or none has advanced since it was last reported"
            )
        answer = request_or_skip(context.instance, job.name, time.time(), long_seconds=120.0)
        if isinstance(answer, dg.RunRequest):
            reported.clear()
            reported.update(now)
        return answer

    return tick


def build_jobs(naming: Naming) -> dict[str, dg.JobDefinition]:
    """Return all jobs of maintenance by the name of their kind."""
    return {
        **build_maintenance_jobs(naming),
        DELTA_UPKEEP: build_delta_job(naming),
        FRESHNESS: build_freshness_job(naming),
        SAMPLED_ORACLE: build_oracle_job(naming),
        BACKFILL_PROGRESS: build_backfill_job(naming),
    }


JOBS = build_jobs(Naming())
"""Those of a store whose assets are called as its tables and views."""

"""Turns of jobs of which two never work at once: a tick asks for none while one is under way, a run by hand waits."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import dagster as dg
from dagster import DagsterRunStatus, RunRecord, RunsFilter

from dagster_tideline.runs.asset_builder import WORKER_TAG, get_worker_name
from dagster_tideline.runs.liveness import find_active_record, is_worker_gone
from dagster_tideline.runs.run_log import forward_run_log

LONG_SECONDS = 600.0
"""A run of maintenance that takes longer is reported as too long by the ticks that find it, unless its tag says another time."""
LONG_TAG = "tideline/long_seconds"
END_AFTER = 3
"""One that takes so many times as long is ended by Dagster's run monitoring."""
LOCK_SECONDS = 1800.0
LOOK_SECONDS = 1.0


def request_or_skip(
    instance: dg.DagsterInstance,
    job: str,
    now: float,
    *,
    run_config: Mapping[str, object] | None = None,
    tags: Mapping[str, str] | None = None,
    long_seconds: float = LONG_SECONDS,
) -> dg.RunRequest | dg.SkipReason:
    """Ask for a run of a job, or say which run of it, with these tags if some are given, is under way and for how long.

    A run whose process is gone is reported as failed, and does not hold up the next.
    """
    record = find_active_record(instance, job, tags)
    if record is None:
        own = {
            LONG_TAG: f"{long_seconds:g}",
            dg.MAX_RUNTIME_SECONDS_TAG: f"{END_AFTER * long_seconds:.0f}",
            **(tags or {}),
        }
        return dg.RunRequest(run_config=dict(run_config or {}), tags=own)
    seconds = now - (record.start_time or record.create_timestamp.timestamp())
    reason = f"run {record.dagster_run.run_id[:8]} of {job} is under way for {seconds:.0f} s"
    most = float(record.dagster_run.tags.get(LONG_TAG, long_seconds))
    if seconds > most:
        reason += (
            f", longer than the {most:.0f} s that it should take: look at its log. It is ended after {END_AFTER * most:.0f} s "
            "where run monitoring is on, else cancel it; the tick after that asks for the next"
        )
    return dg.SkipReason(reason)


def has_last_failed(instance: dg.DagsterInstance, job: str) -> bool:
    """Tell whether the newest run of a job has failed."""
    runs = instance.get_runs(RunsFilter(job_name=job), limit=1)
    return bool(runs) and runs[0].status == DagsterRunStatus.FAILURE


@contextmanager
def hold_job_lock(context: dg.OpExecutionContext, seconds: float = LOCK_SECONDS) -> Iterator[None]:
    """Wait until no run of the same job that began earlier is at work; raises dg.Failure with its name after `seconds`."""
    context.instance.add_run_tags(context.run_id, {WORKER_TAG: get_worker_name()})
    deadline = time.monotonic() + seconds
    reported = ""
    with forward_run_log(context):
        while (before := _find_earlier_run(context)) is not None:
            name = before.dagster_run.run_id[:8]
            if time.monotonic() >= deadline:
                raise dg.Failure(
                    f"run {name} of {context.job_name} did not end within {seconds:.0f} s: cancel it if it makes no progress, "
                    "then start this one again",
                    allow_retries=False,
                )
            if name != reported:
                context.log.info(f"waits for run {name}, which began earlier")
                reported = name
            time.sleep(LOOK_SECONDS)
        yield


def _find_earlier_run(context: dg.OpExecutionContext) -> RunRecord | None:
    """Return a run of the same job that is at work and began before this one."""
    statuses = [DagsterRunStatus.STARTED, DagsterRunStatus.CANCELING]
    filters = RunsFilter(job_name=context.job_name, statuses=statuses)
    records = context.instance.get_run_records(filters, limit=20)
    own = next((record for record in records if record.dagster_run.run_id == context.run_id), None)
    for record in records:
        run = record.dagster_run
        if own is None or run.run_id == context.run_id or is_worker_gone(run.tags.get(WORKER_TAG)):
            continue
        if (record.start_time or 0.0, record.storage_id) < (own.start_time or 0.0, own.storage_id):
            return record
    return None

"""Runs whose process is gone: Dagster would hold them for running for ever after its own end, and so hold up the next."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping

import dagster as dg
from dagster import DagsterRunStatus, RunRecord, RunsFilter

from dagster_tideline.runs.asset_builder import WORKER_TAG

ACTIVE = (
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
    DagsterRunStatus.CANCELING,
)


def find_active_run(instance: dg.DagsterInstance, job: str) -> dg.DagsterRun | None:
    """Return a run of the job that is queued or running; runs whose process has died are reported as failed first."""
    record = find_active_record(instance, job)
    return None if record is None else record.dagster_run


def find_active_record(
    instance: dg.DagsterInstance, job: str, tags: Mapping[str, str] | None = None
) -> RunRecord | None:
    """Return the record of a run of the job, with these tags if some are given, as `find_active_run` does."""
    filters = RunsFilter(job_name=job, statuses=list(ACTIVE), tags=dict(tags or {}))
    for record in instance.get_run_records(filters, limit=10):
        run = record.dagster_run
        if not is_worker_gone(run.tags.get(WORKER_TAG)):
            return record
        instance.report_run_failed(run, "the process of this run is gone; the next run takes what was left")
    return None


def is_worker_gone(worker: str | None) -> bool:
    """Whether a worker ran on this machine and its process has ended; one elsewhere is believed to live."""
    host, _, pid = (worker or "").rpartition(":")
    if host != platform.node() or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False

"""The schedules: small compactions every ten minutes, a full one every night."""

from __future__ import annotations

import dagster as dg

from dagster_tideline.jobs import compaction_job

RUNNING = dg.DefaultScheduleStatus.RUNNING

compaction_schedule = dg.ScheduleDefinition(
    name="compaction_schedule",
    job=compaction_job,
    cron_schedule="*/10 * * * *",
    default_status=RUNNING,
    description="Merges the newest small files of tables that have many.",
)

full_compaction_schedule = dg.ScheduleDefinition(
    name="full_compaction_schedule",
    job=compaction_job,
    cron_schedule="30 3 * * *",
    run_config={"ops": {"compact_and_collect": {"config": {"full": True, "sublevels": 2}}}},
    default_status=RUNNING,
    description="Merges every table that was written to one sorted run.",
)

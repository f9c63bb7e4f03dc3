"""The schedules: what they ask for is a run that its job takes, and never a second one beside another."""

from pathlib import Path

import dagster as dg
import pytest
from dagster import DagsterRunStatus

from dagster_tideline.runs.asset_builder import WORKER_TAG, get_worker_name
from dagster_tideline.upkeep.schedules import FULL_TAG, JOBS, SCHEDULES, build_schedules
from tests.long_rest import mark_rest_long

PLAIN = {schedule.name: schedule for schedule in build_schedules(42.0) if schedule.name in SCHEDULES}


def tick(instance: dg.DagsterInstance, name: str) -> dg.RunRequest | dg.SkipReason:
    with dg.build_schedule_context(instance=instance) as context:
        answer = PLAIN[name](context)
    assert isinstance(answer, dg.RunRequest | dg.SkipReason)
    return answer


@pytest.mark.parametrize("name", mark_rest_long(sorted(SCHEDULES), keep=3))
def test_a_tick_asks_for_a_run_that_its_job_takes_and_for_none_beside_it(name: str, tmp_path: Path) -> None:
    times = SCHEDULES[name]
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        asked = tick(instance, name)
        assert isinstance(asked, dg.RunRequest)
        bound = dg.Definitions(
            jobs=[JOBS[times.job]],
            resources=dict.fromkeys(("hummock", "spark"), dg.ResourceDefinition.none_resource()),
        )
        job = bound.resolve_job_def(times.job)
        assert dg.validate_run_config(job, asked.run_config) is not None
        run = instance.create_run_for_job(
            dg.GraphDefinition(name=times.job).to_job(),
            status=DagsterRunStatus.STARTED,
            tags={**asked.tags, WORKER_TAG: get_worker_name()},
        )
        skipped = tick(instance, name)
        assert isinstance(skipped, dg.SkipReason) and run.run_id[:8] in str(skipped.skip_message)
        instance.report_run_failed(run)
        assert isinstance(tick(instance, name), dg.RunRequest)


def test_the_nightly_compaction_is_not_lost_to_a_small_one_of_the_same_minute(tmp_path: Path) -> None:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        instance.create_run_for_job(
            dg.GraphDefinition(name="compaction").to_job(),
            status=DagsterRunStatus.STARTED,
            tags={WORKER_TAG: get_worker_name()},
        )
        assert isinstance(tick(instance, "compaction_schedule"), dg.SkipReason)
        asked = tick(instance, "full_compaction_schedule")
        assert isinstance(asked, dg.RunRequest) and asked.tags[FULL_TAG] == "true"


def test_the_projects_settings_say_how_far_a_view_may_lag(tmp_path: Path) -> None:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        asked = tick(instance, "freshness_schedule")
    assert isinstance(asked, dg.RunRequest)
    assert asked.run_config == {"ops": {"look_at_freshness": {"config": {"max_lag_seconds": 42.0}}}}

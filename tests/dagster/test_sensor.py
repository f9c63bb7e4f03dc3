"""The level-triggered sensor: asks once for what is pending, waits while a run is under way, backs off from failures."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import dagster as dg
import pytest
from dagster import DagsterRunStatus

from dagster_tideline import Settings, build_definitions
from dagster_tideline.driver.sensors import (
    STORE,
    WORK_TAG,
    check_only_sensor,
    evaluate_sensor,
    request_run,
)
from dagster_tideline.runs.asset_builder import WORKER_TAG, get_worker_name
from dagster_tideline.runs.epoch_job import EPOCH_RUN
from dagster_tideline.runs.liveness import find_active_run, is_worker_gone
from dagster_tideline.runs.pending import RETRIES, find_pending
from tests.dagster.conftest import SOURCE, TOTALS, Project

FIRST = "id,shop,price\n1,a,10\n"


def ask(project: Project) -> dg.RunRequest | dg.SkipReason:
    return evaluate_sensor(project.instance, project.session.store, project.models)


def add_run(project: Project, status: DagsterRunStatus, tags: dict[str, str]) -> dg.DagsterRun:
    job = dg.GraphDefinition(name=EPOCH_RUN).to_job()
    return project.instance.create_run_for_job(job, status=status, tags=tags)


def test_new_models_are_a_reason_to_run(project: Project) -> None:
    asked = ask(project)
    assert isinstance(asked, dg.RunRequest)
    assert set(find_pending(project.session.store, project.models).models) == {"orders", "totals", "large"}


def test_it_skips_with_a_reason_when_nothing_is_pending(project: Project) -> None:
    project.land("1.csv", FIRST)
    project.run()
    asked = ask(project)
    assert isinstance(asked, dg.SkipReason)
    assert "every view is at the frontier" in str(asked.skip_message)


def test_a_file_that_waits_is_a_reason_to_run(project: Project) -> None:
    project.run()
    project.land("1.csv", FIRST)
    asked = ask(project)
    assert isinstance(asked, dg.RunRequest)
    assert str(asked.run_key).startswith("default:")


def test_a_write_by_anybody_makes_views_lag(project: Project) -> None:
    project.run()
    project.session.sql("INSERT INTO orders VALUES (7, 'x', 1)")
    assert set(find_pending(project.session.store, project.models).lagging) == {"totals", "large"}


def test_a_mutation_that_waits_is_a_reason_to_run_and_new_work_each_time(project: Project) -> None:
    (project.home / "landing" / "orders").mkdir(parents=True)
    project.session.sql(SOURCE)
    project.session.sql(TOTALS)
    project.session.flush()
    digests = set()
    for word in ("PAUSE", "RESUME", "PAUSE"):
        project.session.sql(f"ALTER MATERIALIZED VIEW totals {word}")
        pending = find_pending(project.session.store, ())
        assert pending.lagging == ("totals",)
        digests.add(pending.digest)
        project.session.flush(eager=False)
        assert not find_pending(project.session.store, ())
    assert len(digests) == 3


def test_it_waits_while_a_run_is_under_way(project: Project) -> None:
    add_run(project, DagsterRunStatus.STARTED, {WORKER_TAG: get_worker_name()})
    asked = ask(project)
    assert isinstance(asked, dg.SkipReason)
    assert "is active" in str(asked.skip_message)


def test_a_run_whose_process_is_gone_holds_nothing_up(project: Project) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    run = add_run(project, DagsterRunStatus.STARTED, {WORKER_TAG: f"{platform.node()}:{ended.pid}"})
    assert find_active_run(project.instance, EPOCH_RUN) is None
    found = project.instance.get_run_by_id(run.run_id)
    assert found is not None
    assert found.status == DagsterRunStatus.FAILURE


def test_a_worker_elsewhere_is_believed_to_live() -> None:
    assert not is_worker_gone("another-host:1")
    assert not is_worker_gone(None)
    assert not is_worker_gone(f"{platform.node()}:{os.getpid()}")


def test_work_that_failed_is_tried_again_later_and_with_a_new_key(project: Project) -> None:
    pending = find_pending(project.session.store, project.models)
    first = request_run(project.instance, pending, 0.0)
    assert isinstance(first, dg.RunRequest)
    run = add_run(project, DagsterRunStatus.FAILURE, {WORK_TAG: pending.digest})
    (record,) = project.instance.get_run_records(dg.RunsFilter(run_ids=[run.run_id]))
    ended = record.end_time or record.update_timestamp.timestamp()
    assert isinstance(request_run(project.instance, pending, ended + 1), dg.SkipReason)
    again = request_run(project.instance, pending, ended + RETRIES.find_wait(1) + 1)
    assert isinstance(again, dg.RunRequest)
    assert again.run_key != first.run_key


def test_new_work_does_not_wait_for_old_failures(project: Project) -> None:
    project.run()
    project.session.sql("INSERT INTO orders VALUES (7, 'x', 1)")
    pending = find_pending(project.session.store, project.models)
    add_run(project, DagsterRunStatus.FAILURE, {WORK_TAG: pending.digest})
    assert isinstance(ask(project), dg.SkipReason)
    project.session.sql("INSERT INTO orders VALUES (8, 'x', 1)")
    assert isinstance(ask(project), dg.RunRequest)


def test_claims_of_writers_are_not_new_work(project: Project) -> None:
    project.run()
    project.session.sql("INSERT INTO orders VALUES (7, 'x', 1)")
    before = find_pending(project.session.store, project.models)
    project.session.store.claim("totals")
    assert find_pending(project.session.store, project.models).digest == before.digest


@pytest.mark.parametrize(("attempts", "seconds"), [(0, 0), (1, 15), (2, 30), (3, 60), (50, 1800)])
def test_retries_keep_growing_distances_up_to_a_bound(attempts: int, seconds: float) -> None:
    assert RETRIES.find_wait(attempts) == seconds


@pytest.mark.parametrize("runs", ["tick", "driver"])
def test_two_definitions_of_one_store_are_told_at_the_first_tick(project: Project, runs: str) -> None:
    settings = Settings.of_environment(project.home).replace(
        assets=project.home / "assets", store=project.session.url, runs=runs, sensor_wait=0.0
    )
    prefixed = [settings.replace(key_prefix=prefix) for prefix in ("a", "b", "c")]
    prefixed[2] = prefixed[2].replace(store=f"{settings.store}-other")
    merged = dg.Definitions.merge(*(build_definitions(one) for one in prefixed))
    a, _, c = sorted(merged.sensors or (), key=lambda sensor: sensor.name)
    known = merged.get_repository_def()
    with dg.build_sensor_context(instance=project.instance, repository_def=known) as context:
        with pytest.raises(dg.DagsterInvalidDefinitionError, match=rf"{a.name}, b_.* update the same store"):
            check_only_sensor(context, settings.store)
        check_only_sensor(context, prefixed[2].store)
        for sensor in merged.sensors or ():
            assert (STORE in sensor.metadata) and (
                sensor is c or sensor.metadata[STORE].value == settings.store
            )

"""Backfills as partitions: told as they go on, gone on with by a click, told once as whole."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from dagster import DagsterRunStatus

from dagster_tideline.io.hummock_resource import HummockResource
from dagster_tideline.io.spark_resource import SparkResource
from dagster_tideline.naming import Naming
from dagster_tideline.upkeep.backfills import (
    BACKFILL_PROGRESS,
    BACKFILLS,
    build_backfill_asset,
    get_partitions_name,
)
from dagster_tideline.upkeep.schedules import build_schedules
from tests.dagster.conftest import Project

ROWS = 20_000
ASSET = Naming().build_upkeep_key(BACKFILLS)
PARTITIONS = get_partitions_name(Naming())
VIEW = "CREATE MATERIALIZED VIEW doubled WITH (background = 'true') AS SELECT id, price * 2 AS p FROM orders"


@pytest.fixture
def building(project: Project) -> Iterator[Project]:
    """A project with a view of which a part is built."""
    project.run()
    ids = list(range(ROWS))
    project.session.write(
        "orders",
        pa.table({"id": pa.array(ids, pa.int32()), "shop": ["a"] * ROWS, "price": pa.array(ids, pa.int32())}),
    )
    project.session.sql(VIEW)
    project.session.throttle("doubled", 4000)
    project.session.flush(background_seconds=0.5)
    assert project.session.backfills()["doubled"].state == "consuming_snapshot"
    yield project


def observed(project: Project) -> list[dict[str, Any]]:
    found = project.instance.fetch_observations(ASSET, limit=100).records
    events = [record.asset_observation for record in found]
    return [
        {"partition": event.partition, **{name: value.value for name, value in event.metadata.items()}}
        for event in events
        if event is not None
    ]


def whole(project: Project) -> list[str | None]:
    found = project.instance.fetch_materializations(ASSET, limit=100).records
    return [record.partition_key for record in found]


def click(project: Project, seconds: float, partition: str = "doubled") -> dg.ExecuteInProcessResult:
    return dg.materialize(
        [build_backfill_asset(Naming())],
        instance=project.instance,
        partition_key=partition,
        resources={
            "hummock": HummockResource(url=project.session.url),
            "spark": SparkResource(target="local[2]"),
        },
        run_config={"ops": {"tideline_backfills": {"config": {"seconds": seconds}}}},
        raise_on_error=False,
    )


def tick(
    project: Project, instance: dg.DagsterInstance, schedule: dg.ScheduleDefinition
) -> dg.RunRequest | dg.SkipReason:
    resources = {"hummock": HummockResource(url=project.session.url)}
    with dg.build_schedule_context(instance=instance, resources=resources) as context:
        answer = schedule(context)
    assert isinstance(answer, dg.RunRequest | dg.SkipReason)
    return answer


@pytest.mark.long
def test_progress_is_a_partition_and_its_end_is_told_once(building: Project) -> None:
    assert building.maintain(BACKFILL_PROGRESS).success
    assert building.instance.get_dynamic_partitions(PARTITIONS) == ["doubled"]
    (seen,) = observed(building)
    read = building.session.backfills()["doubled"].rows
    assert (seen["partition"], seen["rows"], seen["phase"]) == ("doubled", read, "consuming_snapshot")
    assert 0 < seen["percent"] < 100 and seen["rows_per_second"] > 0
    assert seen["seconds_left"] > 0 and seen["estimated_end"] > seen["started"]
    assert whole(building) == []
    building.session.throttle("doubled", None)
    building.session.wait(["doubled"])
    for _ in range(2):
        assert building.maintain(BACKFILL_PROGRESS).success
    assert whole(building) == ["doubled"] and len(observed(building)) == 1
    assert building.read_metadata("tideline_backfills")["rows"] > read


@pytest.mark.long
def test_a_click_goes_on_for_its_seconds_and_materializes_only_what_is_whole(building: Project) -> None:
    building.maintain(BACKFILL_PROGRESS)
    before = building.session.backfills()["doubled"].rows
    assert click(building, 0.5).success
    between = building.session.backfills()["doubled"].rows
    assert before < between < ROWS and whole(building) == []
    assert observed(building)[0]["rows"] == between
    building.session.throttle("doubled", None)
    assert click(building, 60).success
    assert whole(building) == ["doubled"]
    assert building.maintain(BACKFILL_PROGRESS).success
    assert whole(building) == ["doubled"]  # the schedule does not tell it again
    assert len(building.contents("doubled")) == ROWS


def test_a_paused_backfill_stays_where_it_is_and_says_why(building: Project) -> None:
    building.maintain(BACKFILL_PROGRESS)
    building.session.throttle("doubled", 0)
    before = building.session.backfills()["doubled"].rows
    result = click(building, 1)
    assert result.success and whole(building) == []
    assert building.session.backfills()["doubled"].rows == before
    records = building.instance.get_records_for_run(result.run_id).records
    assert any("paused" in record.event_log_entry.user_message for record in records)


@pytest.mark.long
def test_a_view_that_is_dropped_loses_its_partition_and_one_built_anew_is_told_anew(
    building: Project,
) -> None:
    building.session.throttle("doubled", None)
    building.session.wait(["doubled"])
    building.maintain(BACKFILL_PROGRESS)
    building.session.sql("DROP MATERIALIZED VIEW doubled")
    assert building.maintain(BACKFILL_PROGRESS).success
    assert building.instance.get_dynamic_partitions(PARTITIONS) == []
    building.session.sql(VIEW)
    building.session.wait(["doubled"])
    assert building.maintain(BACKFILL_PROGRESS).success
    assert whole(building) == ["doubled", "doubled"]


@pytest.mark.long
def test_the_schedule_asks_only_where_a_backfill_has_moved_or_could_not_be_told(
    building: Project, tmp_path: Path
) -> None:
    schedule = next(found for found in build_schedules(900) if found.name == "backfill_schedule")
    (tmp_path / "instance").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "instance")) as instance:
        assert isinstance(tick(building, instance, schedule), dg.RunRequest)
        assert isinstance(tick(building, instance, schedule), dg.SkipReason)
        building.session.flush(background_seconds=0.5)
        assert isinstance(tick(building, instance, schedule), dg.RunRequest)
        assert isinstance(tick(building, instance, schedule), dg.SkipReason)
        job = dg.GraphDefinition(name=BACKFILL_PROGRESS).to_job()
        run = instance.create_run_for_job(job, status=DagsterRunStatus.FAILURE)
        assert isinstance(tick(building, instance, schedule), dg.RunRequest)
        instance.delete_run(run.run_id)

"""The definitions as Dagster loads them, and the layers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import dagster as dg

from dagster_tideline.maintenance import GROUP
from dagster_tideline.schedules import JOBS, SCHEDULES
from tests.dagster.conftest import Project

ROOT = Path(__file__).resolve().parents[2]


def test_every_model_is_an_asset_with_its_inputs(
    project: Project, definitions: Callable[[], dg.Definitions]
) -> None:
    graph = definitions().resolve_asset_graph()
    names = {key.to_user_string() for key in graph.get_all_asset_keys()}
    assert {name for name in names if not name.startswith("tideline_")} == {"orders", "totals", "large"}
    parents = {key.to_user_string() for key in graph.get(dg.AssetKey("large")).parent_keys}
    assert parents == {"totals"}


def test_jobs_sensor_and_schedules_are_there(
    project: Project, definitions: Callable[[], dg.Definitions]
) -> None:
    repository = definitions().get_repository_def()
    assert {"epoch_run", *JOBS} <= {job.name for job in repository.get_all_jobs()}
    (sensor,) = repository.sensor_defs
    assert (sensor.name, sensor.default_status) == ("frontier_sensor", dg.DefaultSensorStatus.RUNNING)
    schedules = {schedule.name: schedule for schedule in repository.schedule_defs}
    assert set(schedules) == {*SCHEDULES, "backfill_schedule"}
    assert {schedule.default_status for schedule in schedules.values()} == {dg.DefaultScheduleStatus.RUNNING}
    assert {schedule.job_name for schedule in schedules.values()} == set(JOBS)


def test_what_maintenance_tells_of_are_assets_that_no_epoch_run_takes(
    project: Project, definitions: Callable[[], dg.Definitions]
) -> None:
    found = definitions()
    graph = found.resolve_asset_graph()
    told = {key.to_user_string() for key in graph.get_all_asset_keys() if graph.get(key).group_name == GROUP}
    assert told == {
        "tideline_backfills",
        "tideline_compaction",
        "tideline_delta_upkeep",
        "tideline_expired_pins",
        "tideline_freshness",
        "tideline_garbage_collection",
        "tideline_log_truncation",
        "tideline_overview",
    }
    job = found.resolve_job_def("epoch_run")
    assert {key.to_user_string() for key in job.asset_layer.executable_asset_keys} == {
        "orders",
        "totals",
        "large",
    }


def test_a_project_without_models_loads(project: Project, definitions: Callable[[], dg.Definitions]) -> None:
    for path in (project.home / "assets").rglob("*.sql"):
        path.unlink()
    assert [job.name for job in definitions().get_repository_def().get_all_jobs() if job.name == "compaction"]


def test_columns_have_the_types_of_the_store_once_it_knows_them(
    project: Project, definitions: Callable[[], dg.Definitions]
) -> None:
    project.run()
    spec = next(s for s in definitions().resolve_all_asset_specs() if s.key == dg.AssetKey("totals"))
    columns = spec.metadata["dagster/column_schema"].columns
    assert [(column.name, column.type) for column in columns] == [("shop", "string"), ("total", "bigint")]


def test_a_plain_view_is_an_asset_between_its_inputs_and_its_readers(
    project: Project, definitions: Callable[[], dg.Definitions]
) -> None:
    project.model("shop/cheap.sql", "CREATE VIEW cheap AS SELECT id, shop FROM orders WHERE price < 10")
    project.model(
        "shop/cheap_shops.sql",
        "CREATE MATERIALIZED VIEW cheap_shops AS SELECT shop, count(*) AS n FROM cheap GROUP BY shop",
    )
    project.land("1.csv", "id,shop,price\n1,a,5\n")
    graph = definitions().resolve_asset_graph()
    assert graph.get(dg.AssetKey("cheap_shops")).parent_keys == {dg.AssetKey("cheap")}
    assert not graph.get(dg.AssetKey("cheap")).is_materializable
    assert project.run().success
    assert project.contents("cheap_shops") == [{"shop": "a", "n": 1}]


def test_layers_are_kept() -> None:
    lint = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([str(lint)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout

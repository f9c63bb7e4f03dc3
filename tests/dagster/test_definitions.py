"""The definitions as Dagster loads them, and the layers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest

from dagster_tideline.upkeep.maintenance import GROUP
from dagster_tideline.upkeep.schedules import JOBS, SCHEDULES
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


TABLE = "CREATE TABLE a (id INT PRIMARY KEY);\n"
REFUSED = {
    "handle.sql": f"-- owners: @data-team\n{TABLE}",
    "mail.sql": f"-- owners: ops@localhost, team:\n{TABLE}",
    "group.sql": f"-- group: umsätze\n{TABLE}",
    "umsätze/a.sql": TABLE,
    "umsätze.sql": "SELECT 1 AS x;\n",
    "umsätze/views.py": "from dagster_tideline import materialized_view\n\n\n@materialized_view\ndef umsätze():\n    return 'SELECT 1'\n",
    "reads.sql": "CREATE MATERIALIZED VIEW a AS SELECT * FROM `umsätze`;\n",
    "cut.sql": "-- owners: @data-team\nCREATE MATERIALIZED VIEW a WITH (partition_by = 'shop') AS SELECT shop FROM totals;",
    "tags.sql": f"-- tags: {'x' * 63}/{'y' * 63}={'z' * 63}\n{TABLE}",
    "check.sql": "-- check schön: n > 0\nCREATE MATERIALIZED VIEW a AS SELECT 1 AS n;",
    "itself.sql": "CREATE MATERIALIZED VIEW a AS SELECT * FROM a;",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_dagster_refuses_of_one_model_costs_no_other(
    project: Project, definitions: Callable[[], dg.Definitions], name: str
) -> None:
    project.model(name, REFUSED[name])
    found = definitions()
    names = {key.to_user_string() for key in found.resolve_asset_graph().get_all_asset_keys()}
    assert {"orders", "totals", "large"} < names
    assert found.resolve_job_def("epoch_run") is not None


def test_jobs_sensor_and_schedules_are_there(
    project: Project, definitions: Callable[[], dg.Definitions]
) -> None:
    repository = definitions().get_repository_def()
    assert {"epoch_run", "answers", "change_gate", *JOBS} <= {job.name for job in repository.get_all_jobs()}
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
    names = {key.to_user_string() for key in graph.get_all_asset_keys() if graph.get(key).group_name == GROUP}
    assert names == {
        "tideline_answers",
        "tideline_backfills",
        "tideline_compaction",
        "tideline_delta_upkeep",
        "tideline_expired_pins",
        "tideline_freshness",
        "tideline_garbage_collection",
        "tideline_log_truncation",
        "tideline_overview",
        "tideline_sampled_oracle",
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

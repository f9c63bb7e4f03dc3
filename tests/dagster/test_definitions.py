"""The definitions as Dagster loads them, the compaction job, and the layers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import dagster as dg

from dagster_tideline.hummock_resource import HummockResource
from dagster_tideline.jobs import compaction_job
from tests.dagster.conftest import Project

ROOT = Path(__file__).resolve().parents[2]


def test_every_model_is_an_asset_with_its_inputs(
    project: Project, definitions: Callable[[], dg.Definitions]
) -> None:
    graph = definitions().resolve_asset_graph()
    names = {key.to_user_string() for key in graph.get_all_asset_keys()}
    assert names == {"orders", "totals", "large"}
    parents = {key.to_user_string() for key in graph.get(dg.AssetKey("large")).parent_keys}
    assert parents == {"totals"}


def test_jobs_sensor_and_schedules_are_there(
    project: Project, definitions: Callable[[], dg.Definitions]
) -> None:
    repository = definitions().get_repository_def()
    assert {"epoch_run", "compaction"} <= {job.name for job in repository.get_all_jobs()}
    (sensor,) = repository.sensor_defs
    assert (sensor.name, sensor.default_status) == ("frontier_sensor", dg.DefaultSensorStatus.RUNNING)
    assert {schedule.name for schedule in repository.schedule_defs} == {
        "compaction_schedule",
        "full_compaction_schedule",
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


def test_the_compaction_job_merges_and_reports_numbers(project: Project) -> None:
    project.run()
    for number in range(3):
        project.session.sql(f"INSERT INTO orders VALUES ({number}, 'x', 1)")
    result = compaction_job.execute_in_process(
        instance=project.instance,
        resources={"hummock": HummockResource(url=project.session.url)},
        run_config={"ops": {"compact_and_collect": {"config": {"sublevels": 2, "full": True}}}},
    )
    assert result.success
    assert project.session.store.refresh().tables["orders"].file_count == 1
    assert len(project.contents("orders")) == 3


def test_layers_are_kept() -> None:
    lint = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([str(lint)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout

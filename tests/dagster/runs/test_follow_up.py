"""Runs that the sensor asked for take what lands while they are at work; runs by hand take what there was."""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg
import pytest

from dagster_tideline.io.hummock_resource import HummockResource
from dagster_tideline.io.spark_resource import SparkResource
from dagster_tideline.naming import Naming
from dagster_tideline.runs import follow_up
from dagster_tideline.runs.asset_builder import build_assets, list_epoch_models
from dagster_tideline.runs.epoch_events import fetch_reported_tags, get_reported_version
from dagster_tideline.runs.epoch_job import GROUP_TAG, build_epoch_job
from dagster_tideline.runs.pending import find_pending
from tests.dagster.conftest import Project

HEAD = "id,shop,price\n"
NAMES = ("orders", "totals")


class Clock:
    """Time stands still while files land, one whenever the run has nothing to do, and is over after the last one."""

    def __init__(self, project: Project, files: list[str]) -> None:
        self.project, self.files, self.now, self.landed = project, files, 0.0, 0

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        if not self.files:
            self.now = float("inf")
            return
        self.landed += 1
        self.project.land(f"meanwhile-{self.landed}.csv", self.files.pop(0))


def run(project: Project, tags: Mapping[str, str]) -> dg.ExecuteInProcessResult:
    definitions = dg.Definitions(
        assets=build_assets(project.models, {}),
        jobs=[build_epoch_job([dg.AssetKey(name) for name in list_epoch_models(project.models)])],  # type: ignore[list-item]
        resources={
            "hummock": HummockResource(url=project.session.url),
            "spark": SparkResource(target="local[2]"),
        },
    )
    job = definitions.resolve_job_def("epoch_run")
    return job.execute_in_process(instance=project.instance, tags=dict(tags), raise_on_error=False)


def list_materializations(project: Project, name: str) -> list[dg.AssetMaterialization]:
    records = project.instance.fetch_materializations(dg.AssetKey(name), limit=20).records
    return [record.asset_materialization for record in reversed(records) if record.asset_materialization]


def totals(project: Project) -> dict[object, object]:
    return {row["shop"]: row["total"] for row in project.contents("totals")}


def test_a_run_of_the_sensor_takes_what_lands_while_it_is_at_work(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.land("1.csv", f"{HEAD}1,a,5\n")
    clock = Clock(project, [f"{HEAD}{n},a,{n}\n" for n in (2, 3, 4)])
    monkeypatch.setattr(follow_up, "time", clock)
    assert run(project, {GROUP_TAG: "default"}).success and clock.landed == 3
    assert totals(project) == {"a": 14}
    orders = list_materializations(project, "orders")
    assert [event.metadata["rows_in"].value for event in orders] == [
        1,
        1,
        2,
    ]  # at once, the next, and the rest at the end
    versions = [int((event.tags or {})["dagster/data_version"]) for event in orders]
    assert versions == sorted(set(versions))
    assert get_reported_version(fetch_reported_tags(project.instance, NAMES, Naming()), "orders") == str(
        project.session.store.refresh().tables["orders"].committed_epoch
    )
    assert not find_pending(project.session.store, project.models)


def test_a_run_by_hand_takes_what_there_was(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.land("1.csv", f"{HEAD}1,a,5\n")
    clock = Clock(project, [f"{HEAD}2,a,7\n"])
    monkeypatch.setattr(follow_up, "time", clock)
    assert run(project, {}).success and clock.landed == 0
    assert totals(project) == {"a": 5} and len(list_materializations(project, "orders")) == 1


@pytest.mark.long
def test_a_run_fails_by_what_fails_meanwhile_and_tells_what_else_it_did(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.model(
        "shop/broken.sql", "CREATE MATERIALIZED VIEW broken AS SELECT id, 1 / (price - 7) AS x FROM orders;"
    )
    project.land("1.csv", f"{HEAD}1,a,5\n")
    clock = Clock(project, [f"{HEAD}2,b,1\n", f"{HEAD}3,a,7\n", f"{HEAD}4,a,1\n"])
    monkeypatch.setattr(follow_up, "time", clock)
    result = run(project, {GROUP_TAG: "default"})
    (failure,) = [event for event in result.all_events if event.is_step_failure]
    assert not result.success and clock.landed == 2
    assert "broken: [DIVIDE_BY_ZERO]" in str(failure.event_specific_data)
    assert totals(project) == {"a": 12, "b": 1}
    assert [event.metadata["rows_in"].value for event in list_materializations(project, "orders")] == [
        1,
        1,
        1,
    ]
    assert len(list_materializations(project, "broken")) == 2

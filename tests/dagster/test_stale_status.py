"""Dagster's own word on every asset: fresh where the views are current, stale where they are not, in both ways of running."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import dagster as dg
import pyarrow as pa
import pytest

from dagster_tideline import Settings, build_definitions
from dagster_tideline.driver.driver_job import build_driver_job
from dagster_tideline.io.hummock_resource import HummockResource
from dagster_tideline.io.io_manager import TidelineIOManager
from dagster_tideline.io.spark_resource import SparkResource
from dagster_tideline.runs import epoch_run, follow_up
from dagster_tideline.runs.epoch_job import GROUP_TAG
from demo.stale import find_stale
from engine.connectors.sinks.files import FileSink
from engine.runtime.domains.epochs import EpochRunner
from tests.dagster.conftest import Project
from tests.long_rest import mark_rest_long

HEAD = "id,shop,price\n"
MORE = {
    "shop/named.sql": "CREATE VIEW named AS SELECT shop, upper(shop) AS name, total FROM totals;",
    "shop/from_plain.sql": "CREATE MATERIALIZED VIEW from_plain AS SELECT name, total FROM named WHERE total > 3;",
    "shop/cut.sql": "CREATE MATERIALIZED VIEW cut WITH (partition_by = 'shop') AS "
    "SELECT shop, count(*) AS n FROM orders GROUP BY shop;",
    "shop/over_cut.sql": "CREATE MATERIALIZED VIEW over_cut AS SELECT sum(n) AS n FROM cut;",
    "shop/idle.sql": "CREATE TABLE idle (id INT PRIMARY KEY);",
    "shop/joined.sql": "CREATE MATERIALIZED VIEW joined AS SELECT o.id FROM orders o JOIN idle i ON i.id = o.id;",
    "shop/out.sql": "CREATE SINK out FROM large WITH (connector = 'file', path = 'out', format = 'jsonl');",
}
FEW = {name: MORE[name] for name in ("shop/named.sql", "shop/from_plain.sql", "shop/out.sql")}


def _resources(project: Project) -> dict[str, object]:
    return {"hummock": HummockResource(url=project.session.url), "spark": SparkResource(target="local[2]")}


def _definitions(project: Project, *assets: dg.AssetsDefinition) -> dg.Definitions:
    made = _resources(project)
    resources = {**made, "io_manager": TidelineIOManager(**made)} if assets else made
    return build_definitions(Settings.of_environment(project.home), resources, assets)  # type: ignore[arg-type]


def stale_ones(project: Project, made: dg.Definitions) -> Mapping[str, object]:
    """Return what Dagster calls of the project's assets other than fresh, and why."""
    return find_stale(
        project.instance, made, [model.name for model in project.models if model.kind != "view"]
    )


def run(project: Project, way: str, made: dg.Definitions, **config: float) -> None:
    """Take what is pending as a run of the sensor, by hand, or by a driver that ends at once after it."""
    if way == "driver":
        ops = {"drive": {"config": {"seconds": 0.5, "event_seconds": 0.0, **config}}}
        result = made.resolve_job_def("driver").execute_in_process(
            instance=project.instance, run_config={"ops": ops}, raise_on_error=False
        )
    else:
        tags = {GROUP_TAG: "default"} if way == "sensor" else {}
        result = made.resolve_job_def("epoch_run").execute_in_process(
            instance=project.instance, tags=tags, raise_on_error=False
        )
    assert result.success, result.all_events[-1]


@pytest.mark.parametrize("way", mark_rest_long(["driver", "sensor"]))
@pytest.mark.parametrize("views", [FEW, pytest.param(MORE, marks=pytest.mark.long)], ids=["few", "all"])
def test_all_assets_are_fresh_after_a_bulk_idle_inputs_and_a_successor(
    project: Project, monkeypatch: pytest.MonkeyPatch, way: str, views: Mapping[str, str]
) -> None:
    monkeypatch.setenv("TIDELINE_RUNS", "driver")  # its job is there then, beside that of ticks
    monkeypatch.setattr(follow_up, "DAEMON_SECONDS", follow_up.END_SECONDS)  # else a run waits that long
    for name, text in views.items():
        project.model(name, text)
    made = _definitions(project)
    project.land("1.csv", f"{HEAD}1,a,10\n2,b,5\n3,a,4\n")
    run(project, way, made)
    assert stale_ones(project, made) == {}
    run(project, way, made)
    assert stale_ones(project, made) == {}
    project.land("2.csv", f"{HEAD}2,b,6\n")  # totals change, large and what is below it do not
    run(project, way, made, event_seconds=1000.0)
    assert stale_ones(project, made) == {}
    project.session.sql("INSERT INTO orders VALUES (9, 'c', 100)")
    project.session.sql("DELETE FROM orders WHERE id = 9")  # an input that moves, and says nothing new
    run(project, way, made)
    assert stale_ones(project, made) == {}


def test_a_sink_over_a_view_of_the_last_epoch_is_fresh_once_the_driver_has_ended(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the sink reads is on its way to the store as the driver ends."""
    monkeypatch.setenv("TIDELINE_RUNS", "driver")
    project.model("shop/out.sql", MORE["shop/out.sql"])
    made = _definitions(project)
    run(project, "driver", made, seconds=0.0)
    assert stale_ones(project, made) == {}


def test_what_is_behind_is_stale(project: Project) -> None:
    project.model(
        "shop/ratio.sql", "CREATE MATERIALIZED VIEW ratio AS SELECT id, 8 / (price - 7) AS r FROM orders"
    )
    project.land("1.csv", f"{HEAD}1,a,10\n")
    made = _definitions(project)
    run(project, "hand", made)
    project.land("2.csv", f"{HEAD}2,b,7\n")
    assert (
        not made.resolve_job_def("epoch_run")
        .execute_in_process(instance=project.instance, raise_on_error=False)
        .success
    )
    assert stale_ones(project, made) == {"ratio": ["has a new dependency data version"]}


def test_what_a_driver_of_before_told_otherwise_is_told_again(project: Project) -> None:
    project.land("1.csv", f"{HEAD}1,a,10\n")
    monkeyed = build_driver_job(project.models)
    made = dg.Definitions(jobs=[monkeyed], resources=_resources(project))
    run(project, "driver", made)
    for name in ("totals", "large"):  # as an event without pointers to its inputs
        event = project.instance.get_latest_materialization_event(dg.AssetKey(name))
        assert event is not None and event.asset_materialization is not None
        report = event.asset_materialization
        tags = {tag: value for tag, value in (report.tags or {}).items() if "input_event_pointer" not in tag}
        project.instance.report_runless_asset_event(dg.AssetMaterialization(name, tags=tags))
    found = _definitions(project)
    assert set(stale_ones(project, found)) == {"totals", "large"}
    run(project, "driver", made)
    assert stale_ones(project, found) == {}


@pytest.mark.parametrize("way", ["driver", "hand"])
def test_what_another_asset_writes_is_fresh_and_so_are_its_readers(
    project: Project, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setenv("TIDELINE_RUNS", "driver")
    project.model("shop/wanted.sql", "CREATE TABLE wanted (shop STRING PRIMARY KEY, n BIGINT);")
    project.model("shop/reached.sql", "CREATE MATERIALIZED VIEW reached AS SELECT count(*) AS c FROM wanted;")

    @dg.asset(key="wanted", deps=["totals"])
    def wanted() -> object:
        return pa.table({"shop": ["a"], "n": [5]})

    made = _definitions(project, wanted)
    project.land("1.csv", f"{HEAD}1,a,10\n")
    run(project, way, made)
    written = dg.materialize(
        [wanted], instance=project.instance, resources=made.resources, selection=["wanted"]
    )  # type: ignore[arg-type]
    assert written.success
    run(project, way, made)
    assert stale_ones(project, made) == {}


def test_a_view_whose_checks_alone_have_changed_is_fresh(project: Project) -> None:
    project.land("1.csv", f"{HEAD}1,a,10\n")
    run(project, "hand", _definitions(project))
    project.model(
        "shop/large.sql",
        "-- check: total > 0\nCREATE MATERIALIZED VIEW large AS SELECT shop, total FROM totals WHERE total > 10;",
    )
    made = _definitions(project)
    run(project, "hand", made)
    assert stale_ones(project, made) == {}


@pytest.mark.long
def test_a_sink_that_is_slow_is_fresh_once_the_driver_has_ended(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sink delivers once the time of the driver is over, and no view is under way any more."""
    deliver, finish, time_is_over = FileSink.take, EpochRunner.finish, threading.Event()

    def deliver_late(self, portion):  # type: ignore[no-untyped-def]
        assert time_is_over.wait(60)
        return deliver(self, portion)

    def finish_at_once(self, seconds):  # type: ignore[no-untyped-def]
        has_ended = finish(self, seconds)
        time_is_over.set()
        return has_ended

    monkeypatch.setattr(FileSink, "take", deliver_late)
    monkeypatch.setattr(EpochRunner, "finish", finish_at_once)
    monkeypatch.setattr(epoch_run, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setenv("TIDELINE_RUNS", "driver")
    project.model("shop/out.sql", MORE["shop/out.sql"])
    made = _definitions(project)
    project.land("1.csv", f"{HEAD}1,a,10\n2,b,5\n")
    run(project, "driver", made, seconds=3.0)
    assert stale_ones(project, made) == {}

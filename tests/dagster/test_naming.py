"""Assets whose keys are not the names of their tables and views: runs, sensor, driver, checks, partitions and upkeep agree."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from dagster_tideline import (
    HummockResource,
    Model,
    Settings,
    SparkResource,
    TidelineIOManager,
    TidelineTranslator,
    build_definitions,
    load_models,
)
from dagster_tideline.naming import Naming
from dagster_tideline.runs import follow_up
from demo.stale import find_stale
from tests.dagster.conftest import Project

CUT = "CREATE MATERIALIZED VIEW cut WITH (partition_by = 'shop') AS SELECT shop, count(*) AS n FROM orders GROUP BY shop;"
CHECKED = "-- check positive: total > 0\nCREATE MATERIALIZED VIEW checked AS SELECT shop, total FROM totals;"
TOTALS = dg.AssetKey(["retail", "totals"])


class RetailTranslator(TidelineTranslator):
    """Calls one view otherwise than the store does, and says more of all."""

    def get_asset_key(self, model: Model) -> dg.AssetKey:
        if model.name == "large":
            return dg.AssetKey([*self.key_prefix, "biggest"])
        return super().get_asset_key(model)

    def get_group_name(self, model: Model) -> str:
        return "gold" if model.kind == "materialized view" else "raw"

    def get_description(self, model: Model) -> str:
        return f"From {model.path}."

    def get_tags(self, model: Model) -> dict[str, str]:
        return {**super().get_tags(model), "team": "retail"}

    def get_metadata(self, model: Model) -> dict[str, Any]:
        return {"lines": len(model.sql.splitlines())}

    def get_owners(self, model: Model) -> list[str]:
        return ["team:retail", "@somebody"]

    def get_freshness_policy(self, model: Model) -> dg.FreshnessPolicy | None:
        from datetime import timedelta

        return dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=2))

    def get_automation_condition(self, model: Model) -> dg.AutomationCondition[Any] | None:
        return dg.AutomationCondition.eager() if model.name == "large" else None

    def get_asset_spec(self, model: Model, spec: dg.AssetSpec) -> dg.AssetSpec:
        return spec.merge_attributes(kinds={"retail"})


@pytest.fixture
def made(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.Definitions]:
    """The definitions of a project with a prefix and a translator, a checked view, and one that is cut."""
    monkeypatch.setenv("TIDELINE_RUNS", "driver")
    monkeypatch.setattr(follow_up, "DAEMON_SECONDS", follow_up.END_SECONDS)
    project.model("shop/cut.sql", CUT)
    project.model("shop/checked.sql", CHECKED)
    yield make(project)


def make(project: Project, *assets: dg.AssetsDefinition, **settings: object) -> dg.Definitions:
    spark, hummock = SparkResource(target="local[2]"), HummockResource(url=project.session.url)
    resources: dict[str, Any] = {"spark": spark, "hummock": hummock}
    if assets:
        resources["io_manager"] = TidelineIOManager(hummock=hummock, spark=spark)
    found = Settings.of_environment(project.home).replace(key_prefix="retail", **settings)
    return build_definitions(found, resources, assets, translator=RetailTranslator(found.key_prefix))


def run(project: Project, made: dg.Definitions, job: str = "retail_epoch_run", **given: Any) -> None:
    result = made.resolve_job_def(job).execute_in_process(instance=project.instance, **given)
    assert result.success


def get_event(project: Project, *key: str) -> dg.AssetMaterialization:
    event = project.instance.get_latest_materialization_event(dg.AssetKey(key))
    assert event is not None and event.asset_materialization is not None, key
    return event.asset_materialization


def test_all_that_a_translator_says_is_said_of_the_asset(made: dg.Definitions) -> None:
    specs = {spec.key.to_user_string(): spec for spec in made.resolve_all_asset_specs()}
    large, orders = specs["retail/biggest"], specs["retail/orders"]
    assert [dep.asset_key for dep in large.deps] == [TOTALS]
    assert (large.group_name, orders.group_name) == ("gold", "raw")
    assert large.tags["team"] == "retail" and large.tags["tideline/kind"] == "materialized_view"
    assert large.owners == ["team:retail"] and large.metadata["owners"].value == "@somebody"
    assert large.metadata["lines"] == 1 and "model" in large.metadata
    assert large.freshness_policy is not None and "retail" in large.kinds
    assert large.automation_condition == dg.AutomationCondition.eager()
    assert orders.automation_condition is None
    assert str(large.description).startswith("From shop/large.sql.\n\n```sql")


NAMES = [f"retail/{name}" for name in ("orders", "totals", "biggest", "checked", "cut")]


@pytest.mark.long
def test_runs_sensor_checks_and_partitions_speak_of_the_same_assets(
    project: Project, made: dg.Definitions
) -> None:
    project.land("1.csv", "id,shop,price\n1,a,10\n2,b,50\n")
    sensor = make(project, runs="tick").get_repository_def().get_sensor_def("retail_frontier_sensor")
    asked = evaluate(project, made, sensor)
    assert asked.run_requests is not None and len(asked.run_requests) == 1
    run(project, made, tags=asked.run_requests[0].tags)
    assert project.contents("large") == [{"shop": "b", "total": 50}]
    report = get_event(project, "retail", "totals")
    assert {tag for tag in report.tags or {} if "/input_data_version/" in tag} == {
        "dagster/input_data_version/retail/orders"
    }
    assert get_event(project, "retail", "biggest").metadata["rows_out"].value == 1
    cut = dg.AssetKey(["retail", "cut"])
    assert project.instance.get_materialized_partitions(cut) == {"a", "b"}
    assert set(project.instance.get_dynamic_partitions("retail/cut")) == {"a", "b"}
    checked = dg.AssetCheckKey(dg.AssetKey(["retail", "checked"]), "positive")
    found = project.instance.event_log_storage.get_latest_asset_check_execution_by_key([checked])
    assert found[checked].status.value == "SUCCEEDED"
    assert find_stale(project.instance, made, NAMES) == {}
    assert {key.to_user_string() for key in project.instance.all_asset_keys()} == set(NAMES)
    assert not evaluate(project, made, sensor).run_requests


@pytest.mark.long
def test_driver_selection_and_upkeep_speak_of_them_too(project: Project, made: dg.Definitions) -> None:
    config = {"ops": {"retail_drive": {"config": {"seconds": 0.5, "event_seconds": 0.0}}}}
    for number, total in ((1, 10), (2, 20)):
        project.land(f"{number}.csv", f"id,shop,price\n{number},a,10\n")
        run(project, made, "retail_driver", run_config=config)
        assert project.contents("totals") == [{"shop": "a", "total": total}]
        assert find_stale(project.instance, made, NAMES[:-2]) == {}
    run(project, made, asset_selection=[TOTALS])
    run(project, made, "retail_freshness")
    overview = get_event(project, "retail", "tideline_overview").metadata["domains"].value
    (line,) = [line for line in str(overview).splitlines() if line.startswith("| totals |")]
    assert line.split("|")[6].strip() != ""  # the epochs of its newest event


def evaluate(project: Project, made: dg.Definitions, sensor: dg.SensorDefinition) -> Any:
    with dg.build_sensor_context(instance=project.instance, resources=made.resources) as context:
        return sensor.evaluate_tick(context)


def test_other_assets_read_and_write_tables_whose_assets_have_other_names(project: Project) -> None:
    seen: list[int] = []
    project.model("shop/targets.sql", "CREATE TABLE targets (shop STRING PRIMARY KEY, wanted BIGINT);")

    @dg.asset(key=["retail", "targets"])
    def targets() -> pa.Table:
        return pa.table({"shop": ["a"], "wanted": [5]})

    @dg.asset(ins={"large": dg.AssetIn(key=["retail", "biggest"])})
    def report(large: pa.Table) -> None:
        seen.append(large.num_rows)

    project.land("1.csv", "id,shop,price\n1,a,50\n")
    made = make(project, targets, report)
    run(project, made)
    job = made.get_repository_def().get_implicit_job_def_for_assets([targets.key, report.key])
    assert job is not None
    keys = [targets.key, report.key]
    assert job.execute_in_process(
        instance=project.instance, asset_selection=keys, resources=made.resources
    ).success
    assert seen == [1]
    assert project.contents("targets") == [{"shop": "a", "wanted": 5}]


def test_names_and_keys_go_both_ways_and_no_two_names_have_one_key(tmp_path: Path) -> None:
    (tmp_path / "m.sql").write_text(
        "CREATE TABLE a (id INT);\nCREATE MATERIALIZED VIEW b AS SELECT a.id FROM a JOIN c ON a.id = c.id;"
    )
    models = load_models(tmp_path)
    naming = Naming(models, TidelineTranslator(["x", "y"]), "x")
    assert naming.get_key("c") == dg.AssetKey(["x", "y", "c"])  # read, and declared by nobody
    assert {naming.find_name(naming.get_key(name)) for name in "abc"} == {"a", "b", "c"}
    others = {naming.find_name(dg.AssetKey(path)) for path in (["z", "a"], ["a"])}  # of somebody else
    assert len(others) == 2 and others.isdisjoint("abc")
    plain = Naming(models)
    event = dg.MaterializeResult(asset_key="a")
    assert plain.translate_event(event) is event and plain.format_name("driver") == "driver"

    class One(TidelineTranslator):
        def get_asset_key(self, model: Model) -> dg.AssetKey:
            return dg.AssetKey("one")

    with pytest.raises(
        dg.DagsterInvalidDefinitionError, match=r"One.get_asset_key gives a and b the same key one"
    ):
        Naming(models, One())


def test_what_dagster_refuses_of_a_translator_costs_that_asset_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "m.sql").write_text("CREATE TABLE a (id INT);\nCREATE TABLE b (id INT);")
    monkeypatch.setenv("TIDELINE_HOME", str(tmp_path))

    class Wrong(TidelineTranslator):
        def get_tags(self, model: Model) -> dict[str, str]:
            return {"no tag!": "x"} if model.name == "a" else {}

    settings = Settings(project=tmp_path, home=tmp_path, assets=tmp_path, store=(tmp_path / "store").as_uri())
    made = build_definitions(settings, translator=Wrong())
    specs = {spec.key.to_user_string(): spec for spec in made.resolve_all_asset_specs()}
    assert "Dagster refuses the asset" in str(specs["a"].description)
    assert "refuses" not in str(specs["b"].description)

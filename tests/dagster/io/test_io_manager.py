"""Other assets read views at one epoch and write tables."""

import dagster as dg
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from dagster_tideline import HummockResource, Settings, SparkResource, TidelineIOManager, build_definitions
from engine.errors import SqlError
from tests.dagster.conftest import Project


def definitions(project: Project, *assets: dg.AssetsDefinition) -> dg.Definitions:
    hummock, spark = HummockResource(url=project.session.url), SparkResource(target="local[2]")
    manager = TidelineIOManager(hummock=hummock, spark=spark)
    resources = {"hummock": hummock, "spark": spark, "io_manager": manager}
    return build_definitions(Settings.of_environment(project.home), resources, assets)


def materialize(project: Project, asset: dg.AssetsDefinition) -> dg.ExecuteInProcessResult:
    made = definitions(project, asset)
    job = made.get_repository_def().get_implicit_job_def_for_assets([asset.key])
    assert job is not None
    return job.execute_in_process(
        instance=project.instance, asset_selection=[asset.key], raise_on_error=False, resources=made.resources
    )


def read(frame: object) -> list[dict[str, object]]:
    if isinstance(frame, pa.Table):
        return sorted(frame.to_pylist(), key=str)
    if isinstance(frame, pd.DataFrame):
        return sorted(frame.to_dict("records"), key=str)
    assert isinstance(frame, DataFrame)
    return sorted((row.asDict() for row in frame.collect()), key=str)


@pytest.mark.parametrize("form", [pa.Table, pd.DataFrame, pytest.param(DataFrame, marks=pytest.mark.long)])
def test_a_view_comes_in_the_form_that_is_annotated(project: Project, form: type) -> None:
    seen: list[list[dict[str, object]]] = []

    @dg.asset
    def report(totals: form, large: form) -> None:  # type: ignore[valid-type]
        seen.append(read(totals))
        seen.append(read(large))

    project.land("1.csv", "id,shop,price\n1,a,5\n2,b,50\n")
    assert project.run().success
    assert materialize(project, report).success
    assert seen == [[{"shop": "a", "total": 5}, {"shop": "b", "total": 50}], [{"shop": "b", "total": 50}]]


def test_inputs_are_of_one_epoch_though_one_is_ahead(project: Project) -> None:
    seen: list[dict[str, int]] = []

    @dg.asset
    def report(orders: pa.Table, totals: pa.Table) -> None:
        seen.append({"orders": orders.num_rows, "sold": sum(totals["total"].to_pylist())})

    project.land("1.csv", "id,shop,price\n1,a,5\n")
    assert project.run().success
    project.session.sql("INSERT INTO orders VALUES (2, 'a', 7)")  # the views do not have it yet
    assert materialize(project, report).success
    assert seen == [{"orders": 1, "sold": 5}]


@pytest.mark.parametrize("form", ["arrow", "pandas", "spark"])
def test_what_an_asset_returns_is_written_to_its_table(project: Project, form: str) -> None:
    project.model("shop/targets.sql", "CREATE TABLE targets (shop STRING PRIMARY KEY, wanted BIGINT);")
    project.model(
        "shop/reached.sql",
        "CREATE MATERIALIZED VIEW reached AS SELECT t.shop FROM targets t JOIN totals s ON s.shop = t.shop "
        "WHERE total >= wanted;",
    )
    rows = pa.table({"shop": ["a", "b"], "wanted": [5, 80]})

    @dg.asset(key="targets")
    def targets() -> object:
        if form == "arrow":
            return rows
        return rows.to_pandas() if form == "pandas" else project.session.spark.createDataFrame(rows)

    project.land("1.csv", "id,shop,price\n1,a,5\n2,b,50\n")
    made = definitions(project, targets)
    assert not made.resolve_asset_graph().get(dg.AssetKey("reached")).parent_keys - {
        dg.AssetKey("targets"),
        dg.AssetKey("totals"),
    }
    assert project.run_of(made).success
    assert materialize(project, targets).success
    assert project.run_of(made).success
    assert project.contents("reached") == [{"shop": "a"}]


def test_a_model_with_rows_of_its_own_is_not_written_by_another_asset(project: Project) -> None:
    @dg.asset(key="totals")
    def totals() -> None: ...

    with pytest.raises(SqlError, match=r"totals of shop/totals.sql is also an asset in Python"):
        definitions(project, totals)


def test_a_table_that_is_not_there_is_told(project: Project) -> None:
    @dg.asset(key="nowhere")
    def nowhere() -> pa.Table:
        return pa.table({"a": [1]})

    result = materialize(project, nowhere)
    assert not result.success
    (failure,) = result.get_step_failure_events()
    assert "there is no table nowhere" in failure.message or "there is no table nowhere" in str(
        failure.event_specific_data
    )

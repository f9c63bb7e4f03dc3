"""Runs of a dbt project's assets: rows, events and checks, as of other models."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from dagster_tideline import TidelineDbtComponent
from engine.session import Session
from tests.dagster.dbt.manifests import data_test, model, relation, source, write_manifest

CODE = f"select shop, sum(price) as total from {relation('orders', 'raw')} group by shop"


@pytest.mark.long
def test_a_run_keeps_dbts_models_and_reports_their_tests(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELINE_HOME", str(tmp_path))
    write_manifest(
        tmp_path / "dbt",
        source("orders"),
        model("totals", CODE, "source.shop.raw.orders"),
        data_test(
            "positive",
            f"select shop from {relation('totals')} where total < 0",
            "model.shop.totals",
            config={"severity": "warn"},
        ),
        data_test("shops", "", "model.shop.totals", macro="not_null", column_name="shop"),
    )
    place = tmp_path / "defs"
    place.mkdir()
    options = "WITH (connector = 'landing', path = 'landing/orders')"
    (place / "orders.sql").write_text(
        f"CREATE TABLE orders (id INT PRIMARY KEY, shop STRING, price INT) {options}"
    )
    landing = tmp_path / "landing" / "orders"
    landing.mkdir(parents=True)
    url = (tmp_path / "store").as_uri()
    component = TidelineDbtComponent(manifest="../dbt/target/manifest.json", store=url, spark="local[2]")
    job = component.build_project_defs(tmp_path, place).resolve_job_def("epoch_run")
    with dg.DagsterInstance.ephemeral() as instance:
        for number, text in enumerate(("1,north,5\n2,south,7\n", "3,north,1\n4,south,-9\n")):
            (landing / f"{number}.csv").write_text(f"id,shop,price\n{text}")
            assert job.execute_in_process(instance=instance).success
        event = instance.get_latest_materialization_event(dg.AssetKey("totals"))
        assert event is not None
        found = {}
        for name in ("positive", "shops"):
            key = dg.AssetCheckKey(dg.AssetKey("totals"), name)
            (record,) = instance.event_log_storage.get_asset_check_execution_history(key, limit=1)
            assert record.event is not None
            data = record.event.get_dagster_event().asset_check_evaluation_data
            found[name] = (data.passed, data.severity.value)
        assert found == {"positive": (False, "WARN"), "shops": (True, "ERROR")}
    with Session(url, spark) as session:
        rows = session.sql("SELECT * FROM totals ORDER BY shop")
        assert rows is not None
        assert [tuple(row.values()) for row in rows.to_pylist()] == [("north", 6), ("south", -2)]

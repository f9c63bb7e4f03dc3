"""`tideline dbt plan`, as a table and as records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dagster_tideline.dbt.plan import main
from engine.session import Session
from tests.dagster.dbt.manifests import data_test, model, relation, source, write_manifest

NODES = (
    source("orders"),
    model("stg", f"select id from {relation('orders', 'raw')}", "source.shop.raw.orders"),
    model("snap", "select 1") | {"resource_type": "snapshot"},
    data_test("t", "", "model.shop.stg", macro="not_null", column_name="id"),
)


def test_each_node_has_a_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELINE_DBT_SOURCES", "raw.orders=landed")
    path = write_manifest(tmp_path, *NODES)
    assert main([str(path), "--wide"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "node kind relation taken as"
    assert lines[2:] == [
        "stg model, table stg materialized view, from duckdb",
        "snap snapshot not taken",
        "snapshots are not taken: land its table, or keep it with dbt",
        "t test stg check",
        "raw.orders source landed table that you land",
        "taken: 1 of 1 model, 0 of 1 snapshot, 1 of 1 test, 1 of 1 source",
    ]


def test_a_model_that_is_not_taken_is_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_manifest(tmp_path, *NODES, model("bad", "select ("))
    assert main([str(path), "--format", "json", "--exclude", "t"]) == 2
    (bad,) = [one for one in json.loads(capsys.readouterr().out) if one["name"] == "bad"]
    assert bad["taken"] is None and "duckdb cannot be read" in bad["reason"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["/no/such.json"], "can't be read"),
        (["--select", "nobody"], "selects nothing"),
    ],
)
def test_what_cannot_be_read_is_status_1(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_manifest(tmp_path, *NODES)
    given = arguments if arguments[0].startswith("/") else [str(path), *arguments]
    assert main(given) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ") and message in error


@pytest.mark.long
def test_with_a_store_its_refusals_are_told_too(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELINE_HOME", str(tmp_path))
    monkeypatch.setenv("SPARK_REMOTE", "local[2]")
    wrong = model("wrong", f"select name from {relation('orders', 'raw')}")
    path = write_manifest(
        tmp_path, *NODES, wrong, data_test("u", "", "model.shop.wrong", macro="unique", column_name="name")
    )
    url = (tmp_path / "store").as_uri()
    with Session(url, spark) as session:
        session.sql("CREATE TABLE orders (id INT PRIMARY KEY)")
    assert main([str(path), "--format", "json", "--store", url]) == 2
    found = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert found["stg"]["taken"] and "there is no column name" in found["wrong"]["reason"]
    assert found["u"]["reason"] == "wrong is not taken"
    with Session(url, spark) as session:
        assert "stg" not in session.catalog.relations

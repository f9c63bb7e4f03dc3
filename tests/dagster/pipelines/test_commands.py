"""`tideline pipelines plan` and `run`, as tables and as records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dagster_tideline.pipelines import plan, run
from engine.cli.connections import make_store
from engine.session import Session
from tests.oracle.batch import content
from tests.pipelines.projects import write_project

SPEC = "name: p\nstorage: s\nlibraries:\n  - glob: {include: a/**}\n"
TEXT = "CREATE MATERIALIZED VIEW best AS SELECT id, x FROM raw.orders WHERE x > 3;"
BAD = "\nCREATE MATERIALIZED VIEW bad AS SELECT count(*) FROM best;"


def write(folder: Path, text: str = TEXT) -> str:
    """Write a pipeline of one file and return its spec."""
    return str(write_project(folder, {"spark-pipeline.yml": SPEC, "a/b.sql": text}))


def test_the_elements_are_listed_with_what_becomes_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plan.main([write(tmp_path), "--table=raw.orders=landed", "--wide"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[2:] == [
        "best materialized view best materialized view",
        "raw.orders table landed table that you land",
        "there is no table landed yet",
        "taken: 1 of 1 materialized view, 1 of 1 table",
    ]


def test_what_is_not_taken_is_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan.main([write(tmp_path, TEXT + BAD), "--format=json"]) == 2
    (bad,) = [one for one in json.loads(capsys.readouterr().out) if one["name"] == "bad"]
    assert bad["taken"] is None and "has no name" in bad["reason"]


@pytest.mark.parametrize("command", [plan.main, run.main])
def test_what_cannot_be_read_is_status_1(
    command: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert callable(command)
    store = (tmp_path / "store").as_uri()
    make_store(store)
    assert command(["/no/such.yml", f"--store={store}"]) == 1
    assert "there is no spec" in capsys.readouterr().err
    assert command([write(tmp_path), f"--store={store}", "--table=x"]) == 1
    assert "names no table" in capsys.readouterr().err


@pytest.mark.long
def test_a_run_makes_the_views_and_brings_them_up_to_date(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELINE_HOME", str(tmp_path))
    monkeypatch.setenv("SPARK_REMOTE", "local[2]")
    url = (tmp_path / "store").as_uri()
    with Session(url, spark) as session:
        session.sql("CREATE TABLE landed (id INT PRIMARY KEY, x INT)")
        session.sql("INSERT INTO landed VALUES (1, 1), (2, 5), (3, 7)")
    now = "\nCREATE MATERIALIZED VIEW now AS SELECT id, current_timestamp() AS at FROM best;"
    arguments = [write(tmp_path, TEXT + now), f"--store={url}", "--table=raw.orders=landed", "--format=json"]
    assert plan.main(arguments) == 2
    found = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert found["best"]["taken"] and "current_timestamp" in found["now"]["reason"]
    with Session(url, spark) as session:
        assert "best" not in session.catalog.relations
    assert run.main(arguments) == 2
    found = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert (found["best"]["inserted"], found["now"]["inserted"]) == (2, None)
    with Session(url, spark) as session:
        assert sorted(content(session, "best").to_pylist(), key=str) == [{"id": 2, "x": 5}, {"id": 3, "x": 7}]
        session.sql("DELETE FROM landed WHERE id = 2")
    assert run.main([write(tmp_path), *arguments[1:-1]]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    (best,) = [line for line in lines if line[:1] == ["best"]]
    assert best[-5:-2] == ["0", "0", "1"] or best[-4:-1] == ["0", "0", "1"]

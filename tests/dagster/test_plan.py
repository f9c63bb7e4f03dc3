"""`tideline plan` in a project: what it prints, its statuses, and that it makes nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dagster_tideline import plan
from dagster_tideline.models.loader import load_models
from dagster_tideline.sync import sync_models
from engine.cli import commands
from engine.cli.new_project import make_project
from engine.errors import EnvironmentNotReady
from engine.session import Session


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> Path:
    """A project as `tideline init` makes it, which is the working folder; commands compute by the worker's Spark."""
    folder = tmp_path / "shop"
    make_project(folder)
    monkeypatch.chdir(folder)
    for variable in ("TIDELINE_ASSETS", "TIDELINE_STORE", "SPARK_REMOTE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("TIDELINE_HOME", str(folder))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(plan, "start_spark", lambda target: spark)
    return folder


def test_a_new_project_is_planned_and_nothing_is_made(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan.main([]) == 2
    output = capsys.readouterr()
    assert output.out.splitlines()[-1] == "planned: 2 new" and "there is no store" in output.err
    assert not (shop / ".tideline").exists() and not (shop / "landing").exists()


def test_a_branch_that_is_not_there_is_told_and_not_planned_as_a_new_store(
    shop: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELINE_BRANCH", "nope")
    assert plan.main([]) == 1
    assert "there is no store at" in capsys.readouterr().err
    with Session((shop / ".tideline" / "store").as_uri(), spark) as session:
        session.sql("CREATE TABLE t (id BIGINT)")
    assert plan.main([]) == 1
    assert "no branch nope; there is none" in capsys.readouterr().err


def test_what_is_there_needs_nothing_and_a_change_is_told_with_its_reason(
    shop: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    url = (shop / ".tideline" / "store").as_uri()
    with Session(url, spark) as session:
        assert not sync_models(session, load_models(shop / "assets")).errors
    assert plan.main([]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "nothing to do"
    file = shop / "assets" / "sales.sql"
    text = file.read_text()
    file.write_text(text.replace("AS total", "AS total, max(id) AS newest"))
    assert plan.main(["--format=json"]) == 2
    changed = {one["name"]: one for one in json.loads(capsys.readouterr().out)}["sales_by_shop"]
    assert (changed["change"], changed["work"], changed["rows"], changed["seconds"]) == (
        "incompatible",
        "rebuild",
        None,
        None,
    )
    assert changed["columns"] == {"added": ["newest bigint"], "dropped": [], "retyped": []}
    file.write_text(text.replace("FROM orders", "FROM ordres"))
    assert plan.main([]) == 1
    assert "there is no table or view ordres\n      line 12, column 6:" in capsys.readouterr().out


def test_without_a_project_or_a_store_that_can_be_read_there_is_one_sentence(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (shop / ".tideline" / "store" / "manifest").mkdir(parents=True)
    (shop / ".tideline" / "store" / "manifest" / f"{1:020}").write_bytes(b"of another version")
    assert plan.main([]) == 1
    assert capsys.readouterr().err.startswith("error: ")
    monkeypatch.chdir(tmp_path)
    assert plan.main([]) == 1
    assert "there is no project in" in capsys.readouterr().err


def test_a_spark_that_does_not_start_is_no_fault_of_a_model(
    shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[object] = []

    def fail(target: str | None) -> SparkSession:
        calls.append(target)
        raise EnvironmentNotReady("there is no Java here")

    monkeypatch.setattr(plan, "start_spark", fail)
    with (shop / "assets" / "more.sql").open("w") as file:
        file.write("CREATE MATERIALIZED VIEW more AS SELECT id FROM orders")
    assert plan.main([]) == 1
    output = capsys.readouterr()
    assert output.out == "" and output.err.endswith("error: there is no Java here\n") and len(calls) == 1


def test_the_command_hands_its_options_on(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[list[str]] = []
    monkeypatch.setattr(commands.os, "execv", lambda path, arguments: called.append(arguments))
    with pytest.raises(SystemExit):
        commands.main(["plan", "--json", "--wide"])
    assert called == [[sys.executable, "-m", "dagster_tideline.plan", "--format=json", "--wide"]]

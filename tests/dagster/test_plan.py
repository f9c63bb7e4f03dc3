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


def _fill(shop: Path, spark: SparkSession) -> str:
    """Make the project's store and give it some rows by a way that a branch has as well; return its address."""
    url = (shop / ".tideline" / "store").as_uri()
    with Session(url, spark) as session:
        assert not sync_models(session, load_models(shop / "assets")).errors
        session.sql("CREATE TABLE sold (id BIGINT PRIMARY KEY, shop STRING, price BIGINT)")
        session.sql("INSERT INTO sold VALUES (1, 'a', 10), (2, 'a', 20), (3, 'b', 5)")
        session.flush().raise_for_errors()
    return url


MODEL = "CREATE MATERIALIZED VIEW takings AS SELECT shop, sum(price) AS total FROM sold GROUP BY shop;\n"
READER = "CREATE MATERIALIZED VIEW large AS SELECT shop FROM takings WHERE total > 25;\n"


def test_models_are_tried_on_a_branch_and_the_store_stays_as_it_is(
    shop: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    url = _fill(shop, spark)
    (shop / "assets" / "more.sql").write_text(MODEL + READER)
    with Session(url, spark) as session:
        sync_models(session, load_models(shop / "assets"))
        session.sql("CREATE MATERIALIZED VIEW mine AS SELECT count(*) AS n FROM takings")
        session.flush().raise_for_errors()
        session.sql("INSERT INTO sold VALUES (4, 'c', 1)")  # which waits: it is no change by the models
        number = session.store.refresh().number
        assert plan.main(["--branch=none"]) == 0
        assert capsys.readouterr().out.splitlines()[-1] == "nothing to do"
        assert not session.store.list_branches()

        text = MODEL.replace("sum(price) AS total", "sum(price * 2) AS total, count(*) AS n")
        (shop / "assets" / "more.sql").write_text(text.replace("GROUP", "WHERE shop <> 'b' GROUP") + READER)
        assert plan.main(["--branch=try"]) == 2
        lines = capsys.readouterr().out.splitlines()
        at = next(n for n, line in enumerate(lines) if line.startswith("name") and "inserted" in line)
        assert [line.split() for line in lines[at + 2 :: 1]][:3] == [
            ["takings", "3", "0", "1", "2", "2"],
            ["of", "the", "updated", "rows:", "total", "in", "2"],
            ["columns", "of", "one", "side", "only,", "or", "of", "another", "type:", "n"],
        ]
        assert lines[at + 5].split() == ["mine", "1", "0", "0", "1", "1"]
        assert lines[-1] == "branch try holds this: TIDELINE_BRANCH names it; `tideline branch drop` ends it"
        (branch,) = session.store.list_branches()
        with Session(branch.url, spark) as tried:
            assert tried.sql("SELECT shop, total, n FROM takings ORDER BY shop").to_pylist() == [
                {"shop": "a", "total": 60, "n": 2},
                {"shop": "c", "total": 2, "n": 1},
            ]
        assert session.store.refresh().number == number + 3  # two branches begin, and one ends
        assert session.sql("SELECT count(*) AS n FROM takings").to_pylist() == [{"n": 2}]
        assert plan.main(["--branch=try"]) == 1
        assert "branch try" in capsys.readouterr().err


@pytest.mark.long
def test_what_is_made_anew_fails_or_is_held_up_on_a_branch_is_told(
    shop: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    url = _fill(shop, spark)
    gated = MODEL.replace("takings AS", "gated WITH (gate = 'rows_changed <= 0') AS")
    failing = "CREATE MATERIALIZED VIEW failing AS SELECT id, 10 / price AS n FROM sold;\n"
    kept = MODEL.replace("takings", "kept").replace("total FROM", "total, max(id) AS newest FROM")
    file = shop / "assets" / "more.sql"
    file.write_text(MODEL + gated + failing + kept)
    with Session(url, spark) as session:
        assert not sync_models(session, load_models(shop / "assets")).errors
        session.flush().raise_for_errors()
    file.write_text(
        MODEL.replace("shop,", "price,").replace("BY shop", "BY price")
        + gated.replace("sum(price)", "max(price)")
        + failing.replace("10 / price", "10 / (price - 5)")
        + kept.replace("max(id)", "CAST(max(id) AS STRING)")
        + READER.replace("shop", "price")
        + failing.replace("failing", "broken").replace("price", "(price - 10)")
    )
    assert plan.main(["--branch=try", "--format=json"]) == 1
    found = {one["name"]: one["trial"] for one in json.loads(capsys.readouterr().out)}
    assert found["orders"]["updated"] == 0 and not found["orders"]["problem"]
    assert (found["takings"]["rows_before"], found["takings"]["rows_after"]) == (2, 3)
    assert found["takings"]["inserted"] is None  # its key is another
    assert (found["large"]["rows_before"], found["large"]["rows_after"]) == (None, 0)
    assert "rows_changed" in found["gated"]["problem"] and found["gated"]["updated"] == 0
    assert "DIVIDE_BY_ZERO" in found["failing"]["problem"]
    assert "DIVIDE_BY_ZERO" in found["broken"]["problem"] and found["broken"]["rows_after"] is None
    assert found["kept"]["not_compared"] == ["newest"] and found["kept"]["updated"] == 0


def test_a_branch_goes_again_if_what_is_tried_on_it_breaks_off(
    shop: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = _fill(shop, spark)
    (shop / "assets" / "more.sql").write_text(MODEL)

    def break_off(*given: object) -> None:
        raise EnvironmentNotReady("no Java")

    monkeypatch.setattr(plan, "try_models", break_off)
    assert plan.main(["--branch=try"]) == 1
    assert "error: no Java" in capsys.readouterr().err
    with Session(url, spark) as session:
        assert not session.store.list_branches()

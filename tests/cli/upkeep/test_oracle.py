"""`tideline oracle`: rows computed anew; 1 where they differ, and another pass after they were put right."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.hummock import Hummock, Put
from engine.session import Session
from tests.cli.command_line import CommandLine


@pytest.fixture
def url(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a store that commands work on by default; they compute by the Spark of the tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIDELINE_STORE", url := (tmp_path / "store").as_uri())
    monkeypatch.setattr("engine.cli.quiet_spark.start_spark", lambda target: spark)
    return url


@pytest.mark.long
def test_rows_that_differ_are_shown_and_end_with_1(
    url: str, tmp_path: Path, spark: SparkSession, command_line: CommandLine
) -> None:
    with Session(url, spark) as session:
        session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT)")
        session.sql("INSERT INTO t VALUES (1, 5), (2, 6)")
        session.sql("CREATE MATERIALIZED VIEW v AS SELECT id, n * 2 AS twice FROM t")
        session.flush().raise_for_errors()
    (one,) = json.loads(command_line("oracle", "--json").splitlines()[0])
    assert (one["view"], one["rows"], one["differ"], one["passed"]) == ("v", 4, 0, True)
    assert "all rows were compared, and none has changed since" in command_line("oracle", "v")
    with Hummock.open(url) as store:
        wrong = pa.table({"id": [2], "twice": [7]}, schema=store.version.tables["v"].schema)
        store.ingest_batch({"v": Put(wrong)})
    said = command_line("oracle", status=1)
    assert "v: 1 row differs from what its query gives: id = 2: twice is 7, not 12" in said
    (report,) = (tmp_path / ".tideline" / "reports").iterdir()
    assert f"tideline replay {report} computes them again" in said
    (tmp_path / "elsewhere").mkdir()
    report = report.rename(tmp_path / "elsewhere" / report.name)
    again = command_line("replay", str(report), status=1)
    assert "1 rows computed from 1; 1 were stored\nid = 2: twice is 7, not 12\n" in again
    assert "holds no report of rows that differ" in command_line("replay", "nothing.zip", status=1)
    assert "differs" in command_line("oracle", status=1)  # as long as no other pass has ended
    with Hummock.open(url) as store:
        store.ingest_batch({"v": Put(wrong.set_column(1, wrong.schema.field("twice"), pa.array([12])))})
    assert " whole " in command_line("oracle", "--again")
    assert "there is no table or view nowhere" in command_line("oracle", "nowhere", status=1)


@pytest.mark.long
def test_epochs_are_computed_again(url: str, spark: SparkSession, command_line: CommandLine) -> None:
    with Session(url, spark) as session:
        session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT)")
        session.sql("CREATE MATERIALIZED VIEW v AS SELECT id, n * 2 AS twice FROM t")
        for n in (5, 6):
            session.sql(f"INSERT INTO t VALUES ({n}, {n}), ({n + 10}, {n})")
            session.flush().raise_for_errors()
        epoch = session.store.version.tables["v"].committed_epoch
    newest, first = json.loads(command_line("replay-epochs", "v", "--last", "2", "--json").splitlines()[0])
    assert (newest["epoch"], newest["rows"], newest["outcome"]) == (epoch, 2, "same bytes")
    assert newest["tables"] == {"v": "same bytes"} and first["epoch"] < epoch
    assert "same bytes" in command_line("replay-epochs", "v", "--epoch", str(epoch))
    assert "no commit has brought v to epoch" in command_line("replay-epochs", "v", "--epoch", "7", status=1)
    with Hummock.open(url) as store:
        wrong = pa.table({"id": [5], "twice": [7]}, schema=store.version.tables["v"].schema)
        store.ingest_batch({"v": Put(wrong)})
    assert "a statement has written it" in command_line("replay-epochs", "v")

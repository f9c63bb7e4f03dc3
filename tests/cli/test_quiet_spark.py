"""A Spark that a command starts keeps what it logs to itself, and says it when it does not come up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.errors import PySparkRuntimeError

import engine.runtime.spark.session
from engine.cli.quiet_spark import start_spark
from engine.cli.statements import StatementRunner
from engine.errors import EnvironmentNotReady, TidelineError
from engine.session import Session

NOISE = [sys.executable, "-c", "import sys; print('java.net.BindException: no address', file=sys.stderr)"]


class _Quiet:
    @property
    def sparkContext(self) -> _Quiet:
        return self

    def setLogLevel(self, level: str) -> None:
        assert level == "OFF"


def test_what_a_spark_logs_while_it_starts_is_not_on_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def connect(target: str | None) -> _Quiet:
        subprocess.run(NOISE, check=True)
        return _Quiet()

    monkeypatch.setattr(engine.runtime.spark.session, "connect", connect)
    start_spark("local[1]")
    print("after", file=sys.stderr, flush=True)
    assert capfd.readouterr().err == "after\n"


def test_why_a_spark_does_not_start_is_told_with_the_end_of_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(target: str | None) -> None:
        subprocess.run(NOISE, check=True)
        raise PySparkRuntimeError("Java gateway process exited before sending its port number.")

    monkeypatch.setattr(engine.runtime.spark.session, "connect", connect)
    with pytest.raises(EnvironmentNotReady) as caught:
        start_spark(None)
    assert str(caught.value).splitlines() == [
        "Spark did not start: Java gateway process exited before sending its port number.",
        "  java.net.BindException: no address",
    ]


def test_an_error_of_spark_that_nobody_has_put_into_words_is_one_line_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Session(tmp_path.as_uri(), "local[1]") as session:
        session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")

    def sql(self: Session, text: str) -> None:
        raise PySparkRuntimeError("the executor is lost\n\tat org.apache.spark.Somewhere")

    monkeypatch.setattr(Session, "sql", sql)
    with (
        StatementRunner(tmp_path.as_uri(), "", "spark", lambda text: None) as statements,
        pytest.raises(TidelineError) as caught,
    ):
        statements.run("SHOW TABLES")
    assert str(caught.value) == "Spark: the executor is lost"

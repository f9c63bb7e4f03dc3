"""Importing the packages changes nothing of the process; what calls change of it is undone."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from pyspark.sql import utils
from sqlglot.dialects.postgres import Postgres

from engine.process_change import ProcessChange
from engine.spark_internals import build_offline_frames
from engine.sql.statements.reader import parse_statement
from tests import imported_packages


def test_importing_the_packages_changes_nothing_of_the_process() -> None:
    done = subprocess.run(
        [sys.executable, "-m", imported_packages.__name__],
        cwd=Path(imported_packages.__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_parsing_leaves_the_parser_and_its_log_as_they_were(caplog: pytest.LogCaptureFixture) -> None:
    log, lambdas = logging.getLogger("sqlglot"), Postgres.Parser.LAMBDAS
    level = log.level
    parse_statement("CREATE SINK s FROM v WITH (connector = 'file', path = 'x')", "postgres")
    parse_statement("CREATE MATERIALIZED VIEW v AS SELECT coalesce(j -> 'a', j) AS a FROM t", "postgres")
    assert not caplog.records
    assert Postgres.Parser.LAMBDAS is lambdas and log.level == level


def test_frames_without_spark_leave_pyspark_as_it_was() -> None:
    known = utils.is_remote
    with build_offline_frames(["t"]):
        assert utils.is_remote()
    assert utils.is_remote is known


def test_a_change_is_there_until_the_last_of_those_who_need_it_leaves() -> None:
    made: list[str] = []

    def make() -> object:
        made.append("made")
        return lambda: made.append("undone")

    change = ProcessChange(make)  # type: ignore[arg-type]
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with change.apply():
            inside.set()
            leave.wait(30)

    thread = threading.Thread(target=other)
    with change.apply():
        thread.start()
        assert inside.wait(30)
    assert made == ["made"]
    leave.set()
    thread.join(30)
    assert made == ["made", "undone"]
    with pytest.raises(ValueError, match="x"), change.apply():
        raise ValueError("x")
    assert made == ["made", "undone"] * 2

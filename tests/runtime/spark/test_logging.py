"""Errors of our own calls of Spark are told once, by our error; those of the user's own calls stay in Spark's log."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger

from engine.errors import SqlError, TidelineError
from engine.session import Session


class Gathered(logging.Handler):
    """Keeps the records that a logger passes on."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def logged() -> Iterator[list[logging.LogRecord]]:
    """What Spark's loggers of exceptions write."""
    handler = Gathered()
    loggers = [
        PySparkLogger.getLogger(name) for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
    ]
    for logger in loggers:
        logger.disabled = False  # whoever configures logging in this process, as Dagster does, disables those that are there
        logger.addHandler(handler)
    yield handler.records
    for logger in loggers:
        logger.removeHandler(handler)


def test_a_refused_statement_leaves_no_line_of_sparks_log(
    session: Session, logged: list[logging.LogRecord]
) -> None:
    session.sql("CREATE TABLE t (id INT PRIMARY KEY, s STRING)")
    session.sql("INSERT INTO t VALUES (1, 'x')")
    with pytest.raises(SqlError):
        session.sql("SELECT date_add(id, s, 3) FROM t")
    with pytest.raises(TidelineError):
        session.sql("SELECT CAST(s AS INT) FROM t WHERE id + 0 = 1")
    session.sql("CREATE MATERIALIZED VIEW v AS SELECT id, 1 / (id - 2) AS q FROM t")
    session.sql("INSERT INTO t VALUES (2, 'y')")
    assert session.flush().failed
    assert not logged


def test_a_call_of_the_user_is_logged_as_ever(session: Session, logged: list[logging.LogRecord]) -> None:
    with pytest.raises(PySparkException):
        session.spark.sql("SELECT nope(1)").collect()
    assert logged

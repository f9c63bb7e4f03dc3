"""Intervals that are written as texts in quotes: into columns, and beside intervals."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.errors import SqlError
from engine.session import Session
from tests.runtime.writes.test_dml import rows


@pytest.fixture
def spans(spark: SparkSession, tmp_path: Path) -> Iterator[Session]:
    with Session((tmp_path / "store").as_uri(), spark, dialect="postgres") as session:
        session.sql("CREATE TABLE t (id INT PRIMARY KEY, v INTERVAL, more INT[])")
        yield session


def test_they_are_taken_whatever_stands_beside_them(spans: Session) -> None:
    spans.sql("INSERT INTO t (id, v) VALUES (1, '1 day'), (2, '01:30:00'), (3, NULL)")
    spans.sql("INSERT INTO t VALUES (4, '-2 hours', ARRAY[1 + 1])")  # which Spark computes
    spans.sql("INSERT INTO t SELECT 5, '1 day 2 hours' AS v, NULL")
    spans.sql("UPDATE t SET v = '3 days' WHERE v = '1 day'")
    day, hour = timedelta(days=1), timedelta(hours=1)
    assert rows(spans, "SELECT id, v FROM t ORDER BY id") == [
        (1, 3 * day),
        (2, 1.5 * hour),
        (3, None),
        (4, -2 * hour),
        (5, day + 2 * hour),
    ]
    assert rows(spans, "SELECT id FROM t WHERE v > '1 day' ORDER BY id") == [(1,), (5,)]


def test_months_are_refused_with_the_place(spans: Session) -> None:
    with pytest.raises(SqlError, match="the interval '1 month' in a column is not offered") as error:
        spans.sql("INSERT INTO t VALUES (6, '1 month', ARRAY[1 + 1])")
    assert error.value.line == 1 and "30 days" in error.value.hint

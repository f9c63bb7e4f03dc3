"""DISTINCT over tables that are only added to: a row that comes again changes nothing, also for who reads the view."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.session import Session

VIEWS = {
    "pairs": "SELECT DISTINCT a, x FROM t",
    "sums": "SELECT a, sum(x) AS s, min(x) AS low, count(*) AS n FROM pairs GROUP BY a",
    "whole": "SELECT a, sum(x) AS s FROM (SELECT DISTINCT a, x FROM t) q GROUP BY a",
    "both": "SELECT a FROM t UNION SELECT b FROM u",
    "without": "SELECT a FROM (SELECT DISTINCT a, x FROM t) q EXCEPT ALL SELECT b FROM u",
}


@pytest.fixture
def session(tmp_path: Path, spark: SparkSession) -> Iterator[Session]:
    with Session((tmp_path / "store").as_uri(), spark, "postgres") as made:
        made.sql("CREATE TABLE t (a INT, x DOUBLE PRECISION) APPEND ONLY")
        made.sql("CREATE TABLE u (b INT) APPEND ONLY")
        for name, query in VIEWS.items():
            made.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        yield made


def _rows(session: Session, query: str) -> list[str]:
    found = session.sql(query)
    assert found is not None
    return sorted(repr(row) for row in found.to_pylist())


@pytest.mark.parametrize("more", [3, 30_000], ids=["small", "large"])
@pytest.mark.long
def test_rows_that_come_again_change_nothing(session: Session, more: int) -> None:
    epochs = (
        "INSERT INTO t VALUES (1, 0.5), (1, 0.5), (1, 2.5), (NULL, 1), (2, NULL)",
        "INSERT INTO t VALUES (1, 0.5), (NULL, 1), (2, NULL)",
        "INSERT INTO u VALUES (1), (1), (NULL)",
        f"INSERT INTO t SELECT CAST(g % 7 AS int), CAST(0.5 AS double precision) FROM generate_series(1, {more}) AS s(g)",
        f"INSERT INTO t SELECT CAST(g % 7 AS int), CAST(0.5 AS double precision) FROM generate_series(1, {more}) AS s(g)",
    )
    for statement in epochs:
        session.sql(statement)
        report = session.flush()
        assert [view.error for view in report.failed] == []
        assert {view.deleted for view in report.views if view.view == "pairs"} == {0}
        for name, query in VIEWS.items():
            assert _rows(session, f"SELECT * FROM {name}") == _rows(session, query), name

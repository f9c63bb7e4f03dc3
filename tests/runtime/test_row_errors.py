"""A row on which an expression fails: the view stops and names the row, or shows null."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.errors import EpochFailed
from engine.session import Session
from tests.runtime.test_dml import rows


@pytest.fixture
def parts(session: Session) -> Session:
    session.sql("CREATE TABLE part (id BIGINT PRIMARY KEY, a INT, b INT, t STRING)")
    session.sql("INSERT INTO part VALUES (1, 10, 5, '7'), (2, 8, 2, '9')")
    return session


FAILING = {
    "summed": "SELECT t, sum(a / b) AS r FROM part GROUP BY t",
    "joined": "SELECT p.id, q.a / p.b AS r FROM part p JOIN part q ON p.id = q.id",
}


def test_a_failing_epoch_names_the_row_and_loses_nothing(parts: Session) -> None:
    for name, query in FAILING.items():
        parts.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}", build=False)
    parts.sql("FLUSH")
    before = {name: sorted(map(str, rows(parts, f"SELECT * FROM {name}"))) for name in FAILING}
    parts.sql("INSERT INTO part VALUES (10, 1, 1, '1'), (77, 1, 0, 'x')")
    report = parts.flush()
    for name in FAILING:
        assert "{'id': 77}" in (report[name].error or "") and "on_row_error" in (report[name].error or "")
        assert sorted(map(str, rows(parts, f"SELECT * FROM {name}"))) == before[name]
    parts.sql("DELETE FROM part WHERE id = 77")
    parts.sql("FLUSH")
    for name, query in FAILING.items():
        assert sorted(map(str, rows(parts, f"SELECT * FROM {name}"))) == sorted(map(str, rows(parts, query)))


def test_a_first_build_names_the_row_too(parts: Session) -> None:
    parts.sql("INSERT INTO part VALUES (5, 1, 0, '1')")
    with pytest.raises(EpochFailed, match=r"row of part with key \{'id': 5\}"):
        parts.sql("CREATE MATERIALIZED VIEW v AS SELECT t, sum(a / b) AS r FROM part GROUP BY t")
    assert rows(parts, "SHOW ALL") == [("part", "table")]


@pytest.mark.parametrize("policy", ["auto", "full"])
def test_with_null_a_failing_expression_is_null(parts: Session, policy: str) -> None:
    parts.sql(
        f"CREATE MATERIALIZED VIEW v WITH (on_row_error = 'null', refresh_policy = '{policy}') AS "
        "SELECT id, a / b AS r, a DIV b AS d, a % b AS m, CAST(t AS INT) AS n, -a * 2 AS o, a * 1000000000 AS big FROM part "
        "WHERE CAST(t AS INT) > 1 OR b = 0"
    )
    parts.sql("INSERT INTO part VALUES (3, 7, 0, 'x'), (4, 7, 7, 'x')")
    parts.sql("FLUSH")
    assert rows(parts, "SELECT * FROM v ORDER BY id") == [
        (1, 2.0, 2, 0, 7, -20, None),
        (2, 4.0, 4, 0, 9, -16, None),
        (3, None, None, None, None, -14, None),
    ]


def test_null_is_the_rule_of_risingwave(tmp_path: Path, spark: SparkSession) -> None:
    with Session((tmp_path / "s").as_uri(), spark, "risingwave") as s:
        s.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, a INT, b INT)")
        s.sql("CREATE MATERIALIZED VIEW v AS SELECT id, a / b AS q FROM t")
        s.sql("CREATE MATERIALIZED VIEW w WITH (on_row_error = 'fail') AS SELECT id, a / b AS q FROM t")
        s.sql("INSERT INTO t VALUES (1, 7, 2), (2, 7, 0)")
        report = s.flush()
        assert rows(s, "SELECT * FROM v ORDER BY id") == [(1, 3), (2, None)]
        assert report["v"].error is None and "'id': 2" in (report["w"].error or "")

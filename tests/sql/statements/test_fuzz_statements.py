"""A few hundred mutated statements: `python -m tests.sql.fuzz_statements` runs thousands."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.sql.fuzz_statements import World, run
from tests.sql.mutations import statement

pytestmark = pytest.mark.usefixtures("spark")  # statements that have begun may ask for one


@pytest.mark.long
@pytest.mark.parametrize("count", [80, pytest.param(300, marks=pytest.mark.long)])
def test_mutated_statements_are_answered_or_refused_without_a_trace(count: int) -> None:
    failures = [
        failure for failure in run(count, seed=11, spark=None) if not failure.what.startswith("it took")
    ]
    assert not failures, failures


@pytest.mark.oracle
def test_mutated_statements_that_reach_spark_are_answered_or_refused(spark: SparkSession) -> None:
    failures = [
        failure for failure in run(400, seed=12, spark=spark) if not failure.what.startswith("it took")
    ]
    assert not failures, failures


def test_a_seed_and_a_number_give_the_same_statement_again() -> None:
    assert [statement(3, n) for n in range(50)] == [statement(3, n) for n in range(50)]
    assert len({statement(3, n) for n in range(50)}) > 40


# statements that went wrong once, and in which dialect
FOUND = [
    ("risingwave", "INSERT INTO t (id) VALUES (1) ON CONFLICT (id)"),
    ("spark", "ALTER TABLE t ADD COLUMN z DEFAULT INT 3"),
    ("postgres", "ALTER TABLE t ADD COLUMN b INT WITH (type = 'upsert')"),
    ("postgres", "DELETE FR"),
    ("risingwave", "SELECT CASE WHEN n ? > 3 THEN 'x' END AS c FROM t"),
    ("risingwave", "UPDATE t SET n = n + 1 WHERE (2, 'b')"),
    ("risingwave", "CREATE VIEW x (a, b) t SELECT id, s FROM AS"),
    ("spark", "SELECT * FROM t FOR SYSTEM_TIME AS OF interval '1' day() - INTERVAL '1' MINUTE"),
    ("postgres", "SELECT CHAR(id) AS z, n FROM t UNION ALL SELECT 1, 2"),
    ("spark", f"ALTER TABLE t ADD COLUMN z INT DEFAULT {'1' * 400}"),
    ("spark", f"INSERT INTO t (id) VALUES ({'1' * 5000})"),
    ("risingwave", f"SELECT * FROM t FOR SYSTEM_TIME AS OF now() - INTERVAL {'1' * 400} DAY"),
]


@pytest.mark.parametrize(("dialect", "text"), FOUND)
def test_a_statement_that_once_broke_is_refused(tmp_path: Path, dialect: str, text: str) -> None:
    world = World(tmp_path, None)
    assert world.check(0, dialect, text) is None

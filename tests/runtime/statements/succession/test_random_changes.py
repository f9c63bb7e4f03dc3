"""Views that get one query after the other while rows come in: after each flush views, readers and sinks are what a batch says."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.session import Session
from tests.runtime.statements.succession.test_take_over import check_nothing_is_left, read

QUERIES = (
    "SELECT g, sum(n) AS total, count(*) AS c FROM t GROUP BY g",
    "SELECT g, max(n) AS total, count(n) AS c FROM t GROUP BY g",
    "SELECT g, min(n) AS total, count(DISTINCT n) AS c FROM t WHERE n > 5 GROUP BY g",
    "SELECT g, sum(n * f) AS total, count(*) AS c FROM t JOIN u USING (g) GROUP BY g",
    "SELECT g, f AS total, f AS c FROM u",
    "SELECT g, f AS total, f + 1 AS c FROM u WHERE g IN (SELECT g FROM t WHERE n > 20)",
    "SELECT g, f AS total, NULLIF(f, 3) AS c FROM u WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.g = u.g)",
    "SELECT u.g, f AS total, x.c FROM u LEFT JOIN (SELECT g, count(*) AS c FROM t GROUP BY g) x ON u.g = x.g",
    "SELECT g, CAST(sum(k) AS BIGINT) AS total, count(*) AS c FROM (SELECT g, n AS k FROM t UNION ALL SELECT g, f FROM u) GROUP BY g",
    "SELECT g, total, c FROM (SELECT g, sum(n) AS total, count(*) AS c FROM t GROUP BY g) WHERE total > (SELECT avg(n) FROM t)",
    "SELECT g, n AS total, id AS c FROM (SELECT *, row_number() OVER (PARTITION BY g ORDER BY n DESC, id) AS r FROM t) WHERE r = 1",
    "SELECT g, sum(n) AS total, CAST(approx AS BIGINT) AS c FROM (SELECT g, n, max(n) OVER (PARTITION BY g) AS approx FROM t) "
    "GROUP BY g, approx",
)
"""Queries with the same columns; not all have the same key, and an ALTER to such a one is refused."""
READERS = {
    "by_c": "SELECT c, count(*) AS k, sum(total) AS s FROM v GROUP BY c",
    "joined": "SELECT v.g, v.total, t.id FROM v JOIN t ON v.g = t.g WHERE v.total IS NOT NULL",
    "best": "SELECT g, total FROM v WHERE total > 10",
}


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 6))
def test_all_follow_one_query_after_the_other(tmp_path: Path, spark: SparkSession, seed: int) -> None:
    rng = random.Random(seed)
    with Session((tmp_path / "store").as_uri(), spark) as session:
        session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g BIGINT, n BIGINT)")
        session.sql("CREATE TABLE u (g BIGINT PRIMARY KEY, f BIGINT)")
        query = QUERIES[0]
        session.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        for name, text in READERS.items():
            session.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}")
        session.sql("CREATE TABLE target (g BIGINT PRIMARY KEY, total BIGINT, c BIGINT)")
        session.sql("CREATE SINK s INTO target AS SELECT g, total, c FROM v WHERE g IS NOT NULL")
        altered = 0
        for _ in range(3 if seed == 1 else 20):
            change(session, rng)
            following = rng.choice(QUERIES)
            try:
                session.sql(f"ALTER MATERIALIZED VIEW v AS {following}", build=rng.random() < 0.5)
            except Exception as refused:
                assert "cannot go on with this query: " in str(refused)
            else:
                altered += following != query
                query = following
            if rng.random() < 0.5:
                change(session, rng)
            session.flush().raise_for_errors()
            check(session, query)
            change(session, rng)
            session.flush().raise_for_errors()
            check(session, query)
        assert altered


def change(session: Session, rng: random.Random) -> None:
    """Insert, update and delete a few rows; some values are null."""
    ids = rng.sample(range(30), 6)
    numbers = [rng.choice([None, *range(40)]) for _ in ids]
    groups = [rng.choice([None, 0, 1, 2, 3, 4]) for _ in ids]
    session.write(
        "t",
        pa.table({"id": ids, "g": pa.array(groups, pa.int64()), "n": pa.array(numbers, pa.int64())}),
        mode="upsert",
    )
    session.sql(f"DELETE FROM t WHERE id = {rng.randrange(30)}")
    session.write("u", pa.table({"g": [rng.randrange(6)], "f": [rng.randrange(9)]}), mode="upsert")
    session.sql(f"DELETE FROM u WHERE g = {rng.randrange(9)}")


def check(session: Session, query: str) -> None:
    """Hold the view, its readers and what a sink has written against the batch results of the same texts."""
    expected = read(session, query)
    assert read(session, "SELECT * FROM v") == expected, query
    for name, text in READERS.items():
        assert read(session, f"SELECT * FROM {name}") == read(session, f"WITH v AS ({query}) {text}"), (
            name,
            query,
        )
    assert read(session, "SELECT * FROM target WHERE g IS NOT NULL") == [
        row for row in expected if row[0] is not None
    ]
    check_nothing_is_left(session)

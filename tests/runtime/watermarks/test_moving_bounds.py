"""Rows that are compared with the one row of another query come and go as it changes, at the cost of those that it passes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.session import Session
from tests.oracle.batch import assert_views_equal_duckdb, content

VIEWS = {
    "above": "SELECT id, x FROM a WHERE x > (SELECT max(y) FROM b)",
    "least": "SELECT id FROM a WHERE x >= (SELECT min(y) FROM b)",
    "below": "SELECT id, g FROM a WHERE (SELECT avg(y)::INT FROM b) > x AND g <> 1",
    "upto": "WITH m AS (SELECT max(y) AS m FROM b) SELECT x, id FROM a, m WHERE x <= m",
    "big": "SELECT id FROM a WHERE w < (SELECT max(w) FROM a)",
    "grouped": "SELECT g, count(*) AS n, max(x) AS m FROM a WHERE x < (SELECT max(y) FROM b WHERE y < 9) GROUP BY g",
    "joined": "SELECT a.id, c.id AS other FROM a JOIN a AS c ON a.g = c.g WHERE a.x > (SELECT min(y) FROM b)",
    "days": "SELECT id FROM a WHERE d >= (SELECT max(d) FROM a WHERE g = 0)",
    "recent": "SELECT id, g FROM a WHERE d > (SELECT max(d) FROM a WHERE g < 2) - 3",
    "newest": (
        "SELECT g, count(*) AS n FROM a WHERE g IS NOT NULL "
        "AND d::TIMESTAMP >= (SELECT max(d::TIMESTAMP) FROM a WHERE g = 0) - INTERVAL '2 days' GROUP BY g"
    ),
    "ahead": "SELECT id FROM a WHERE (SELECT min(d) FROM a WHERE g = 1) + 2 > d",
    "counted": "SELECT id FROM a WHERE w > (SELECT count(*) FROM b)",
    "shown": "SELECT a.id, m.m FROM a, (SELECT max(y) AS m FROM b) AS m WHERE a.x > m.m",
    "wide": "SELECT id FROM a WHERE f > (SELECT avg(y) FROM b)",
}
"""The last two stay joins: one shows the bound, one compares decimals."""
BOUNDS = [-(1 << 63), (1 << 63) - 1, (1 << 63) - 2, 0, 3, None]


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> Iterator[Session]:
    with Session((tmp_path / "store").as_uri(), spark, "postgres") as opened:
        opened.sql("CREATE TABLE a (id INT PRIMARY KEY, g INT, x INT, w BIGINT, d DATE, f NUMERIC(10, 2))")
        opened.sql("CREATE TABLE b (id INT PRIMARY KEY, y INT)")
        yield opened


def _of_a(chance: random.Random, key: int) -> dict[str, object]:
    day = None if chance.random() < 0.1 else f"2024-01-{chance.randrange(1, 9):02}"
    x = None if chance.random() < 0.1 else chance.randrange(12)
    return {
        "id": key,
        "g": chance.randrange(3),
        "x": x,
        "w": chance.choice(BOUNDS),
        "d": day,
        "f": str(x or 0),
    }


def _step(session: Session, chance: random.Random) -> None:
    for key in chance.sample(range(15), chance.randrange(4)):
        row = _of_a(chance, key)
        values = ", ".join("NULL" if value is None else f"'{value}'" for value in row.values())
        session.sql(f"DELETE FROM a WHERE id = {key}")
        if chance.random() < 0.8:
            session.sql(f"INSERT INTO a VALUES ({values})")
    if chance.random() < 0.7:
        keys = chance.sample(range(5), chance.randrange(1, 3))
        values = [None if chance.random() < 0.1 else chance.randrange(12) for _ in keys]
        rows = pa.table({"id": pa.array(keys, pa.int32()), "y": pa.array(values, pa.int32())})
        session.write("b", rows, mode=chance.choice(["upsert", "upsert", "delete"]))


LONG = [pytest.param(seed, 25, tuple(VIEWS), marks=pytest.mark.oracle) for seed in range(2, 5)]


@pytest.mark.parametrize(
    ("seed", "steps", "names"), [(1, 4, ("above", "big", "grouped", "newest", "ahead", "shown")), *LONG]
)
def test_views_equal_duckdb_after_random_steps(
    lake: Session, seed: int, steps: int, names: tuple[str, ...]
) -> None:
    chance = random.Random(seed)
    for name in names:
        lake.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}", build=False)
    for step in range(steps):
        _step(lake, chance)
        lake.flush().raise_for_errors()
        assert_views_equal_duckdb(lake, ("a", "b"), {n: VIEWS[n] for n in names}, f"seed {seed}, step {step}")


@pytest.mark.long
def test_an_epoch_reads_the_rows_that_the_bound_passes(lake: Session) -> None:
    rows = pa.table({"id": pa.array(range(2000), pa.int32()), "x": pa.array(range(2000), pa.int32())})
    lake.write("a", rows)
    lake.sql("INSERT INTO b VALUES (1, 1000)")
    lake.sql(f"CREATE MATERIALIZED VIEW above AS {VIEWS['above']}")
    lake.sql("INSERT INTO b VALUES (2, 1010)")
    report = lake.flush().views[0]
    assert (report.deleted, report.rows_in) == (10, 13)  # with the row of b, and its maximum before and after
    lake.sql("DELETE FROM b WHERE id = 2")
    report = lake.flush().views[0]
    assert (report.inserted, report.deleted) == (10, 0)
    assert content(lake, "above").num_rows == 999

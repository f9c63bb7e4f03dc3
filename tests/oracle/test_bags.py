"""Bags: tables without a key, in which rows stand twice, changed by what they hold; views over them equal DuckDB after each epoch."""

from __future__ import annotations

import random
from pathlib import Path

import duckdb
import pytest
from pyspark.sql import SparkSession

from engine.session import Session

TABLES = {"a": "g INT, x BIGINT, s VARCHAR", "b": "g INT, y DECIMAL(10, 2)"}
VIEWS = {
    "copies": "SELECT g, x, s FROM a WHERE x IS NULL OR x < 7",
    "counts": "SELECT g, count(*) AS n, count(x) AS c, sum(x) AS t, min(s) AS low, count(DISTINCT x) AS d FROM a GROUP BY g",
    "pairs": "SELECT a.g, a.x, b.y FROM a JOIN b ON a.g = b.g",
    "sides": "SELECT a.x, b.y FROM a LEFT JOIN b ON a.g = b.g AND b.y > 2",
    "either": "SELECT g FROM a UNION ALL SELECT g FROM b",
    "less": "SELECT g FROM a EXCEPT ALL SELECT g FROM b",
    "shared": "SELECT g FROM a INTERSECT ALL SELECT g FROM b",
    "unlike": "SELECT DISTINCT g, s FROM a",
    "ranked": "SELECT g, x, rank() OVER (PARTITION BY g ORDER BY x NULLS LAST) AS r, count(*) OVER (PARTITION BY g) AS n FROM a",
    "twice": "SELECT n, count(*) AS groups FROM counts GROUP BY n",
    "known": "SELECT x, s FROM a WHERE g IN (SELECT g FROM b WHERE y > 1)",
}


def _statement(source: random.Random) -> str:
    table = source.choice("aab")
    few, word = f"g % 3 = {source.randrange(3)}", source.choice("xyz")
    kind = source.random()
    if kind < 0.55:
        rows = [_row(table, source) for _ in range(source.randint(1, 5))]
        rows += source.choices(rows, k=source.randint(0, 3))
        return f"INSERT INTO {table} VALUES {', '.join(rows)}"
    if kind < 0.7:
        return f"DELETE FROM {table} WHERE {few}" + (
            f" AND (s = '{word}' OR x IS NULL)" if table == "a" else ""
        )
    if kind < 0.85:
        change = f"x = x + 1, s = '{word}'" if table == "a" else "y = y / 2"
        return f"UPDATE {table} SET {change} WHERE {few}"
    if kind < 0.93:
        return f"INSERT INTO {table} SELECT * FROM {table} WHERE {few}"
    return f"DELETE FROM {table} WHERE g = (SELECT max(g) FROM {table})"


def _row(table: str, source: random.Random) -> str:
    g = source.choice(("NULL", "0", "1", "2", "3", "4"))
    if table == "b":
        return f"({g}, {source.choice(('NULL', '1.00', '2.50', '8.00'))})"
    return f"({g}, {source.choice(('NULL', '1', '5', '9'))}, {source.choice(('NULL', repr('x'), repr('y')))})"


def _equal_after_each_epoch(folder: Path, spark: SparkSession, seed: int, epochs: int) -> None:
    source, judge = random.Random(seed), duckdb.connect()
    with Session(folder.as_uri(), spark, dialect="postgres") as session:
        for name, columns in TABLES.items():
            session.sql(f"CREATE TABLE {name} ({columns})")
            judge.sql(f"CREATE TABLE {name} ({columns})")
        for name, query in VIEWS.items():
            session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
            judge.sql(f"CREATE VIEW {name} AS {query}")
        for epoch in range(epochs):
            for _ in range(source.randint(1, 6)):
                text = _statement(source)
                session.sql(text)
                judge.execute(text)
            session.flush().raise_for_all()
            for name in (*TABLES, *VIEWS):
                found = session.sql(f"SELECT * FROM {name}")
                assert found is not None
                mine = sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)
                theirs = sorted(judge.sql(f"SELECT * FROM {name}").fetchall(), key=repr)
                assert mine == theirs, f"{name} of seed {seed} after epoch {epoch}"


def test_views_over_bags_equal_a_batch_engine(tmp_path: Path, spark: SparkSession) -> None:
    _equal_after_each_epoch(tmp_path, spark, 0, 3)


@pytest.mark.oracle
@pytest.mark.parametrize("seed", range(1, 11))
def test_views_over_bags_equal_a_batch_engine_in_many_epochs(
    seed: int, tmp_path: Path, spark: SparkSession
) -> None:
    _equal_after_each_epoch(tmp_path, spark, seed, 12)

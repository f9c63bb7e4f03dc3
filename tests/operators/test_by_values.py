"""Distinct values and extremes follow states of values: equal to DuckDB after random epochs of inserts, updates and deletes."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.session import Session
from tests.oracle.batch import assert_views_equal_duckdb

VIEWS = {
    "extremes": "SELECT g, min(x) AS low, max(x) AS high, count(DISTINCT x) AS n FROM reading GROUP BY g",
    "mixed": (
        "SELECT g, count(DISTINCT note) AS notes, sum(DISTINCT n) AS total, max(n) AS high, count(*) AS c, "
        "sum(n) FILTER (WHERE note = 'a') AS some, min(note) FILTER (WHERE n > 3) AS first_note FROM reading GROUP BY g"
    ),
    "whole": "SELECT max(x) AS high, min(n) AS low, count(*) AS c FROM reading",
}
MORE = {
    "by_measure": "SELECT g, max_by(note, id) AS newest, min_by(n, id) AS oldest FROM reading GROUP BY g",
    "by_expression": "SELECT n % 3 AS k, max(note) AS high, avg(DISTINCT n) AS mean FROM reading GROUP BY n % 3",
    "over_join": "SELECT b.note, max(a.x) AS high FROM reading a JOIN reading b ON a.g = b.g GROUP BY b.note",
}
OVER_A_JOIN = (
    "SELECT s.item, max(s.day) AS last, sum(s.n) AS n, sum(i.stock) AS stock FROM sale AS s JOIN item AS i ON i.id = s.item "
    "GROUP BY s.item"
)
# DuckDB's max_by passes over rows whose value is null, Spark's does not.
AS_DUCKDB_SAYS = {
    "by_measure": "SELECT g, arg_max_null(note, id) AS newest, arg_min_null(n, id) AS oldest FROM reading GROUP BY g"
}


def rows(chance: random.Random, ids: list[int]) -> pa.Table:
    numbers = [None, -0.0, 0.0, 1.5, -2.5, 1e300, float("nan"), float("inf")]
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "g": pa.array([chance.choice([None, 1, 2, 3]) for _ in ids], pa.int64()),
            "x": pa.array([chance.choice(numbers) for _ in ids], pa.float64()),
            "n": pa.array([chance.choice([None, *range(8)]) for _ in ids], pa.int64()),
            "note": pa.array([chance.choice([None, "a", "b", "ä"]) for _ in ids], pa.string()),
        }
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("views", "epochs"),
    [(VIEWS, 2), pytest.param(VIEWS | MORE, 8, marks=pytest.mark.oracle)],
    ids=["few", "all"],
)
def test_views_by_values_equal_a_batch_run(session: Session, views: dict[str, str], epochs: int) -> None:
    chance = random.Random(epochs)
    session.sql("CREATE TABLE reading (id BIGINT PRIMARY KEY, g BIGINT, x DOUBLE, n BIGINT, note STRING)")
    session.write("reading", rows(chance, list(range(25))))
    for name, query in views.items():
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}", build=False)
        assert {f.rule.word for f in session.stored.plans[name].fragments} <= {"aggregate", "join"}
    session.flush().raise_for_errors()
    for epoch in range(epochs):
        known = session.sql("SELECT id FROM reading").column("id").to_pylist()  # type: ignore[union-attr]
        gone = chance.sample(known, 8)
        session.sql(f"DELETE FROM reading WHERE id IN ({', '.join(map(str, gone))})")
        session.write("reading", rows(chance, chance.sample(range(40), 8)), mode="upsert")
        session.flush().raise_for_errors()
        judged = {name: AS_DUCKDB_SAYS.get(name, query) for name, query in views.items()}
        assert_views_equal_duckdb(session, ("reading",), judged, f"epoch {epoch}")


@pytest.mark.oracle
def test_a_view_by_values_that_is_built_in_steps_equals_a_batch_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    chance = random.Random(7)
    with Session((tmp_path / "store").as_uri(), spark, backfill_rows=10) as session:
        session.sql("CREATE TABLE reading (id BIGINT PRIMARY KEY, g BIGINT, x DOUBLE, n BIGINT, note STRING)")
        session.write("reading", rows(chance, list(range(40))))
        session.sql(f"CREATE MATERIALIZED VIEW mixed AS {VIEWS['mixed']}")
        session.write("reading", rows(chance, list(range(5, 15))), mode="upsert")
        session.flush().raise_for_errors()
        assert_views_equal_duckdb(session, ("reading",), {"mixed": VIEWS["mixed"]}, "after its steps")


def test_a_state_of_values_reads_no_other_columns_of_a_join(tmp_path: Path) -> None:
    with Session((tmp_path / "store").as_uri()) as session:
        session.sql("CREATE TABLE sale (id BIGINT PRIMARY KEY, item BIGINT, day INT, n INT)")
        session.sql("CREATE TABLE item (id BIGINT PRIMARY KEY, stock INT)")
        shown = session.sql(f"EXPLAIN INCREMENTAL {OVER_A_JOIN}")
        assert shown is not None
        text = "\n".join(str(value) for row in shown.to_pylist() for value in row.values())
        state, _, view = text.partition("\nview ")
        assert "Scan sale [id, item, day]" in state and "Scan item [id]" in state
        assert "Scan sale [id, item, day, n]" in view and "Scan item [id, stock]" in view


@pytest.mark.long
def test_changes_that_a_state_does_not_read_reach_the_view(session: Session) -> None:
    session.sql("CREATE TABLE sale (id BIGINT PRIMARY KEY, item BIGINT, day INT, n INT)")
    session.sql("CREATE TABLE item (id BIGINT PRIMARY KEY, stock INT)")
    session.sql("INSERT INTO sale VALUES (1, 1, 5, 1), (2, 1, 6, 2), (3, 2, 7, 3)")
    session.sql("INSERT INTO item VALUES (1, 10), (2, 20)")
    session.sql(f"CREATE MATERIALIZED VIEW seen AS {OVER_A_JOIN}")
    session.flush().raise_for_errors()
    for text in (
        "UPDATE item SET stock = 11 WHERE id = 1",
        "UPDATE sale SET n = 9 WHERE id = 2",
        "UPDATE sale SET day = 1, n = 0 WHERE id = 2",
        "DELETE FROM item WHERE id = 2",
        "INSERT INTO item VALUES (2, 5)",
    ):
        session.sql(text)
        session.flush().raise_for_errors()
        assert_views_equal_duckdb(session, ("sale", "item"), {"seen": OVER_A_JOIN}, text)

"""Calls that look a few rows around each row are computed again around changes only, whatever stands in the partition."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from engine.session import Session
from tests.oracle.batch import assert_equal, by_duckdb, content
from tests.session_rows import rows as sorted_rows

VIEWS = {
    "back": (
        "SELECT id, k, t, x, lag(x) OVER (PARTITION BY k ORDER BY t NULLS FIRST, id) AS p, sum(x) OVER "
        "(PARTITION BY k ORDER BY t NULLS FIRST, id ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS s FROM m"
    ),
    "ahead": "SELECT id, lead(x, 2) OVER (PARTITION BY k ORDER BY t DESC NULLS FIRST, id) AS p FROM m",
    "alone": (
        "SELECT id, lead(x) OVER (ORDER BY t NULLS LAST, id) AS p, "
        "count(*) OVER (ORDER BY t NULLS LAST, id ROWS 3 PRECEDING) AS c FROM m"
    ),
    "kept": (
        "SELECT id, p FROM (SELECT id, k, lag(t) OVER (PARTITION BY k ORDER BY t DESC NULLS LAST, id) AS p, "
        "avg(x) OVER (PARTITION BY k ORDER BY t DESC NULLS LAST, id ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING) AS v "
        "FROM m) q WHERE p IS NOT NULL AND v > 1"
    ),
    "by_text": (
        "SELECT id, first_value(d) OVER (PARTITION BY k ORDER BY n NULLS LAST, d, id ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING) "
        "AS f FROM m"
    ),
}
LONG = [pytest.param(seed, 25, marks=pytest.mark.oracle) for seed in range(2, 8)]


def rows(chance: random.Random, ids: list[int]) -> pa.Table:
    def some(below: int) -> int | None:
        return None if chance.random() < 0.12 else chance.randrange(below)

    made = [(n, some(2), some(30), some(6), chance.choice((None, "", "a", "b", "ä")), some(4)) for n in ids]
    columns = zip(*made, strict=True)
    kinds = (pa.int32(), pa.int32(), pa.int32(), pa.int32(), pa.string(), pa.int32())
    arrays = [pa.array(list(column), kind) for column, kind in zip(columns, kinds, strict=True)]
    return pa.table(arrays, names=["id", "k", "t", "x", "n", "d"])


@pytest.mark.parametrize(("seed", "steps"), [(1, 2), *LONG])
def test_views_equal_duckdb_after_random_changes(session: Session, seed: int, steps: int) -> None:
    session.dialect = "postgres"
    session.sql("CREATE TABLE m (id INT PRIMARY KEY, k INT, t INT, x INT, n VARCHAR, d INT)")
    chance = random.Random(seed)
    session.write("m", rows(chance, chance.sample(range(80), 50)))
    for name, query in VIEWS.items():
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}", build=False)
    for step in range(steps):
        session.flush().raise_for_errors()
        tables = {"m": content(session, "m")}
        for name, query in VIEWS.items():
            assert_equal(
                content(session, name), by_duckdb(tables, query), f"{name}, seed {seed}, step {step}"
            )
        for _ in range(chance.choice((1, 2, 3))):
            session.write("m", rows(chance, chance.sample(range(80), chance.choice((1, 2, 4)))))
            if chance.random() < 0.6:
                gone = pa.array(chance.sample(range(80), 2), pa.int32())
                session.write("m", pa.table({"id": gone}), mode="delete")


def test_a_plan_says_how_far_calls_look(session: Session) -> None:
    session.sql("CREATE TABLE m (id INT PRIMARY KEY, k INT, t INT, x INT, d DOUBLE)")

    def explain(call: str) -> str:
        found = session.sql(f"EXPLAIN INCREMENTAL SELECT id, k, {call} AS c FROM m")
        assert found is not None
        return " ".join(found.column(0).to_pylist())

    near = explain("sum(x) OVER (PARTITION BY k ORDER BY t ROWS BETWEEN 5 PRECEDING AND 1 FOLLOWING)")
    assert "rows up to 5 from a change are computed again" in near
    for far in (
        "sum(x) OVER (PARTITION BY k ORDER BY t)",
        "lag(x, 17) OVER (PARTITION BY k ORDER BY t)",
        "lag(x) IGNORE NULLS OVER (PARTITION BY k ORDER BY t)",
        "lag(x) OVER (PARTITION BY k ORDER BY d)",
        "rank() OVER (PARTITION BY k ORDER BY t)",
    ):
        assert "touched partitions are computed again" in explain(far)


@pytest.mark.long
def test_a_view_that_is_cut_into_partitions_leaves_the_poisoned_one_behind(session: Session) -> None:
    session.sql("CREATE TABLE p (id INT PRIMARY KEY, g INT, x STRING)")
    session.sql("INSERT INTO p VALUES (1, 1, '5'), (2, 1, '7'), (3, 2, '1')")
    query = "SELECT id, g, lag(CAST(x AS INT)) OVER (PARTITION BY g ORDER BY id) AS s FROM p"
    session.sql(f"CREATE MATERIALIZED VIEW v WITH (partition_by = 'g') AS {query}")
    session.flush().raise_for_errors()
    session.sql("INSERT INTO p VALUES (4, 2, 'no number'), (5, 1, '2')")
    assert list(session.flush()["v"].quarantined) == ["2"]
    rows = [(row["id"], row["s"]) for row in content(session, "v").sort_by("id").to_pylist()]
    assert rows == [(1, None), (2, 5), (3, None), (5, 7)]
    session.sql("UPDATE p SET x = '9' WHERE id = 4")
    session.sql("INSERT INTO p VALUES (6, 2, '3')")
    session.flush().raise_for_quarantine()
    rows = [(row["id"], row["s"]) for row in content(session, "v").sort_by("id").to_pylist()]
    assert rows == [(1, None), (2, 5), (3, None), (4, 1), (5, 7), (6, 9)]


@pytest.mark.long
def test_two_orders_of_all_rows_meet_above_and_beside_each_other(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)")
    session.sql(
        "CREATE MATERIALIZED VIEW above AS SELECT id, lag(id) OVER (ORDER BY a, id) AS x, lead(id) OVER (ORDER BY b, id) "
        "AS y, lag(a, 2) OVER (ORDER BY id) AS z FROM t"
    )
    session.sql(
        "CREATE MATERIALIZED VIEW beside AS SELECT l.id, l.x, r.y FROM (SELECT id, lag(id) OVER (ORDER BY a, id) AS x FROM t) "
        "AS l JOIN (SELECT id, lead(id) OVER (ORDER BY b, id) AS y FROM t) AS r ON l.id = r.id"
    )
    for statement in (
        "INSERT INTO t VALUES (1, 5, 3), (2, 4, 9), (3, 1, 1)",
        "INSERT INTO t VALUES (4, 2, 2)",
        "DELETE FROM t WHERE id = 2",
    ):
        session.sql(statement)
        session.flush().raise_for_errors()
    assert sorted_rows(session, "SELECT * FROM above") == [
        (1, 4, None, None),
        (3, None, 4, None),
        (4, 3, 1, 5),
    ]
    assert sorted_rows(session, "SELECT * FROM beside") == [(1, 4, None), (3, None, 4), (4, 3, 1)]

"""The variables of a lambda are found whatever the case in which they are written, and hide columns of their name, as in Spark."""

from __future__ import annotations

import pytest

from engine.session import Session

ROWS = "VALUES (1L, 10, array(1, 2), array(named_struct('a', 1))), (2L, 20, array(3), array(named_struct('a', 5)))"
QUERIES = (
    "SELECT id, transform(xs, X -> x + 1) AS r FROM t",
    "SELECT id, transform(xs, `x` -> X + 1) AS r FROM t",
    "SELECT id, transform(xs, `a b` -> `A b` + x) AS r FROM t",
    "SELECT id, transform(xs, x -> transform(xs, X -> x + 1)) AS r FROM t",
    "SELECT id, aggregate(xs, 0, (ACC, x) -> acc + X) AS r FROM t",
    "SELECT id, transform(ss, S -> s.a + x) AS r FROM t",
    "SELECT id, transform(xs, ID -> id + n) AS r FROM (SELECT id, xs, id * 100 AS n FROM t) q",
)


@pytest.mark.parametrize("query", QUERIES)
def test_a_variable_is_found_in_any_case_and_hides_a_column(session: Session, query: str) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, x INT, xs ARRAY<INT>, ss ARRAY<STRUCT<a: INT>>)")
    session.sql(f"INSERT INTO t {ROWS}")
    session.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    wanted = session.spark.sql(query.replace("FROM t", f"FROM ({ROWS} AS t(id, x, xs, ss)) t")).collect()
    found = session.sql("SELECT * FROM v").to_pylist()
    assert sorted((row["id"], row["r"]) for row in found) == sorted((row["id"], row["r"]) for row in wanted)

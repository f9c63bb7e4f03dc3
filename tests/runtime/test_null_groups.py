"""The key of a view may hold nulls, unlike that of a table: groups of nulls are rows, and NOT IN has to know of them."""

from __future__ import annotations

import pytest

from engine.session import Session

QUERIES = {
    "both": "SELECT * FROM mine WHERE b NOT IN (SELECT a FROM others)",
    "left": "SELECT * FROM mine WHERE b NOT IN (SELECT a FROM t WHERE a IS NOT NULL)",
    "right": "SELECT * FROM t WHERE id NOT IN (SELECT a FROM others)",
}
STEPS = (
    "INSERT INTO t VALUES (1, NULL, NULL)",
    "INSERT INTO t VALUES (2, 7, NULL), (3, 8, 9)",
    "UPDATE t SET a = 5 WHERE a IS NULL",
    "DELETE FROM t WHERE b IS NULL",
)


@pytest.mark.long
def test_rows_are_compared_with_groups_of_nulls(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)")
    for view in ("mine", "others"):
        session.sql(f"CREATE MATERIALIZED VIEW {view} AS SELECT a, b, count(*) AS n FROM t GROUP BY a, b")
    for name, query in QUERIES.items():
        session.sql(f"CREATE MATERIALIZED VIEW v_{name} AS {query}", build=False)
    for step in STEPS:
        session.sql(step)
        session.sql("FLUSH")
        for name, query in QUERIES.items():
            found, wanted = (
                sorted(map(str, session.sql(text).to_pylist())) for text in (f"SELECT * FROM v_{name}", query)
            )
            assert found == wanted, (step, name)


@pytest.mark.parametrize(("relation", "nullable"), [("t", False), ("v", True)])
def test_the_key_of_a_view_is_described_as_nullable(session: Session, relation: str, nullable: bool) -> None:
    session.sql("CREATE TABLE t (a INT PRIMARY KEY)")
    session.sql("CREATE MATERIALIZED VIEW v AS SELECT a, count(*) AS n FROM t GROUP BY a", build=False)
    described = session.sql(f"DESCRIBE {relation}").to_pylist()
    assert {row["column"]: row["nullable"] for row in described}["a"] is nullable

"""`range` in views gives the numbers that Spark's gives: of its end's type, and up or down to it."""

from __future__ import annotations

from engine.session import Session


def test_range_in_a_view_is_sparks(session: Session) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")
    session.sql("INSERT INTO t VALUES (1), (2)")
    query = "SELECT t.id, r.id AS n FROM t JOIN range(0L, 5L, 2L) AS r JOIN range(3L, 1L, -1L) AS d ON t.id < d.id"
    session.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    found, asked = (sorted(map(str, session.sql(text).to_pylist())) for text in ("SELECT * FROM v", query))
    assert found == asked and len(asked) == 9

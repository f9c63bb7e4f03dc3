"""Aggregates that depend on an order: a query asked once and a view say the same, in both families of dialects."""

from __future__ import annotations

import pytest

from engine.session import Session
from tests.runtime.writes.test_dml import rows

CASES = (
    ("string_agg(DISTINCT upper(s), ',' ORDER BY upper(s) DESC)", "C,B,A", "C,B,A"),
    ("string_agg(DISTINCT concat(s, 'x'), ',' ORDER BY concat(s, 'x') DESC)", "x,cx,bx,ax", "cx,bx,ax"),
    (
        "string_agg(DISTINCT cast(n AS VARCHAR(9)), ',' ORDER BY cast(n AS VARCHAR(9)))",
        "10,100,9",
        "10,100,9",
    ),
    ("array_agg(s ORDER BY n DESC, id)", [None, "c", "b", "b", "a"], ["c", "b", "b", "a"]),
    ("array_agg(s ORDER BY s)", ["a", "b", "b", "c", None], ["a", "b", "b", "c"]),
    ("array_agg(DISTINCT s ORDER BY s DESC)", [None, "c", "b", "a"], ["c", "b", "a"]),
    ("array_agg(s ORDER BY n, id) FILTER (WHERE n < 100)", ["a", "b", "b"], ["a", "b", "b"]),
)


@pytest.mark.parametrize("dialect", ["postgres", "spark"])
def test_the_order_counts_in_queries_and_in_views(session: Session, dialect: str) -> None:
    session.dialect = dialect  # type: ignore[assignment]
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, a BIGINT, s VARCHAR(20), n BIGINT)")
    session.sql("INSERT INTO t VALUES (1, 1, 'b', 10), (2, 1, 'a', 9), (3, 1, 'b', 10)")
    items = ", ".join(f"{call} AS x{n}" for n, (call, _, _) in enumerate(CASES))
    query = f"SELECT a, {items} FROM t GROUP BY a"
    session.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    session.sql("INSERT INTO t VALUES (4, 1, NULL, NULL), (5, 1, 'c', 100)")
    session.flush().raise_for_all()
    expected = [(1, *(postgres if dialect == "postgres" else spark for _, postgres, spark in CASES))]
    assert rows(session, query) == expected
    assert rows(session, "SELECT * FROM v") == expected

"""Columns of views may have any name, where Spark computes them as well as where Arrow does."""

from __future__ import annotations

from engine.session import Session
from tests.runtime.writes.test_dml import rows


def test_a_view_that_spark_computes_has_columns_with_dots_and_quotes(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT PRIMARY KEY, x INT)")
    session.sql(
        "CREATE MATERIALIZED VIEW v WITH (on_row_error = 'null') AS SELECT id, 12 / x AS `a.b`, upper('x') AS `c``d` FROM t"
    )
    session.sql("CREATE MATERIALIZED VIEW w AS SELECT `a.b`, count(*) AS `how.many` FROM v GROUP BY `a.b`")
    session.sql("INSERT INTO t VALUES (1, 4), (2, 0), (3, 4)")
    session.flush().raise_for_errors()
    assert sorted(rows(session, "SELECT * FROM v"), key=str) == [(1, 3.0, "X"), (2, None, "X"), (3, 3.0, "X")]
    assert sorted(rows(session, "SELECT * FROM w"), key=str) == [(3.0, 2), (None, 1)]

"""ORDER BY of a row orders by its fields, in windows, aggregates and queries; nulls stand where the dialect has them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.session import Session
from engine.sql.dialect import Dialect
from tests.oracle.batch import assert_equal, content, duckdb_over


@pytest.mark.parametrize(
    ("dialect", "nulls", "others"), [("postgres", "LAST", "FIRST"), ("spark", "FIRST", "LAST")]
)
def test_rows_in_order_by_are_ordered_by_their_fields(
    tmp_path: Path, spark: SparkSession, dialect: Dialect, nulls: str, others: str
) -> None:
    up, down = f"a NULLS {nulls}, b NULLS {nulls}, id", f"a DESC NULLS {others}, b DESC NULLS {others}, id"
    judge = (
        f"SELECT id, sum(id) OVER (ORDER BY {up} ROWS UNBOUNDED PRECEDING) AS s, "
        f"first_value(id) OVER (ORDER BY {down}) AS f FROM t"
    )
    query = (
        "SELECT id, sum(id) OVER (ORDER BY (a, b), id ROWS UNBOUNDED PRECEDING) AS s, "
        "first_value(id) OVER (ORDER BY (a, b) DESC, id) AS f FROM t"
    )
    with Session((tmp_path / "store").as_uri(), spark, dialect=dialect) as session:
        session.sql("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)")
        session.sql("INSERT INTO t VALUES (1, 2, NULL), (2, NULL, 3), (3, 2, 1), (4, 1, 9), (5, NULL, NULL)")
        session.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        for change in ("INSERT INTO t VALUES (6, 2, 1), (7, 3, NULL)", "DELETE FROM t WHERE id IN (2, 7)"):
            session.sql(change)
            session.flush().raise_for_errors()
            with duckdb_over({"t": content(session, "t")}) as connection:
                assert_equal(content(session, "v"), connection.sql(judge).to_arrow_table(), change)
                once = session.sql("SELECT id FROM t ORDER BY (a, b) DESC, id")
                assert once is not None
                ids = connection.sql(f"SELECT id FROM t ORDER BY {down}").fetchall()
                assert once.column("id").to_pylist() == [row[0] for row in ids]

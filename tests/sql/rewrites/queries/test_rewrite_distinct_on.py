"""DISTINCT ON in a query that Spark answers once: the first row of each group, ordered and cut as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.errors import UnsupportedSql
from engine.session import Session


def test_distinct_on_keeps_its_order_limit_and_columns(tmp_path: Path, spark: SparkSession) -> None:
    with Session(tmp_path.as_uri(), spark, "postgres") as s:
        s.sql("CREATE TABLE t (id int PRIMARY KEY, a int, b int)")
        s.sql("INSERT INTO t VALUES (1, 1, 5), (2, 1, 7), (3, 2, 1), (4, 3, 9), (5, 3, NULL), (6, NULL, 2)")
        cases = {
            "SELECT DISTINCT ON (a) a, id FROM t ORDER BY a DESC, b LIMIT 3 OFFSET 1": [
                (3, 4),
                (2, 3),
                (1, 1),
            ],
            "SELECT DISTINCT ON (a) * FROM t ORDER BY a, b DESC LIMIT 2": [(2, 1, 7), (3, 2, 1)],
            "SELECT DISTINCT ON (1) a, b FROM t ORDER BY 1, 2 DESC NULLS LAST LIMIT 3": [
                (1, 7),
                (2, 1),
                (3, 9),
            ],
            "SELECT DISTINCT ON (k) -a AS k, b AS v FROM t ORDER BY k, v LIMIT 1": [(-3, 9)],
            "WITH w AS (SELECT DISTINCT ON (a) a, b FROM t ORDER BY a, b DESC NULLS LAST) SELECT count(*), sum(b) FROM w": [
                (4, 19)
            ],
        }
        for text, expected in cases.items():
            found = s.sql(text)
            assert found is not None
            assert [tuple(row.values()) for row in found.to_pylist()] == expected, text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SELECT a FROM t ORDER BY a FETCH FIRST 1 ROW WITH TIES", "LIMIT … WITH TIES is not offered"),
        ("SELECT a FROM t ORDER BY a FETCH FIRST 5 PERCENT ROWS ONLY", "LIMIT … PERCENT is not offered"),
        ("SELECT a FROM t ORDER BY a LIMIT 50 PERCENT", "LIMIT … PERCENT is not offered"),
        ("SELECT a INTO z FROM t", "SELECT INTO is not offered"),
    ],
)
@pytest.mark.parametrize("dialect", ["spark", "postgres"])
def test_a_clause_that_spark_does_not_have_is_refused(
    tmp_path: Path, dialect: str, text: str, says: str
) -> None:
    with Session(tmp_path.as_uri(), dialect=dialect) as s:  # type: ignore[arg-type]
        s.sql("CREATE TABLE t (id int PRIMARY KEY, a int)")
        with pytest.raises(UnsupportedSql) as caught:
            s.sql(text)
        assert caught.value.message == says and caught.value.column is not None

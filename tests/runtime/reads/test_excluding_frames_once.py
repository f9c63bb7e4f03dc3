"""EXCLUDE in queries that are answered once: they mean what views of them mean, whatever stands around their windows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from engine.errors import SqlError
from engine.session import Session
from tests.long_rest import mark_rest_long
from tests.runtime.windows.test_every_function import EPOCHS, TABLE, content
from tests.runtime.windows.test_excluding_frames import MORE_VIEWS, VIEWS

W = "PARTITION BY g ORDER BY o RANGE UNBOUNDED PRECEDING EXCLUDE CURRENT ROW"
QUERIES = {
    "in the order of another column": f"SELECT id, max(x) OVER ({W}) AS m FROM t ORDER BY o DESC NULLS LAST, id DESC",
    "in the order of what is computed": f"SELECT id, count(*) OVER ({W}) AS n, s FROM t ORDER BY n, 1 DESC",
    "in the order of an expression over a name": f"SELECT id, count(*) OVER ({W}) AS n FROM t ORDER BY n * 2 DESC, -id",
    "in the order of a call over a window": f"SELECT id FROM t ORDER BY count(*) OVER ({W}) DESC, id LIMIT 4",
    "the first of an order": f"SELECT id, sum(x) OVER ({W}) AS m FROM t ORDER BY x DESC NULLS LAST, id LIMIT 3 OFFSET 1",
    "each once": f"SELECT DISTINCT count(*) OVER ({W}) AS n FROM t ORDER BY n DESC",
    "all columns": f"SELECT *, sum(x) OVER ({W}) AS total FROM t ORDER BY s NULLS FIRST, id",
    "of a WITH item, joined": f"""WITH w AS (SELECT id, g, min(x) OVER ({W}) AS m FROM t)
        SELECT a.id, b.id AS other, a.m FROM w a JOIN w b ON a.m = b.m AND a.id < b.id ORDER BY 1, 2""",
    "beside groups": """SELECT g, sum(count(*)) OVER (ORDER BY count(*) RANGE UNBOUNDED PRECEDING EXCLUDE GROUP) AS n
        FROM t GROUP BY g ORDER BY g NULLS FIRST""",
    "of both sides of a union": f"""SELECT id, max(x) OVER ({W}) AS m FROM t WHERE g = 1 UNION ALL
        SELECT id, min(x) OVER ({W}) FROM t WHERE g = 2 ORDER BY m NULLS FIRST, 1""",
    "nobody left out": "SELECT id, sum(x) OVER (ORDER BY id ROWS 1 PRECEDING EXCLUDE NO OTHERS) AS m FROM t ORDER BY id",
}


@pytest.fixture(scope="module")
def filled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session in whose table t the rows of the first two epochs are."""
    folder = tmp_path_factory.mktemp("once")
    with Session((folder / "store").as_uri(), spark, dialect="postgres") as session:
        session.sql(TABLE)
        for epoch in EPOCHS[:2]:
            for statement in epoch:
                session.sql(statement)
        yield session


@pytest.fixture(scope="module")
def duck() -> duckdb.DuckDBPyConnection:
    """DuckDB with the same rows."""
    connection = duckdb.connect()
    connection.execute("SET default_null_order = 'nulls_last_on_asc_first_on_desc'")
    connection.execute(TABLE)
    for epoch in EPOCHS[:2]:
        for statement in epoch:
            connection.execute(statement)
    return connection


def rows_of(session: Session, query: str) -> list[tuple[Any, ...]]:
    found = session.sql(query)
    assert found is not None
    return [tuple(row.values()) for row in found.to_pylist()]


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_gives_the_rows_of_duckdb_in_its_order(
    filled: Session, duck: duckdb.DuckDBPyConnection, name: str
) -> None:
    got, expected = rows_of(filled, QUERIES[name]), duck.execute(QUERIES[name]).fetchall()
    assert [content([row]) for row in got] == [content([row]) for row in expected]


@pytest.mark.parametrize("name", mark_rest_long((n for n in VIEWS if "NO OTHERS" not in n), keep=3))
def test_a_query_over_frames_gives_what_its_view_has(
    filled: Session, duck: duckdb.DuckDBPyConnection, name: str
) -> None:
    assert content(rows_of(filled, VIEWS[name])) == content(duck.execute(VIEWS[name]).fetchall())


@pytest.mark.oracle
@pytest.mark.parametrize("name", [n for n in MORE_VIEWS if "NO OTHERS" not in n])
def test_a_query_over_more_frames_gives_what_its_view_has(
    filled: Session, duck: duckdb.DuckDBPyConnection, name: str
) -> None:
    assert content(rows_of(filled, MORE_VIEWS[name])) == content(duck.execute(MORE_VIEWS[name]).fetchall())


def test_a_plain_view_with_such_frames_is_read_and_its_rows_are_written(filled: Session) -> None:
    query = f"SELECT id, max(x) OVER ({W}) AS m FROM t"
    filled.sql(f"CREATE VIEW shown AS {query}")
    expected = content(rows_of(filled, query))
    assert content(rows_of(filled, "SELECT * FROM shown")) == expected
    assert rows_of(filled, "SELECT count(m) AS n FROM shown WHERE id < 5 ORDER BY n") == [(3,)]
    filled.sql(f"CREATE TABLE made AS {query}")
    assert content(rows_of(filled, "SELECT * FROM made")) == expected
    filled.sql("INSERT INTO made SELECT id + 100, m FROM shown WHERE id = 1")
    assert content(rows_of(filled, "SELECT id, m FROM made WHERE id > 100")) == [(101, 2)]


def test_rows_of_a_table_without_a_key_and_of_the_catalog_are_told_apart(
    tmp_path: Path, spark: SparkSession
) -> None:
    with Session((tmp_path / "store").as_uri(), spark) as session:
        session.sql("CREATE TABLE bag (n INT)")
        session.sql("INSERT INTO bag VALUES (1), (1), (2)")
        frame = "ORDER BY n RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE"
        query = (
            f"SELECT n, count(*) OVER ({frame} CURRENT ROW) AS a, count(*) OVER ({frame} GROUP) AS b FROM bag"
        )
        assert rows_of(session, f"{query} ORDER BY 1, 2") == [(1, 1, 0), (1, 1, 0), (2, 2, 2)]
        tables = "SELECT table_name, count(*) OVER (ORDER BY table_name ROWS UNBOUNDED PRECEDING EXCLUDE CURRENT ROW) AS n"
        assert rows_of(session, f"{tables} FROM information_schema.tables WHERE table_name = 'bag'") == [
            ("bag", 0)
        ]


WRONG = (
    (f"SELECT id, sum(x) OVER ({W}) AS m FROM t WHERE m > now()", "now()", "make a materialized view"),
    (f"SELECT DISTINCT sum(x) OVER ({W}) AS m FROM t ORDER BY id", "what it does not select", "SELECT list"),
    (
        f"SELECT id, stddev(x) OVER ({W}) AS m FROM t",
        "stddev beside EXCLUDE is not supported in a query",
        "take it apart",
    ),
    (f"SELECT id, nope, sum(x) OVER ({W}) AS m FROM t", "nope", ""),
    (
        f"SELECT id, sum(x) OVER ({W}) AS m FROM t FOR SYSTEM_TIME AS OF '2020-01-01'",
        "is not supported in a query with frames of EXCLUDE or SESSION WITH GAP",
        "make a materialized view",
    ),
    (
        f"UPDATE t SET x = q.m FROM (SELECT id, sum(x) OVER ({W}) AS m FROM t) q WHERE t.id = q.id",
        "EXCLUDE in a frame, or SESSION WITH GAP, beside UPDATE or DELETE",
        "make a materialized view",
    ),
    (
        f"CREATE MATERIALIZED VIEW whole WITH (refresh_policy = 'full') AS SELECT id, sum(x) OVER ({W}) AS m FROM t",
        "EXCLUDE in a frame of a query that is computed as a whole",
        "leave refresh_policy out",
    ),
)


@pytest.mark.parametrize(("statement", "says", "remedy"), WRONG)
def test_what_cannot_be_said_beside_such_frames_is_refused(
    filled: Session, statement: str, says: str, remedy: str
) -> None:
    with pytest.raises(SqlError) as caught:
        filled.sql(statement)
    assert says in caught.value.message and remedy in caught.value.hint, str(caught.value)
    assert caught.value.line == 1, str(caught.value)

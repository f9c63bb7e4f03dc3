"""Tables of some hundred rows, and views of every operator over them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from engine.session import Session

VIEWS = {
    "by_group": "SELECT g, count(*) AS n, sum(i) AS total, max(x) AS best FROM t GROUP BY g",
    "linear": "SELECT k, x * 2 AS x, upper(s) AS s FROM t WHERE i > 1",
    "joined": "SELECT t.k, t.x, u.name FROM t JOIN u ON t.g = u.id",
    "outer_joined": "SELECT u.id, t.k AS tk, t.x FROM u LEFT JOIN t ON t.g = u.id",
    "lonely": "SELECT id FROM u WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.g = u.id)",
    "whole": "SELECT count(*) AS n, sum(x) AS x FROM t",
    "distinct_values": "SELECT DISTINCT s FROM t",
    "ranked": "SELECT k, g, i FROM (SELECT *, row_number() OVER (PARTITION BY g ORDER BY i DESC, k) AS r FROM t) WHERE r <= 2",
    "windowed": "SELECT k, sum(i) OVER (PARTITION BY g ORDER BY k) AS running FROM t",
    "of_bag": "SELECT v, count(*) AS n FROM bag GROUP BY v",
    "bag_rows": "SELECT v FROM bag WHERE v > 0",
    "united": "SELECT k AS a, s AS b FROM t UNION ALL SELECT id, name FROM u",
    "by_expression": "SELECT k % 7 AS m, count(*) AS n FROM t GROUP BY k % 7",
    "over_view": "SELECT n, count(*) AS groups FROM by_group GROUP BY n",
    "paired": "SELECT a.k, b.k AS other FROM t a JOIN t b ON a.g = b.g AND a.k < b.k",
}


@pytest.fixture
def project(session: Session) -> Session:
    """A session with tables of some hundred rows."""
    session.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, g BIGINT, i INT, x DOUBLE, s STRING)")
    session.sql("CREATE TABLE u (id BIGINT PRIMARY KEY, name STRING)")
    session.sql("CREATE TABLE bag (v BIGINT)")
    numbers = range(300)
    rows = {
        "k": numbers,
        "g": [None if n % 50 == 0 else n % 40 for n in numbers],
        "i": pa.array([n % 9 for n in numbers], pa.int32()),
        "x": [n / 7 for n in numbers],
        "s": [None if n % 11 == 0 else f"s{n % 23}" for n in numbers],
    }
    session.write("t", pa.table(rows))
    session.write("u", pa.table({"id": range(20, 60), "name": [f"n{n}" for n in range(40)]}))
    session.write("bag", pa.table({"v": [n % 5 for n in range(100)]}))
    return session


def create_views(session: Session, *views: str) -> Session:
    """Create some of these views, and bring them up to date."""
    for name in views:
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")
    session.flush().raise_for_errors()
    return session

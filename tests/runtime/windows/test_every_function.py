"""Every function over every kind of frame, as views that follow inserts, updates and deletes, held against DuckDB after each epoch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from engine.session import Session

TABLE = (
    "CREATE TABLE t (id INT PRIMARY KEY, g INT, o INT, x BIGINT, s VARCHAR, d DATE, m TIMESTAMP, "
    "f DOUBLE PRECISION, c DECIMAL(30, 4), b BOOLEAN)"
)
EPOCHS = (
    (
        """INSERT INTO t VALUES
    (1, 1, 10, 5, 'a', '2024-01-01', '2024-01-01 10:00:00', 1.5, 1.2345, TRUE),
    (2, 1, 10, NULL, 'b', '2024-01-02', '2024-01-01 11:00:00', 0.0, 10.0000, FALSE),
    (3, 1, 20, 7, NULL, '2024-01-31', '2024-01-31 00:00:00', 0.0, -3.5000, NULL),
    (4, 1, NULL, 9, 'd', NULL, NULL, NULL, NULL, TRUE),
    (5, 2, 10, 1, 'e', '2024-02-29', '2024-02-29 12:00:00', 'NaN', 99999999999999999999.0000, TRUE),
    (6, 2, 13, 3, 'f', '2024-03-01', '2024-03-01 12:30:00', 2.5, 0.0001, FALSE),
    (7, NULL, 10, 4, 'g', '2024-03-01', '2024-03-02 00:00:00', 2.5, 7.0000, TRUE),
    (8, NULL, 11, 6, NULL, '2024-03-03', '2024-03-04 00:00:00', -1.0, NULL, FALSE)""",
    ),
    (
        """INSERT INTO t VALUES (9, 1, 11, 2, 'i', '2024-01-02', '2024-01-01 11:30:00', 4.0, 1.5, TRUE),
    (10, 3, 10, 8, 'j', '2025-01-01', '2025-01-01 00:00:00', 0.5, 2.5, FALSE),
    (11, 2, 13, NULL, 'k', '2024-02-01', '2024-02-01 12:30:00', 3.5, NULL, TRUE)""",
        "UPDATE t SET o = 12, x = 50, s = 'z' WHERE id = 1",
    ),
    (
        "UPDATE t SET g = 2, d = '2024-02-28' WHERE id = 3",
        "UPDATE t SET x = NULL, g = NULL, o = NULL WHERE id = 6",
    ),
    ("DELETE FROM t WHERE id IN (2, 7)", "DELETE FROM t WHERE g = 2"),
)
TOTAL, PEERS = "PARTITION BY g ORDER BY o, id", "PARTITION BY g ORDER BY o"
ROWS = {
    "w1": f"{TOTAL} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "w2": f"{TOTAL} ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "w3": f"{TOTAL} ROWS BETWEEN 2 FOLLOWING AND UNBOUNDED FOLLOWING",
    "w4": "PARTITION BY g ORDER BY o DESC NULLS LAST, id ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING",
}
RANGES = {
    "w1": TOTAL,
    "w2": f"{TOTAL} RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "w3": "PARTITION BY g ORDER BY id RANGE BETWEEN 2 PRECEDING AND 3 FOLLOWING",
    "w4": "PARTITION BY g ORDER BY id DESC RANGE BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING",
    "w5": "PARTITION BY g ORDER BY id GROUPS BETWEEN 1 PRECEDING AND 2 FOLLOWING",
    "w6": f"{TOTAL} RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
}
TIES = {  # what equal rows share has to be said of equal rows
    "w1": PEERS,
    "w2": "PARTITION BY g ORDER BY o DESC RANGE BETWEEN 1 PRECEDING AND 2 FOLLOWING",
    "w3": f"{PEERS} GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW",
    "w4": f"{PEERS} GROUPS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING",
    "w5": "PARTITION BY g ORDER BY o NULLS FIRST RANGE 1 PRECEDING",
    "w6": "ORDER BY o, x NULLS FIRST",
    "w7": "PARTITION BY g",
}
VALUES = (
    *("first_value(x)", "last_value(x)", "nth_value(x, 2)"),
    *("first_value(x IGNORE NULLS)", "last_value(x IGNORE NULLS)", "nth_value(x, 2 IGNORE NULLS)"),
)
FEW = ("count(*)", "sum(x)", "max(s)", "count(*) FILTER (WHERE b)", "avg(x)")
AGGREGATES = (
    *("count(x)", "min(x)", "bool_and(b)", "bool_or(b)", "sum(c)", "min(c)", "sum(x) FILTER (WHERE x > 3)"),
    *("stddev_pop(x)", "min(s) FILTER (WHERE x IS NULL)", "var_samp(x)", "bit_or(x)", "covar_pop(id, x)"),
)
LISTS = ("string_agg(s, ',')", "array_agg(x)", "array_agg(x) FILTER (WHERE x > 3)", "array_agg(c)")


def calls(functions: tuple[str, ...], windows: Mapping[str, str]) -> str:
    """Return a query with every function over every window."""
    items = [
        f"{function} OVER {name} AS {name}_{n}" for name in windows for n, function in enumerate(functions)
    ]
    clause = ", ".join(f"{name} AS ({text})" for name, text in windows.items())
    return f"SELECT id, {', '.join(items)} FROM t WINDOW {clause}"


VIEWS = {
    "ranks": f"""SELECT id, row_number() OVER ({TOTAL}) AS n, rank() OVER w AS r, dense_rank() OVER w AS e,
        percent_rank() OVER w AS p, cume_dist() OVER w AS q, ntile(3) OVER ({TOTAL}) AS k,
        rank() OVER (PARTITION BY g, b ORDER BY x DESC) AS r2, rank() OVER (ORDER BY f, g DESC) AS r3,
        dense_rank() OVER (PARTITION BY f ORDER BY c) AS e2 FROM t WINDOW w AS ({PEERS})""",
    "neighbours": """SELECT id, lag(x) OVER w AS a, lead(x) OVER w AS b, lag(x, 1 + (3 - 2)) OVER w AS c, lead(s, 2, '-') OVER w AS d,
        lag(x, 1, id) OVER w AS e, lag(x, 2 - 2) OVER w AS f, lag(x IGNORE NULLS) OVER w AS g, lead(s, 2 IGNORE NULLS) OVER w AS h,
        lead(x + 1, 1, -1) OVER (ORDER BY m DESC, id) AS i FROM t WINDOW w AS (PARTITION BY g ORDER BY o, id)""",
    "values over rows": calls(VALUES, ROWS),
    "values over ranges": calls(VALUES, RANGES),
    "aggregates over rows": calls(FEW, ROWS),
    "aggregates over ranges": calls(FEW, RANGES),
    "aggregates over ties": calls(FEW, TIES),
    "lists": calls(LISTS, {"w1": ROWS["w2"], "w2": TOTAL}),
    "offsets of other types": """SELECT id,
        count(*) OVER (PARTITION BY g ORDER BY d RANGE BETWEEN INTERVAL '1 day' PRECEDING AND CURRENT ROW) AS a,
        count(*) OVER (ORDER BY d RANGE BETWEEN INTERVAL '1 month' PRECEDING AND INTERVAL '1 month' FOLLOWING) AS b,
        sum(x) OVER (ORDER BY m RANGE BETWEEN INTERVAL '1 hour' PRECEDING AND INTERVAL '30 minutes' FOLLOWING) AS c,
        sum(x) OVER (ORDER BY m DESC RANGE BETWEEN INTERVAL '2 days' PRECEDING AND CURRENT ROW) AS d,
        count(*) OVER (ORDER BY f RANGE BETWEEN 0.5 PRECEDING AND 1 FOLLOWING) AS e,
        count(*) OVER (ORDER BY c RANGE BETWEEN 1.5 PRECEDING AND 0.25 FOLLOWING) AS f,
        count(*) OVER (ORDER BY CAST(x AS DECIMAL(18, 1)) RANGE BETWEEN 0.5 PRECEDING AND 1.5 FOLLOWING) AS g FROM t""",
    "frames without rows": """SELECT id, count(*) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN 1 PRECEDING AND 10 PRECEDING) AS a,
        sum(x) OVER (ORDER BY id ROWS BETWEEN 9 FOLLOWING AND 2 FOLLOWING) AS b,
        count(x) OVER (ORDER BY id RANGE BETWEEN 2 PRECEDING AND 4 PRECEDING) AS c,
        first_value(s) OVER (ORDER BY id ROWS BETWEEN 2 FOLLOWING AND 1 FOLLOWING) AS d FROM t""",
    "above groups": """SELECT g, count(*) AS n, rank() OVER (ORDER BY sum(x) DESC) AS r, sum(count(*)) OVER () AS total,
        sum(sum(x)) OVER (ORDER BY g NULLS FIRST) AS running FROM t GROUP BY g HAVING count(*) > 0""",
    "below joins and filters": """SELECT a.id, a.n, q.total FROM (SELECT id, g, row_number() OVER (PARTITION BY g ORDER BY id) AS n FROM t) a
        JOIN (SELECT DISTINCT g, sum(x) OVER (PARTITION BY g) AS total FROM t) q ON a.g = q.g WHERE a.n > 1 AND q.total > 5""",
    "of windows": """SELECT id, n - lag(n) OVER (ORDER BY id) AS step FROM
        (SELECT id, sum(x) OVER (PARTITION BY g ORDER BY o, id) AS n FROM t) q""",
    "first by number": """SELECT id, s FROM (SELECT *, row_number() OVER (PARTITION BY g ORDER BY x DESC, id) AS n FROM t) q
        WHERE n <= 2""",
    "some by number": """SELECT id, n FROM (SELECT *, row_number() OVER (PARTITION BY g ORDER BY x, id) AS n FROM t) q
        WHERE 2 <= n AND n < 4""",
    "first by rank": """WITH q AS (SELECT *, rank() OVER (PARTITION BY g ORDER BY o) AS r FROM t) SELECT id FROM q WHERE r = 1""",
    "first by dense rank": "SELECT id, g, dense_rank() OVER (PARTITION BY g ORDER BY o DESC) AS r FROM t QUALIFY r BETWEEN 1 AND 2",
    "qualified": "SELECT id FROM t QUALIFY count(*) OVER (PARTITION BY g) > 2 AND row_number() OVER (ORDER BY id DESC) > 1",
    "of a joined row": """SELECT a.id, (SELECT max(n) FROM (SELECT u.g, row_number() OVER (ORDER BY u.id) AS n FROM t u WHERE u.g = a.g) k)
        AS c FROM t a""",
}
MORE_VIEWS = {
    "more aggregates over rows": calls(AGGREGATES, ROWS),
    "more aggregates over ranges": calls(AGGREGATES, RANGES),
    "more aggregates over ties": calls(AGGREGATES, TIES),
    "more lists": calls(LISTS, {**ROWS, "w5": TOTAL, "w6": "PARTITION BY g ORDER BY id GROUPS 1 PRECEDING"}),
}
Comparison = Mapping[str, list[tuple[str, Any, Any]]]


def content(rows: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a table in an order, numbers of any type as they compare."""

    def plain(value: Any) -> Any:
        if isinstance(value, float):
            return "NaN" if math.isnan(value) else float(f"{value:.10g}")
        if isinstance(value, list):
            return [plain(each) for each in value]
        return value

    return sorted((tuple(plain(value) for value in row) for row in rows), key=repr)


@pytest.fixture(scope="module")
def found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """(epoch, content, what DuckDB says) of each view."""
    return compare_epochs(VIEWS, spark, tmp_path_factory.mktemp("windows"))


@pytest.fixture(scope="module")
def more_found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """The same of views that take longer."""
    return compare_epochs(MORE_VIEWS, spark, tmp_path_factory.mktemp("windows"))


def compare_epochs(views: Mapping[str, str], spark: SparkSession, folder: Path) -> Comparison:
    """Return (epoch, content, what DuckDB says) of each view."""
    found: dict[str, list[tuple[str, Any, Any]]] = {name: [] for name in views}
    names = {name: f"v{n}" for n, name in enumerate(views)}
    duck = duckdb.connect()
    duck.execute("SET default_null_order = 'nulls_last_on_asc_first_on_desc'")
    duck.execute(TABLE)
    with Session((folder / "store").as_uri(), spark, dialect="postgres") as session:
        session.sql(TABLE)
        for name, query in views.items():
            session.sql(f"CREATE MATERIALIZED VIEW {names[name]} AS {query}", build=False)
        for epoch in EPOCHS:
            for statement in epoch:
                session.sql(statement)
                duck.execute(statement)
            session.flush().raise_for_errors()
            for name, query in views.items():
                rows = session.sql(f"SELECT * FROM {names[name]}")
                assert rows is not None
                got = content(tuple(row.values()) for row in rows.to_pylist())
                found[name].append((epoch[-1], got, content(duck.execute(query).fetchall())))
    return found


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.long
def test_a_view_over_windows_equals_its_query_after_each_epoch(found: Comparison, view: str) -> None:
    for epoch, got, expected in found[view]:
        assert got == expected, f"after {epoch}"


@pytest.mark.oracle
@pytest.mark.parametrize("view", MORE_VIEWS)
def test_a_view_over_many_windows_equals_its_query_after_each_epoch(
    more_found: Comparison, view: str
) -> None:
    for epoch, got, expected in more_found[view]:
        assert got == expected, f"after {epoch}"

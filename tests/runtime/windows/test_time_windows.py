"""TUMBLE, HOP, CUMULATE and SESSION in views and in queries that are answered once, held against DuckDB's arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.session import Session
from tests.oracle.batch import assert_equal, content, duckdb_over

ORIGIN = "TIMESTAMP '1970-01-01'"
HOPS = "generate_series(0, 7) AS i(i)"
BASE = "id, g, x, ts"


def tumble(size: str, offset: str = "0 seconds") -> str:
    """Return DuckDB's query for the rows of `t` in windows of a length."""
    start = f"time_bucket(INTERVAL '{size}', ts, {ORIGIN} + INTERVAL '{offset}')"
    return f"SELECT {BASE}, {start} AS window_start, {start} + INTERVAL '{size}' AS window_end FROM t"


def hop(slide: str, size: str, offset: str = "0 seconds") -> str:
    """Return DuckDB's query for the windows that overlap: those begun up to a row's time which have not ended by then."""
    last = f"time_bucket(INTERVAL '{slide}', ts, {ORIGIN} + INTERVAL '{offset}')"
    starts = f"SELECT {BASE}, {last} - i * INTERVAL '{slide}' AS s FROM t, {HOPS}"
    end = f"s + INTERVAL '{size}'"
    return f"SELECT {BASE}, s AS window_start, {end} AS window_end FROM ({starts}) WHERE {end} > ts"


def cumulate(step: str, size: str) -> str:
    """Return DuckDB's query for the growing windows that a row's time is in."""
    start = f"time_bucket(INTERVAL '{size}', ts, {ORIGIN})"
    ends = f"SELECT {BASE}, {start} AS s, {start} + (i + 1) * INTERVAL '{step}' AS e FROM t, {HOPS}"
    within = f"e > ts AND e <= s + INTERVAL '{size}'"
    return f"SELECT {BASE}, s AS window_start, e AS window_end FROM ({ends}) WHERE {within}"


def session_of(gap: str, by: str = "") -> str:
    """Return DuckDB's query for the rows of sessions."""
    partition = f"PARTITION BY {by}" if by else ""
    marked = (
        f"SELECT *, CASE WHEN ts <= lag(ts) OVER ({partition} ORDER BY ts) + INTERVAL '{gap}' THEN 0 ELSE 1 END AS b "
        "FROM t WHERE ts IS NOT NULL"
    )
    numbered = (
        f"SELECT *, sum(b) OVER ({partition} ORDER BY ts ROWS UNBOUNDED PRECEDING) AS n FROM ({marked})"
    )
    whole = f"PARTITION BY {by + ',' if by else ''} n"
    bounds = (
        f"min(ts) OVER ({whole}) AS window_start, max(ts) OVER ({whole}) + INTERVAL '{gap}' AS window_end"
    )
    return f"SELECT {BASE}, {bounds} FROM ({numbered})"


def counts(windows: str) -> str:
    """Return DuckDB's query for what the views by window compute."""
    return f"SELECT window_start, window_end, count(*) AS n, sum(x) AS s FROM ({windows}) GROUP BY ALL"


BY_WINDOW = (
    "SELECT window_start, window_end, count(*) AS n, sum(x) AS s FROM {} GROUP BY window_start, window_end"
)
VIEWS: Mapping[str, tuple[str, str]] = {
    "tumbling": ("SELECT * FROM TUMBLE(t, ts, INTERVAL '10' MINUTE)", tumble("10 minutes")),
    "moved": (
        "SELECT w.* FROM tumble(t, t.ts, INTERVAL '1 hour', INTERVAL '5' MINUTE) AS w",
        tumble("1 hour", "5 minutes"),
    ),
    "uneven": (
        "SELECT * FROM HOP(t, ts, INTERVAL '4' MINUTE, INTERVAL '10' MINUTE, INTERVAL '90' SECOND)",
        hop("4 minutes", "10 minutes", "90 seconds"),
    ),
    "growing": (
        "SELECT * FROM CUMULATE(t, ts, INTERVAL '10' MINUTE, INTERVAL '1' HOUR)",
        cumulate("10 minutes", "1 hour"),
    ),
    "sessions": ("SELECT * FROM SESSION(t, ts, INTERVAL '7' MINUTE)", session_of("7 minutes")),
    "own_sessions": (
        "SELECT * FROM SESSION(t PARTITION BY g, ts, INTERVAL '20 minutes') AS s",
        session_of("20 minutes", "g"),
    ),
    "by_tumble": (
        BY_WINDOW.format("TUMBLE(t, ts, INTERVAL '10' MINUTE)"),
        counts(tumble("10 minutes")),
    ),
    "by_hop": (
        BY_WINDOW.format("HOP(t, ts, INTERVAL '5' MINUTE, INTERVAL '10' MINUTE)"),
        counts(hop("5 minutes", "10 minutes")),
    ),
    "above_groups": (
        "WITH c AS (SELECT g, max(ts) AS last FROM t GROUP BY g) SELECT window_end, count(*) AS n "
        "FROM TUMBLE(c, last, INTERVAL '1' DAY) GROUP BY window_end",
        "WITH c AS (SELECT g, max(ts) AS last FROM t GROUP BY g) SELECT time_bucket(INTERVAL '1 day', last, "
        f"{ORIGIN}) + INTERVAL '1 day' AS window_end, count(*) AS n FROM c GROUP BY ALL",
    ),
    "joined": (
        "SELECT a.id, b.id AS other FROM TUMBLE(t, ts, INTERVAL '10' MINUTE) AS a JOIN TUMBLE((SELECT * FROM t), ts, "
        "INTERVAL '10' MINUTE) AS b ON a.window_start = b.window_start AND a.g = b.g WHERE a.id < b.id",
        f"SELECT a.id, b.id AS other FROM ({tumble('10 minutes')}) a JOIN ({tumble('10 minutes')}) b "
        "ON a.window_start = b.window_start AND a.g = b.g WHERE a.id < b.id",
    ),
}
EPOCHS: tuple[tuple[str, ...], ...] = (
    (
        "INSERT INTO t VALUES (1, 1, 4, '2022-01-01 10:00:00'), (2, 2, 3, '2022-01-01 10:05:00'), "
        "(3, 1, 2, '2022-01-01 10:14:00.000001'), (4, 1, 1, '1969-12-31 23:59:59.999999'), (5, 2, 5, NULL), "
        "(6, 2, 7, '1901-02-03 04:05:06.7'), (7, NULL, 6, '2022-01-01 10:51:00'), (8, 1, 8, '1970-01-01 00:00:00')",
    ),
    (
        "INSERT INTO t VALUES (9, 1, 9, '2022-01-01 10:09:59.999999'), (10, 2, 1, '2022-01-01 10:12:00'), "
        "(11, 2, 2, '1901-02-03 04:06:00'), (12, NULL, 3, '2022-01-01 10:58:00'), (13, 1, 4, NULL)",
        "UPDATE t SET ts = '2022-01-01 10:07:00' WHERE id = 7",
        "UPDATE t SET ts = NULL WHERE id = 3",
        "DELETE FROM t WHERE id IN (2, 8)",
    ),
)


def assert_windows(session: Session, views: Mapping[str, tuple[str, str]], label: str) -> None:
    """Compare each view with DuckDB's query over the present rows."""
    with duckdb_over({"t": content(session, "t")}) as connection:
        for name, (_, judge) in views.items():
            assert_equal(content(session, name), connection.sql(judge).to_arrow_table(), f"{label}, {name}")


def changed(session: Session, key: str, views: Mapping[str, str]) -> Iterator[int]:
    """Create a table and views over it, and yield the number of each epoch once the views reflect it."""
    session.sql(f"CREATE TABLE t (id INT{key}, g INT, x INT, ts TIMESTAMP)")
    for n, statements in enumerate(EPOCHS):
        for statement in statements:
            session.sql(statement)
        for name, query in views.items() if n == 0 else ():
            session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        session.flush().raise_for_errors()
        yield n


@pytest.mark.long
def test_views_over_windows_follow_their_rows(tmp_path: Path, spark: SparkSession) -> None:
    with Session((tmp_path / "store").as_uri(), spark, dialect="risingwave") as session:
        for epoch in changed(session, " PRIMARY KEY", {name: query for name, (query, _) in VIEWS.items()}):
            assert_windows(session, VIEWS, f"epoch {epoch}")
        with duckdb_over({"t": content(session, "t")}) as connection:  # and the same once more, answered once
            for name, (query, judge) in VIEWS.items():
                found = session.sql(query)
                assert found is not None
                assert_equal(found, connection.sql(judge).to_arrow_table(), name)


@pytest.mark.long
def test_windows_over_rows_without_a_key_keep_equal_rows_apart(tmp_path: Path, spark: SparkSession) -> None:
    views = {name: VIEWS[name] for name in ("uneven", "own_sessions", "by_tumble")}
    with Session((tmp_path / "store").as_uri(), spark, dialect="postgres") as session:
        for epoch in changed(session, "", {name: query for name, (query, _) in views.items()}):
            if epoch == 0:
                session.sql("INSERT INTO t SELECT * FROM t")
            else:
                assert_windows(session, views, "twice")


SPARK_VIEWS = {
    "fixed": "SELECT g, window.start AS s, window.end AS e, count(*) AS n FROM t GROUP BY g, window(ts, '10 minutes')",
    "sliding": "SELECT window(ts, '10 minutes', '4 minutes', '90 seconds') AS w, sum(x) AS x FROM t GROUP BY w",
    "rows_with_windows": "SELECT *, window(ts, '1 hour').start AS s, window_time(window(ts, '1 hour')) AS l FROM t",
    "stays": "SELECT g, session_window.start AS s, session_window.end AS e, count(*) AS n, max(x) AS x FROM t "
    "GROUP BY g, session_window(ts, '7 minutes') HAVING count(*) > 0",
    "all_stays": "SELECT session_window(ts, '20 minutes') AS w, count(*) AS n FROM t GROUP BY 1",
    "windows_of_windows": "SELECT window(w, '1 day') AS d, sum(n) AS n FROM (SELECT window(ts, '10 minutes') AS w, "
    "count(*) AS n FROM t GROUP BY window(ts, '10 minutes')) AS q GROUP BY window(w, '1 day')",
}


@pytest.mark.long
def test_windows_of_sparks_own_functions_are_what_spark_answers(session: Session) -> None:
    for epoch in changed(session, " PRIMARY KEY", SPARK_VIEWS):
        for name, query in SPARK_VIEWS.items():
            expected = session.sql(query)
            assert expected is not None
            assert_equal(content(session, name), expected, f"epoch {epoch}, {name}")


def test_windows_are_of_the_type_of_their_times_and_timestamps_for_dates(session: Session) -> None:
    session.sql("CREATE TABLE e (id INT PRIMARY KEY, n TIMESTAMP_NTZ, z TIMESTAMP, d DATE)")
    session.sql("INSERT INTO e VALUES (1, '1969-12-31 23:00:00', '2024-05-06 07:08:09', '2024-05-06')")
    for name, windows in {
        "tumble_n": "TUMBLE(e, n, INTERVAL '7' DAY)",
        "tumble_z": "TUMBLE(e, z, INTERVAL '7' DAY)",
        "tumble_d": "TUMBLE(e, d, INTERVAL '7' DAY)",
        "session_d": "SESSION(e, d, INTERVAL '1' DAY)",
    }.items():
        session.sql(
            f"CREATE MATERIALIZED VIEW {name} AS SELECT id, window_start AS s, window_end AS f FROM {windows}"
        )
    session.flush().raise_for_errors()
    found = {
        name: {tuple(map(str, (row["s"], row["f"]))) for row in content(session, name).to_pylist()}
        for name in ("tumble_n", "tumble_z", "tumble_d", "session_d")
    }
    assert found == {
        "tumble_n": {("1969-12-25 00:00:00", "1970-01-01 00:00:00")},
        "tumble_z": {("2024-05-02 00:00:00+00:00", "2024-05-09 00:00:00+00:00")},
        "tumble_d": {("2024-05-02 00:00:00+00:00", "2024-05-09 00:00:00+00:00")},
        "session_d": {("2024-05-06 00:00:00+00:00", "2024-05-07 00:00:00+00:00")},
    }

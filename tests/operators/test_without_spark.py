"""What one task computes of small epochs by itself: its views are equal to DuckDB's, and their kept frames need no Spark."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.operators.grouping import touched_groups
from engine.operators.lookups.lines import KeepHits, NumberLines
from engine.runtime.epoch.prepared_frames import PreparedFrame
from engine.runtime.epoch.report import FlushReport
from engine.runtime.epoch.spark_executor import SparkExecutor
from engine.session import Session
from tests.oracle.batch import assert_equal, assert_views_equal_duckdb, content

TABLES = ("near", "far")
VIEWS = {
    "united": "SELECT id, k, x, d, t FROM near UNION ALL SELECT id, k, x, d, t FROM far WHERE k > 1",
    "united_thrice": "SELECT id AS i, t FROM near UNION ALL SELECT id AS i, t FROM far UNION ALL SELECT n AS i, t FROM near",
    "united_with_null": (
        "SELECT id, k, NULL AS d, t FROM near UNION ALL SELECT id, NULL AS k, d, NULL AS t FROM far "
        "UNION ALL SELECT id, n, NULL, NULL FROM far"
    ),
    "parts_by_two": "SELECT count(DISTINCT n) AS v, count(DISTINCT t) AS w, max(d) AS m FROM near",
    "united_once": "SELECT k, t FROM near UNION SELECT k, t FROM far",
    "parts_of_sums": "SELECT k, count(DISTINCT n) AS v, count(*) AS c, sum(n) AS s FROM near GROUP BY k",
    "whole": "SELECT count(*) AS c, sum(n) AS s, max(n) AS high, min(id) AS low FROM near",
    "whole_of_none": "SELECT count(n) AS c, sum(n) AS s, max(n) AS high FROM near WHERE k > 90",
    "left_if": "SELECT a.id, b.id AS other, b.x, b.d, b.t FROM near a LEFT JOIN far b ON a.k = b.k AND a.n > b.n",
    "left_some": (
        "SELECT a.id, b.other, b.d, b.one FROM near a LEFT JOIN "
        "(SELECT id AS other, k, d, 1 AS one FROM far WHERE n > 2) b ON a.k = b.k"
    ),
    "left_of_whole_parts": (
        "SELECT a.id, b.rest FROM near a LEFT JOIN (SELECT k, 100 % n AS rest FROM far WHERE n <> 0) b ON a.k = b.k"
    ),
    "left_of_what_is_there": (
        "SELECT a.id, b.rest FROM near a LEFT JOIN (SELECT id, 100 % coalesce(id + 1, 0) AS rest FROM far) b ON a.id = b.id"
    ),
    "exists_if": "SELECT id, x FROM near a WHERE EXISTS (SELECT 1 FROM far b WHERE b.k = a.k AND b.n > a.n)",
    "not_exists_if": "SELECT id, d FROM near a WHERE NOT EXISTS (SELECT 1 FROM far b WHERE b.k = a.k AND b.n > a.n)",
    "over_days": (
        "SELECT id, sum(d) OVER (PARTITION BY k ORDER BY seen NULLS FIRST RANGE BETWEEN INTERVAL 2 DAYS PRECEDING AND CURRENT ROW) AS s, "
        "count(*) OVER (PARTITION BY k ORDER BY seen NULLS FIRST RANGE UNBOUNDED PRECEDING) AS c, "
        "lag(d, 1) OVER (PARTITION BY k ORDER BY seen NULLS FIRST, id) AS before FROM near"
    ),
    "first_two": (
        "SELECT k, id, x FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY x DESC NULLS LAST, id) AS r FROM near) AS q "
        "WHERE r <= 2"
    ),
    "ranked_over_all": (
        "SELECT id, rank() OVER (ORDER BY n NULLS FIRST) AS place, sum(d) OVER (ORDER BY id) AS upto FROM near"
    ),
    "ranked_sums": (
        "SELECT k, s, row_number() OVER (ORDER BY s DESC NULLS LAST, k NULLS FIRST) AS place "
        "FROM (SELECT k, sum(n) AS s FROM near GROUP BY k) AS q"
    ),
    "ranked_of_joined": (
        "SELECT i, o, rank() OVER (ORDER BY m NULLS FIRST, b NULLS FIRST) AS place "
        "FROM (SELECT a.id AS i, b.id AS o, a.n AS m, b.d AS b FROM near a JOIN far b ON a.k = b.k) AS q"
    ),
    "second_best": "SELECT id, d FROM near ORDER BY d DESC NULLS LAST, id LIMIT 3 OFFSET 2",
    "above_the_only_one": (
        "SELECT id, n FROM near WHERE n > (SELECT n FROM far WHERE id = 6) OR k = (SELECT max(k) FROM far WHERE n > 3 AND k IS NOT NULL GROUP BY k IS NULL)"
    ),
    "beside_its_own": "SELECT id, (SELECT b.d FROM far b WHERE b.id = a.n) AS d FROM near a",
    "all_lines": "SELECT count(*) AS c, sum(n) FILTER (WHERE k = 1) AS s, max(n) AS m FROM near WHERE n > (SELECT n FROM far WHERE id = 8)",
    "beside_many": (
        "SELECT id, CASE WHEN (SELECT count(*) FROM near WHERE k = 1) > 3 THEN (SELECT max(n) FROM near) "
        "ELSE (SELECT min(n) FROM far WHERE k = 2) END AS m, (SELECT count(*) FROM far) AS c FROM far WHERE id = 4"
    ),
    "wide_means": "SELECT k, avg(big) AS mean FROM (SELECT k, CAST(n AS DECIMAL(38, 0)) AS big FROM near) q GROUP BY k",
    "first_of_all": "SELECT id, x, t FROM near ORDER BY x DESC NULLS LAST, id LIMIT 4",
    "first_of_joined": (
        "SELECT a.id, b.id AS other, b.d FROM near a JOIN far b ON a.k = b.k WHERE b.n > 1 ORDER BY a.n NULLS LAST, b.id DESC, a.id LIMIT 5"
    ),
    "first_of_outer": (
        "SELECT a.id, b.id AS other, b.x FROM near a LEFT JOIN far b ON a.k = b.k AND a.n > b.n ORDER BY b.id NULLS FIRST, a.id LIMIT 6"
    ),
    "first_sums": "SELECT k, sum(n) AS s FROM near GROUP BY k ORDER BY s DESC NULLS LAST, k NULLS FIRST LIMIT 2",
    "above_mean": "SELECT id, d FROM near WHERE d > (SELECT avg(n) FROM far) AND k IS NOT NULL",
    "above_mean_number": "SELECT id, n FROM near WHERE n > (SELECT avg(n) FROM near)",
    "to_mean_amount": "SELECT id, d FROM near WHERE (SELECT avg(d) FROM far) >= CAST(d AS DECIMAL(12, 2)) AND k IS NOT NULL",
    "under_half": "SELECT id, n FROM near WHERE n * 2 < 0.5 * (SELECT sum(n) FROM far)",
    "from_double": "SELECT id FROM near WHERE CAST(d AS DECIMAL(12, 2)) >= (SELECT avg(n) - 2 FROM far)",
    "large_shares": "SELECT k, sum(d) AS s FROM near GROUP BY k HAVING sum(d) > (SELECT sum(d) * 0.1 FROM near)",
    "greatest": "SELECT a.id, b.t FROM near a JOIN far b ON a.k = b.k WHERE a.n = (SELECT max(n) FROM far)",
    "first_of_united": (
        "SELECT id, x, t FROM (SELECT id, x, t, k FROM near UNION ALL SELECT id + 100, x, t, n FROM far WHERE k > 1) AS u "
        "ORDER BY x NULLS FIRST, id DESC LIMIT 4"
    ),
    "first_of_rollup": "SELECT k, n, count(*) AS c FROM near GROUP BY ROLLUP(k, n) HAVING count(*) > 0 ORDER BY c DESC, k NULLS LAST, n NULLS FIRST LIMIT 5",
    "several_rows": (
        "SELECT id, CASE WHEN n > (SELECT avg(n) FROM far) THEN (SELECT count(*) FROM far) ELSE (SELECT max(d) FROM near) END AS v, "
        "(SELECT min(n) FROM near WHERE k = 1) AS low FROM near WHERE k IS NOT NULL"
    ),
    "first_of_pairs": (
        "SELECT a.id, b.id AS other FROM near a, far b WHERE a.n > b.n + 2 ORDER BY a.n - b.n, a.id DESC, b.id LIMIT 4"
    ),
    "not_in": "SELECT id, t FROM near WHERE n NOT IN (SELECT k FROM far WHERE n > 2)",
    "not_in_here": "SELECT id, n NOT IN (SELECT k FROM far WHERE d IS NOT NULL) AS v FROM near",
    "if_there_are_rows": "SELECT id FROM near WHERE EXISTS (SELECT 1 FROM far)",
    "if_any": "SELECT id FROM near WHERE EXISTS (SELECT 1 FROM far WHERE n > 4)",
    "if_none": "SELECT id FROM near a WHERE NOT EXISTS (SELECT 1 FROM far b WHERE b.n > a.n + 2)",
    "outer_pairs": "SELECT a.id, b.id AS other, b.d FROM near a LEFT JOIN far b ON a.n > b.n + 3",
    "pairs": "SELECT a.id, b.id AS other FROM near a JOIN far b ON a.n > b.n + 3",
    "recent": "SELECT id, k FROM near WHERE seen > (SELECT max(seen) FROM near WHERE k > 1) - INTERVAL 2 DAYS",
}
AS_SPARK_SAYS = {
    "means": (
        "SELECT id, avg(d) OVER (PARTITION BY k ORDER BY seen RANGE BETWEEN INTERVAL 2 DAYS PRECEDING AND CURRENT ROW) AS m, "
        "count(*) OVER (PARTITION BY k ORDER BY seen DESC RANGE BETWEEN UNBOUNDED PRECEDING AND INTERVAL 1 DAY FOLLOWING) AS c, "
        "sum(d) OVER (PARTITION BY k ORDER BY seen NULLS LAST RANGE BETWEEN UNBOUNDED PRECEDING AND INTERVAL 3 HOURS PRECEDING) "
        "AS s, rank() OVER (PARTITION BY k ORDER BY x) AS r FROM near"
    )
}
"""DuckDB's averages are DOUBLE, and rows without an order see others there."""
WIDENED = {"widened": "SELECT id, n AS m FROM near UNION ALL SELECT id, small AS m FROM far"}


def rows(chance: random.Random, ids: list[int]) -> pa.Table:
    numbers = [None, -0.0, 0.0, 1.5, float("nan"), float("inf")]
    amounts = [None, Decimal("1.50"), Decimal("-2.25"), Decimal("0.00")]
    times = [None, *(datetime(2024, 2, 25) + timedelta(hours=17 * n) for n in range(6))]
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "k": pa.array([chance.choice([None, 1, 2, 3]) for _ in ids], pa.int64()),
            "n": pa.array([chance.choice([None, *range(6)]) for _ in ids], pa.int64()),
            "small": pa.array([chance.choice([None, 1, 2]) for _ in ids], pa.int32()),
            "x": pa.array([chance.choice(numbers) for _ in ids], pa.float64()),
            "d": pa.array([chance.choice(amounts) for _ in ids], pa.decimal128(20, 2)),
            "seen": pa.array([chance.choice(times) for _ in ids], pa.timestamp("us")),
            "t": pa.array([chance.choice([None, "a", "ä", ""]) for _ in ids], pa.string()),
        }
    )


def create_tables(session: Session, chance: random.Random) -> None:
    for table in TABLES:
        session.sql(
            f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, k BIGINT, n BIGINT, small INT, x DOUBLE, d DECIMAL(20, 2), seen TIMESTAMP_NTZ, t STRING)"
        )
        session.write(table, rows(chance, list(range(0, 40, 2))))


def change(session: Session, chance: random.Random, tables: tuple[str, ...]) -> FlushReport:
    """Put new rows, change some, and delete others."""
    for table in tables:
        session.write(table, rows(chance, chance.sample(range(40), 6)), mode="upsert")
        session.sql(f"DELETE FROM {table} WHERE id IN ({chance.randrange(40)}, {chance.randrange(40)})")
    report = session.flush()
    report.raise_for_errors()
    return report


def list_frames(session: Session) -> list[PreparedFrame]:
    executor = session._runner.executor
    assert isinstance(executor, SparkExecutor)
    return list(executor._prepared._frames.values())


def list_by_spark(session: Session) -> set[str]:
    """Return the tables of which a kept frame needs Spark."""
    frames = list_frames(session)
    assert frames
    return {frame.table.name for frame in frames if frame.body is None}


@pytest.mark.long
def test_a_small_epoch_of_unions_whole_folds_and_outer_joins_needs_no_spark(
    session: Session, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELINE_VERIFY", "0")  # each epoch of each view is held against DuckDB
    chance = random.Random(7)
    create_tables(session, chance)
    views = VIEWS | WIDENED
    for name, query in AS_SPARK_SAYS.items():
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}", build=False)
    for name, query in views.items():
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}", build=False)
    session.flush().raise_for_errors()
    for epoch, changed in enumerate([("near",), TABLES]):
        change(session, chance, changed)
        assert_views_equal_duckdb(session, TABLES, views, f"epoch {epoch}")
    spark.createDataFrame(content(session, "near")).createOrReplaceTempView("near")
    for name, query in AS_SPARK_SAYS.items():
        assert_equal(content(session, name), spark.sql(query).toArrow(), name)
    assert list_by_spark(session) == set(WIDENED)
    session.sql("DELETE FROM near")
    session.flush().raise_for_errors()
    assert_views_equal_duckdb(session, TABLES, views, "of nothing")


@pytest.mark.long
def test_one_group_of_many_rows_is_for_spark(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(touched_groups, "MOST_ROWS_OF_A_GROUP", 0)
    chance, names = random.Random(8), ("ranked_over_all", "second_best", "all_lines")
    create_tables(session, chance)
    for name in names:
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}", build=False)
    session.flush().raise_for_errors()
    report = change(session, chance, TABLES)
    assert_views_equal_duckdb(session, TABLES, {name: VIEWS[name] for name in names}, "of many rows")
    ways = [way for view in report.views for way in view.ways.values()]
    assert ways.count("own action with Spark: the whole query is compared with the table") == 3


LINES = [0, 0, 1, 2, 2, 1, 0, 3, 2, 3]
HITS = [False, True, False, False, False, True, True, False, False, None]


@pytest.mark.parametrize("cut", [1, 3, 10])
@pytest.mark.parametrize("once", [False, True])
def test_a_line_keeps_its_hits_or_one_row(cut: int, once: bool) -> None:
    table = pa.table({"line": pa.array(LINES, pa.int64()), "hit": HITS, "at": range(len(LINES))})
    body = KeepHits("line", "hit", ("at",), once=once)
    found = [row for batch in body(iter(table.to_batches(max_chunksize=cut))) for row in batch.to_pylist()]
    hits = [row["at"] for row in found if row["hit"]]
    assert hits == ([1, 5] if once else [1, 5, 6])
    assert [(row["line"], row["at"]) for row in found if not row["hit"]] == [(2, None), (3, None)]


def test_lines_are_numbered_over_all_batches() -> None:
    table = pa.table({"a": ["x", "y", "z"]})
    found = [
        batch.to_pydict()["line"] for batch in NumberLines("line")(iter(table.to_batches(max_chunksize=2)))
    ]
    assert found == [[0, 1], [2]]
    assert list(KeepHits("line", "hit")(iter([]))) == []

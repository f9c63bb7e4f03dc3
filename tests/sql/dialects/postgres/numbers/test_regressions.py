"""Correlation and regression over what is no line have PostgreSQL's answers, as views bind them and ad hoc."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from engine.session import Session
from engine.sql.batch.ad_hoc import build_spark_tree
from engine.sql.bind.binder import bind
from engine.sql.catalog import Catalog
from engine.sql.statements.reader import Select, parse_statement
from tests.sql.catalog import table
from tests.sql.plan_query import plan_query

NAN, INF = math.nan, math.inf
COLUMNS = {"id": "bigint", "g": "string", "y": "double", "x": "double"}
CATALOG = Catalog({"points": table("points", COLUMNS, "id")})
POINTS: dict[str, list[tuple[float | None, float | None]]] = {  # y, x
    "one x": [(1, 2), (3, 2)],
    "one y": [(2, 1), (2, 3)],
    "one x that is no binary fraction": [(1, 0.1), (2, 0.1), (4, 0.1)],
    "one point": [(1, 2)],
    "one infinite point": [(1, INF)],
    "no pair": [(1, None), (None, 2)],
    "a line": [(1, 1), (3, 2), (3, 2), (5, 3), (9, None)],
    "a line down": [(1, 3), (3, 2), (5, 1)],
    "tiny": [(1e-100, 1e-100), (2e-100, 2e-100)],
    "nothing is left of the squares": [(1e-170, 1), (2e-170, 2)],
    "a NaN": [(1, 2), (NAN, 3)],
    "an infinity": [(1, 2), (INF, 3)],
    "points twice": [(1, 1), (1, 1), (1, 1), (2, 2), (4, 3)],
}
FUNCTIONS = ("corr", "regr_r2", "regr_slope", "regr_intercept")
# what PostgreSQL gives for each of them
ANSWERS: dict[str, tuple[float | None, ...]] = {
    "one x": (None, None, None, None),
    "one y": (None, 1, 0, 2),
    "one x that is no binary fraction": (None, None, None, None),
    "one point": (None, None, None, None),
    "one infinite point": (None, 1, NAN, NAN),
    "no pair": (None, None, None, None),
    "a line": (1, 1, 2, -1),
    "a line down": (-1, 1, -2, 7),
    "tiny": (1, 1, 1, 0),
    "nothing is left of the squares": (None, 1, 0, 0),
    "a NaN": (NAN, NAN, NAN, NAN),
    "an infinity": (NAN, NAN, NAN, NAN),
    "points twice": (0.9861168645694258, 0.9724264705882353, 1.4375, -0.5),
}
DISTINCT_ANSWERS = {
    **ANSWERS,
    "points twice": (0.981980506061966, 0.964285714285714, 1.5, -2 / 3),
}


@pytest.fixture(scope="module")
def points(spark: SparkSession) -> DataFrame:
    rows = [(group, y, x) for group, pairs in POINTS.items() for y, x in pairs]
    frame = spark.createDataFrame(
        [(n, g, *(None if v is None else float(v) for v in pair)) for n, (g, *pair) in enumerate(rows)],
        "id bigint, g string, y double, x double",
    ).coalesce(1)
    frame.createOrReplaceTempView("points")
    return frame


def both_ways(spark: SparkSession, query: str) -> list[list[tuple[Any, ...]]]:
    """Return the query's rows as a view binds it, and ad hoc."""
    statement = parse_statement(query, "postgres")
    assert isinstance(statement, Select)
    bound = bind(statement.query, CATALOG, dialect="postgres", sql=query)
    ad_hoc = build_spark_tree(statement.query, CATALOG, "postgres", "", query)[0].sql(dialect="spark")
    return [
        [tuple(row) for row in spark.sql(text).collect()]
        for text in (plan_query(bound.plan, bound.columns), ad_hoc)
    ]


def assert_close(found: tuple[Any, ...], wanted: tuple[Any, ...], label: str) -> None:
    assert len(found) == len(wanted)
    for value, expected in zip(found, wanted, strict=True):
        if expected is None or value is None:
            assert value is expected, f"{label}: {found} against {wanted}"
        else:
            assert value == pytest.approx(expected, rel=1e-12, abs=1e-12, nan_ok=True), (
                f"{label}: {found} against {wanted}"
            )


@pytest.mark.parametrize(("distinct", "answers"), [("", ANSWERS), ("DISTINCT ", DISTINCT_ANSWERS)])
def test_what_is_no_line_has_the_answer_of_postgres(
    spark: SparkSession, points: DataFrame, distinct: str, answers: dict[str, tuple[float | None, ...]]
) -> None:
    calls = ", ".join(f"{function}({distinct}y, x) AS {function}" for function in FUNCTIONS)
    for rows in both_ways(spark, f"SELECT g, {calls} FROM points GROUP BY g"):
        assert {row[0] for row in rows} == set(answers)
        for group, *values in rows:
            assert_close(tuple(values), answers[group], group)


def test_of_no_rows_every_answer_is_null(spark: SparkSession, points: DataFrame) -> None:
    calls = ", ".join(
        f"{function}({d}y, x) AS a{n}{len(d)}"
        for n, function in enumerate(FUNCTIONS)
        for d in ("", "DISTINCT ")
    )
    for rows in both_ways(spark, f"SELECT {calls} FROM points WHERE id < 0"):
        assert rows == [(None,) * 8]


def test_filter_leaves_rows_out_before_the_line_is_drawn(spark: SparkSession, points: DataFrame) -> None:
    query = (
        "SELECT corr(y, x) FILTER (WHERE x < 2) AS a, regr_slope(y, x) FILTER (WHERE x < 3) AS b, "
        "regr_slope(DISTINCT y, x) FILTER (WHERE x < 3) AS c FROM points WHERE g = 'points twice'"
    )
    for rows in both_ways(spark, query):
        assert_close(rows[0], (None, 1, 1), "filtered")


def test_distinct_tells_pairs_apart_and_not_the_values_of_one_side(
    spark: SparkSession, points: DataFrame
) -> None:
    query = (
        "SELECT regr_avgx(DISTINCT y, x) AS ax, regr_avgy(DISTINCT y, x) AS ay, regr_sxx(DISTINCT y, x) AS sxx, "
        "regr_syy(DISTINCT y, x) AS syy, regr_sxy(DISTINCT y, x) AS sxy, regr_count(DISTINCT y, x) AS n, "
        "covar_pop(DISTINCT y, x) AS c FROM points WHERE g IN ('one x', 'one point', 'a line')"
    )  # the pairs (1, 2), (3, 2), (1, 1), (5, 3)
    for rows in both_ways(spark, query):
        assert_close(rows[0], (2, 2.5, 2, 11, 4, 4, 1), "distinct")


def test_over_one_value_in_many_parts_there_is_no_line(spark: SparkSession) -> None:
    """Spark merges the parts' spreads, and a mean of 49 equal values is not always the value."""
    rows = spark.range(0, 98, 1, 2).selectExpr("id", "'g' AS g", "CAST(id AS DOUBLE) AS y", "1.1D AS x")
    rows.createOrReplaceTempView("points")
    for found in both_ways(
        spark, "SELECT corr(y, x) AS c, regr_r2(x, y) AS r, regr_slope(y, x) AS s FROM points"
    ):
        assert_close(found[0], (None, 1, None), "many parts")


@pytest.mark.parametrize("dialect", ["postgres", "risingwave"])
def test_a_view_follows_a_group_that_becomes_flat(session: Session, dialect: str) -> None:
    session.dialect = dialect
    session.sql("CREATE TABLE p (id int PRIMARY KEY, g int, y int, x int)")
    session.sql("INSERT INTO p VALUES (1, 1, 1, 1), (2, 1, 3, 2), (3, 2, 5, 5)")
    session.sql(
        "CREATE MATERIALIZED VIEW lines AS SELECT g, corr(y, x) AS c, regr_slope(DISTINCT y, x) AS s FROM p GROUP BY g"
    )
    assert _rows(session) == {1: (1.0, 2.0), 2: (None, None)}
    session.sql("UPDATE p SET x = 1 WHERE id = 2")
    session.sql("INSERT INTO p VALUES (4, 2, 7, 6), (5, 2, 7, 6)")
    session.flush().raise_for_errors()
    assert _rows(session) == {1: (None, None), 2: (pytest.approx(1.0), pytest.approx(2.0))}


def _rows(session: Session) -> dict[int, tuple[Any, ...]]:
    found = session.sql("SELECT g, c, s FROM lines")
    assert found is not None
    return {row["g"]: (row["c"], row["s"]) for row in found.to_pylist()}

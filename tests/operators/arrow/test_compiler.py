"""Expressions that Arrow computes are what Spark computes; what is outside of the subset has no form."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from engine.operators.arrow.compiler import Compiler, Item
from engine.operators.arrow.expressions import MARK, Inexact
from engine.operators.flow import Compute, Flow, Keep, append_columns, as_frame, group_rows, keep
from engine.operators.lookups.scan import derive_spark_schema
from engine.session import Session
from engine.sql.expression.parser import parse_expression
from tests.operators.test_flow import Given

LONGS = (None, 0, 1, -1, 7, -7, 1_000_000_007, 2**62)
AT = datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=datetime.UTC)


def random_rows(count: int = 200) -> pa.Table:
    chance = random.Random(5)

    def some(*values: object) -> list[object]:
        return [chance.choice(values) for _ in range(count)]

    return pa.table(
        {
            "k": pa.array(some(None, "a", "b", "ü", ""), pa.string()),
            "a": pa.array(some(*LONGS[:-1]), pa.int64()),
            "b:x": pa.array(some(*LONGS[:-1]), pa.int64()),
            "i": pa.array(some(None, 1, 2, -3), pa.int32()),
            "s": pa.array(some(None, 1, 2, -3), pa.int16()),
            "t": pa.array(some(None, True, False), pa.bool_()),
            "u": pa.array(some(None, True, False), pa.bool_()),
            "d": pa.array(some(None, datetime.date(1969, 12, 31), datetime.date(2024, 2, 29)), pa.date32()),
            "at": pa.array(some(None, AT, AT + datetime.timedelta(seconds=1)), pa.timestamp("us", "UTC")),
            "f": pa.array(some(None, 1.5, -0.0, 0.1, float("inf"), float("nan")), pa.float64()),
            "m": pa.array(some(None, Decimal("1.50")), pa.decimal128(10, 2)),
            "y": pa.array(some(None, 1, 1582, 1969, 2024, 9999), pa.int32()),
            "big": pa.array(
                some(None, 1, 2**63 - 1, 2**53 + 1, 2**53 + 3, 2**62 + 2**9, 2**62 + 2**9 + 1, -(2**60) - 1),
                pa.int64(),
            ),
            "_w": pa.array(some(1, -1), pa.int64()),
        }
    )


def flow_over(spark: SparkSession, rows: pa.Table) -> Flow:
    return Flow(
        spark.range(0, 1, 1, 1), (Given(rows),), derive_spark_schema(rows.schema), single=True, exact=False
    )


def content(frame: DataFrame) -> tuple[list[str], list[str]]:
    kinds = [f"{field.name} {field.dataType.simpleString()}" for field in frame.schema.fields]
    return kinds, sorted(repr(tuple(row)) for row in frame.collect())


VALUES = [
    "a + `b:x`",
    "a - i",
    "i * s",
    "-a",
    "a * 2 + 1",
    "i + 5000000000",
    "-3L",
    "-2147483648",
    "IF(t, -2147483648, i)",
    "IF(t, -9223372036854775808, -9223372036854775808L)",
    "m - -9223372036854775808",
    "CAST('0e37' AS DECIMAL(5, 2)) + CAST(' -.5 ' AS DECIMAL(3, 2))",
    "a < 9223372036854775806.5",
    "-(i)",
    "shiftright(a, 32)",
    "(a) & 4294967295L",
    "((a) & 4294967295L) * _w",
    "a = `b:x`",
    "a <> i",
    "a < 5",
    "i >= -3",
    "k = 'a'",
    "k < 'b'",
    "k <=> k",
    "a <=> `b:x`",
    "t <=> u",
    "t AND u",
    "t OR u",
    "NOT t",
    "t = u",
    "t IS NULL",
    "f IS NOT NULL",
    "IF(t, a, i)",
    "IF(t, NULL, a)",
    "IF(u, k, 'other')",
    "CASE WHEN t THEN 1 WHEN u THEN 2L END",
    "CASE WHEN t THEN k ELSE 'x' END",
    "CASE WHEN a = 0 THEN 1L WHEN a > 5 THEN `b:x` WHEN t THEN a + i WHEN u THEN NULL WHEN k = 'a' THEN a * s END",
    "a <> 0 AND 7 DIV a > 0 AND t",
    "a = 0 OR a IS NULL OR 100 % a > 1 OR u",
    "coalesce(if(a = 0, 1L, a), 1L DIV a)",
    "CASE WHEN a = 0 THEN -1D WHEN a > 5 THEN i / a WHEN 7 - a > 0 THEN f WHEN t THEN NULL ELSE 0D END",
    "t OR u OR a > 0 OR k IS NULL",
    "t AND u AND a > 0 AND k IS NULL",
    "coalesce(a, i, 0)",
    "coalesce(k, '')",
    "greatest(a, i)",
    "least(a, `b:x`, 3)",
    "greatest(at, at)",
    "least(d, CAST(at AS DATE))",
    "CAST(at AS DATE)",
    "CAST(i AS BIGINT)",
    "d < CAST(at AS DATE)",
    "TRUE",
    "'text'",
    "'a\\nb'",
    "f",
    "m",
    "a / 2",
    "f / i",
    "CAST(i AS DOUBLE) / s / 3",
    "IF(a = 0, NULL, CAST(`b:x` AS DOUBLE) / CAST(a AS DOUBLE))",
    "IF(a <> 0, i / a, f)",
    "CASE WHEN a = 0 THEN -1D WHEN a > 5 THEN i / a ELSE CAST(s AS DOUBLE) END",
    "IF(big < 10000000, big + 9223372036854770000L, 0L)",
    "CAST(big AS DOUBLE)",
    "-big / 3",
    "coalesce(f, CAST(a AS DOUBLE))",
    "f IS NULL",
    "f + 0D",
    "-f * 0.1D - a",
    "f - 1.5e300D * 1e300D * f",
    "CAST(NULL AS DOUBLE)",
    "IF(t, k, CAST(NULL AS STRING))",
    "CAST(NULL AS TIMESTAMP)",
    "make_date(y, i + 5, 1)",
    "make_date(y, 2, IF(y = 2024, 29, 28))",
    "IF(y > 0, make_date(y, 12, 31), d)",
    "year(d)",
    "month(at) + quarter(d)",
    "day(d) * dayofmonth(at)",
    "hour(at) * 60 + minute(at)",
    "k || '-' || k",
    "concat(k, 'x', k)",
    "f < 1",
    "f <=> f",
    "f = i",
    "IF(t, f, i)",
    "k IN ('a', 'b')",
    "k NOT IN ('a', NULL)",
    "i IN (1, 2L, s)",
    "d IN (DATE '2024-02-29', DATE '1969-12-31')",
    "a BETWEEN 0 AND 7",
    "(a > 0) IS TRUE",
    "nullif(a, 0)",
    "a IS DISTINCT FROM i",
    "CASE i WHEN 1 THEN 'one' WHEN 2 THEN k END",
    "CAST(k AS STRING)",
    "CAST(at AS STRING)",
    "at >= DATE '1970-01-01'",
    "EXTRACT(YEAR FROM at) * 100 + EXTRACT(WEEK FROM d)",
    "date_trunc('WEEK', at)",
    "trunc(d, 'QUARTER')",
    "at - INTERVAL 1 DAY",
    "d + INTERVAL '-2' MONTH",
    "d + i",
    "datediff(d, CAST(at AS DATE))",
    "abs(i) % 2",
    "k LIKE 'a%' OR trim(k) = 'b'",
    "substring(k, 1, 1) || right(k, 2)",
    "CAST(f < 0.5D AS INT)",
    "f + 1.5",
    "coalesce(f, m)",
    "f < m OR m <= f",
    "IF(t, f, m) % m",
    "CAST(NULL AS DECIMAL(3, 1))",
    "99999999999999999999",
    "m / 2 + 0.005 * i",
    "m * -2 - a",
    "m >= 0 AND m < 1.5",
    "IF(t, m, 0)",
    "coalesce(m, 0.00) + CAST(0 AS DECIMAL(20, 2))",
    "nullif(m, 1.5)",
    "nullif(i, 1)",
    "CASE WHEN t THEN m WHEN u THEN 100.0 ELSE i END",
    "greatest(m, i, 0.125)",
    "abs(-m) % 0.7",
    "round(m, 1) + floor(m) + ceil(m)",
    "round(f / CAST(8 AS DOUBLE), 2) + round(f, 1) + round(f)",
    "round(CAST(i AS DOUBLE) / CAST(1000 AS DOUBLE), 2) + round(i, 4)",
    "round(f * CAST(100000000000000 AS DOUBLE), 3)",
    "CAST(CAST(m AS DECIMAL(34, 2)) / CAST(7 AS DECIMAL(20, 0)) AS DECIMAL(9, 6))",
    "f / CAST(m AS DOUBLE)",
    "CAST(m AS BIGINT)",
    "pmod(i, 4) + pmod(a, 1000000007L)",
    "CAST(pmod(xxhash64(k, a, f), 16) AS INT)",
    "xxhash64(m, d, at, t, s, 'x')",
    "unix_micros(CAST(at AS TIMESTAMP_LTZ))",
]


@pytest.mark.parametrize("chunk", range(0, len(VALUES), 8))
def test_values_are_those_of_spark(spark: SparkSession, chunk: int) -> None:
    flow = flow_over(spark, random_rows())
    texts = [(f"c{i}", text) for i, text in enumerate(VALUES[chunk : chunk + 8])]
    mine = append_columns(flow, *((name, parse_expression(text)) for name, text in texts))
    assert isinstance(mine, Flow) and isinstance(mine.bodies[-1], Compute)
    theirs = flow.frame.selectExpr("*", *(f"{text} AS {name}" for name, text in texts))
    assert content(mine.frame) == content(theirs)


@pytest.mark.parametrize("condition", ["t", "NOT u", "a > 0 AND (i < 2 OR k IS NULL)", "a <=> `b:x`"])
def test_kept_rows_are_those_of_spark(spark: SparkSession, condition: str) -> None:
    flow = flow_over(spark, random_rows())
    mine = keep(flow, parse_expression(condition))
    assert isinstance(mine, Flow) and isinstance(mine.bodies[-1], Keep)
    assert content(mine.frame) == content(flow.frame.where(condition))


FOLDS = [
    "sum(a)",
    "coalesce(sum(IF(TRUE, _w, 0L)), 0L)",
    "coalesce(sum(shiftright(a, 32) * _w), 0L)",
    "coalesce(sum((a & 4294967295L) * _w) FILTER (WHERE t), 0L)",
    "CAST(coalesce(sum(i) FILTER (WHERE _w > 0 AND (s > 1)), CAST(0 AS bigint)) AS bigint)",
    "sum(a) FILTER (WHERE t) - sum(a) FILTER (WHERE NOT t)",
    "max(a) FILTER (WHERE _w > 0)",
    "min(k)",
    "max(at)",
    "min(d) FILTER (WHERE FALSE)",
    "count(*)",
    "count(f)",
    "count(k) FILTER (WHERE t)",
    "count_if(t)",
    "count(*) FILTER (WHERE u)",
    "sum(m)",
    "min(m) FILTER (WHERE m > 0)",
    "CAST(coalesce(sum(m * i) FILTER (WHERE _w > 0), CAST(0 AS DECIMAL(31, 2))) AS DECIMAL(31, 2))",
]


def items(texts: list[tuple[str, str]]) -> list[Item]:
    return [(name, parse_expression(text)) for name, text in texts]


@pytest.mark.parametrize("keys", [["k"], ["m"], ["i", "t"], ["CAST(at AS DATE)", "a + 1"]])
def test_groups_are_those_of_spark(spark: SparkSession, keys: list[str]) -> None:
    flow = flow_over(spark, random_rows())
    by = [(f"key{i}", text) for i, text in enumerate(keys)]
    calls = [(f"call{i}", text) for i, text in enumerate(FOLDS)]
    mine = group_rows(flow, items(by), items(calls), exact=False)
    assert isinstance(mine, Flow)
    theirs = flow.frame.groupBy(*(F.expr(text).alias(name) for name, text in by)).agg(
        *(F.expr(text).alias(name) for name, text in calls)
    )
    assert content(as_frame(mine)) == content(theirs)


@pytest.mark.parametrize(
    "text",
    [
        "f & 1",
        "k RLIKE 'a'",
        "k LIKE 'a\\\\b'",
        "k IN (1, 'a')",
        "date_trunc('EON', at)",
        "d + INTERVAL 1 HOUR",
        "at + INTERVAL '1 day 1 month'",
        "substring(k, a)",
        "CAST(f AS STRING)",
        "EXTRACT(SECOND FROM at)",
        "greatest(f, f)",
        "make_date(a, 1, 1)",
        "hour(d)",
        "i || i",
        "k || f",
        "date_format(at, 'yyyy-D')",
        "a + '1'",
        "d = '2024-01-01'",
        "a < 9223372036854775807.5",
        "i BETWEEN -99999999999999999999 AND 0",
        "CAST('1_0' AS DECIMAL(5, 2))",
        "CAST('0e38' AS DECIMAL(5, 2))",
        "greatest(k, 'b')",
        "a.x",
        "A",
        "missing",
        "rand()",
        "sum(a)",
        "IF(t, NULL, NULL)",
        "t < u",
        "5e3",
    ],
)
def test_what_is_outside_of_the_subset_is_left_to_spark(text: str) -> None:
    assert (
        Compiler(derive_spark_schema(random_rows().schema), lambda: True).compile_value(
            parse_expression(text)
        )
        is None
    )


@pytest.mark.parametrize("text", ["sum(f)", "max(f)", "count(DISTINCT a)", "avg(a)", "sum(sum(a))"])
def test_aggregates_outside_of_the_subset_are_left_to_spark(text: str) -> None:
    compiler = Compiler(derive_spark_schema(random_rows().schema), lambda: True)
    assert compiler.compile_groups(items([("k", "k")]), items([("x", text)])) is None


def many(step: str, between: str, count: int) -> str:
    return between.join(step.format(n=n) for n in range(count))


@pytest.mark.parametrize(
    "text",
    [
        f"CASE {many('WHEN i = {n} THEN {n}', ' ', 1000)} ELSE -1 END",
        many("i = {n}", " OR ", 1000),
        many("i <> {n}", " AND ", 1000),
        f"coalesce({many('a + {n}', ', ', 1000)})",
        many("k", " || ", 1000),
    ],
)
def test_a_long_expression_goes_to_a_task(text: str) -> None:
    value = Compiler(derive_spark_schema(random_rows().schema), lambda: True).compile_value(
        parse_expression(text)
    )
    assert value is not None and len(cloudpickle.dumps(value)) > 1000
    assert len(value.evaluate(random_rows().to_batches()[0])) == 200


@pytest.mark.parametrize(
    "step", ["abs({x})", "CASE WHEN a > {x} THEN 1 ELSE 0 END", "-({x})", "(1 + {x} * 2)"]
)
def test_a_deep_expression_is_left_to_spark(step: str) -> None:
    compiler = Compiler(derive_spark_schema(random_rows().schema), lambda: True)
    text = "i"
    for _ in range(60):
        text = step.format(x=text)
    assert compiler.compile_value(parse_expression(text)) is None
    assert compiler.compile_value(parse_expression(many("i", " + ", 200))) is None


def test_floats_are_no_keys_and_days_need_a_session_in_utc() -> None:
    schema = derive_spark_schema(random_rows().schema)
    assert (
        Compiler(schema, lambda: True).compile_groups(items([("k", "f")]), items([("x", "sum(a)")])) is None
    )
    for text in (
        "CAST(at AS DATE)",
        "date_trunc('DAY', at)",
        "at < d",
        "CAST(d AS TIMESTAMP)",
        "at + INTERVAL 1 DAY",
    ):
        assert Compiler(schema, lambda: False).compile_value(parse_expression(text)) is None


@pytest.mark.parametrize(
    "text",
    [
        "-(-128Y)",
        "-(-32768S)",
        "-(-2147483648)",
        "-2147483648 - s",
        "a / 0",
        "i / a",
        "make_date(y, 13, 1)",
        "make_date(y, 2, 30)",
        "make_date(0, 1, 1)",
        "make_date(10000, 1, 1)",
        "abs(-2147483648)",
        "CAST(big AS INT)",
        "CAST(f AS BIGINT)",
        "CAST(k AS DATE)",
        "d + 2147483647",
        "date_trunc('YEAR', timestamp_micros(-9223372036854775807L))",
        "a % 0",
    ],
)
def test_what_has_no_value_or_another_one_to_spark_is_not_computed(text: str) -> None:
    rows = random_rows()
    value = Compiler(derive_spark_schema(rows.schema), lambda: True).compile_value(parse_expression(text))
    assert value is not None
    with pytest.raises(Inexact, match=MARK):
        value.evaluate(rows.combine_chunks().to_batches()[0])


def test_an_overflow_is_not_computed() -> None:
    rows = pa.table({"k": pa.array([1, 1]), "a": pa.array([2**62, 2**62])})
    compiler = Compiler(derive_spark_schema(rows.schema), lambda: True)
    total, summed = (
        compiler.compile_value(parse_expression("a + a")),
        compiler.compile_groups(items([("k", "k")]), items([("x", "sum(a)")])),
    )
    assert total is not None and summed is not None
    with pytest.raises(Inexact, match=MARK):
        total.evaluate(rows.to_batches()[0])
    with pytest.raises(Inexact, match=MARK):
        list(summed[0](iter(rows.to_batches())))


def test_spark_computes_an_epoch_whose_numbers_are_too_large_for_arrow(
    tmp_path: Path, spark: SparkSession
) -> None:
    with Session((tmp_path / "store").as_uri(), spark) as session:
        session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, k STRING, v BIGINT)")
        session.sql("CREATE MATERIALIZED VIEW v AS SELECT k, sum(v) AS s, count(*) AS n FROM t GROUP BY k")
        session.sql("INSERT INTO t VALUES (1, 'a', 1)")
        session.flush().raise_for_errors()
        large = 2**62
        session.sql(f"INSERT INTO t VALUES (2, 'a', {large}), (3, 'a', {large}), (4, 'a', {-large})")
        session.flush().raise_for_errors()
        assert session.sql("SELECT * FROM v").to_pylist() == [{"k": "a", "s": large + 1, "n": 4}]
        session.sql(f"INSERT INTO t VALUES (5, 'b', {large}), (6, 'b', {large})")
        failed = session.flush().failed
        assert [report.view for report in failed] == ["v"] and "a sum is no BIGINT" in str(failed[0].error)

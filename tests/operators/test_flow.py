"""Fused Python bodies: what a flow does to batches is what Spark does to the same rows."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from engine.operators.arrow.compiler import Item
from engine.operators.flow import (
    COMES,
    Flow,
    Rows,
    append_columns,
    as_frame,
    compute,
    duplicate_sides,
    keep,
    union,
)
from engine.operators.lookups.scan import derive_spark_schema
from engine.sql.expression.parser import parse_expression

ROWS = pa.table(
    {
        "o:id": pa.array([1, 2, 2, None, None, 3], pa.int64()),
        "odd `name": pa.array(["a", None, None, "", "", "A"], pa.string()),
        "d": pa.array([decimal.Decimal("1.50"), None, None, None, None, decimal.Decimal("0.00")]),
        "at": pa.array([datetime.date(2024, 1, 1), None, None, None, None, datetime.date(2024, 2, 29)]),
        "there": pa.array([True, False, False, None, None, True]),
    }
)


@dataclass(frozen=True)
class Given:
    """A body that starts a task with rows."""

    rows: pa.Table

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield from self.rows.to_batches(max_chunksize=4)


def flow_of(spark: SparkSession, rows: pa.Table = ROWS) -> Flow:
    return Flow(spark.range(0, 1, 1, 1), (Given(rows),), derive_spark_schema(rows.schema), single=True)


def bodies(rows: Rows) -> int:
    plan = as_frame(rows)._jdf.queryExecution().executedPlan().toString()
    return plan.count("MapInArrow")


def content(rows: Rows) -> list[str]:
    return sorted(repr(tuple(row)) for row in as_frame(rows).collect())


def both(spark: SparkSession) -> tuple[Flow, DataFrame]:
    flow = flow_of(spark)
    return flow, flow.frame


def items(*texts: str) -> list[Item]:
    """Return `expression AS name`, or a column under its own name, as items."""
    found = [text.rpartition(" AS ") for text in texts]
    return [(parse_expression(name).columns[0], parse_expression(text or name)) for text, _, name in found]


@pytest.mark.parametrize(
    "expressions",
    [
        ("`odd ``name`", "`o:id`"),
        ("`odd ``name`", "`o:id` AS `x:y`", "-1L AS `_w`"),
        ("`d`", "`d` AS `again`"),
    ],
    ids=str,
)
def test_columns_and_weights_are_arranged_as_spark_does(
    spark: SparkSession, expressions: tuple[str, ...]
) -> None:
    flow, frame = both(spark)
    found, expected = compute(flow, items(*expressions)), frame.selectExpr(*expressions)
    assert isinstance(found, Flow)
    assert bodies(found) == 1
    assert content(found) == content(expected)
    assert found.columns == expected.columns


def test_a_weight_comes_after_all_columns(spark: SparkSession) -> None:
    flow, frame = both(spark)
    found, expected = append_columns(flow, COMES), frame.selectExpr("*", "1L AS `_w`")
    assert isinstance(found, Flow)
    assert bodies(found) == 1
    assert content(found) == content(expected)
    assert found.columns == expected.columns == append_columns(frame, COMES).columns


def test_an_expression_is_left_to_spark(spark: SparkSession) -> None:
    flow, frame = both(spark)
    found = compute(flow, items("`o:id` + 1 AS `n`", "upper(`odd ``name`) AS `u`"))
    assert isinstance(found, DataFrame)
    assert content(found) == content(frame.selectExpr("`o:id` + 1 AS `n`", "upper(`odd ``name`) AS `u`"))


def test_rows_are_kept_where_a_boolean_is_true(spark: SparkSession) -> None:
    flow, frame = both(spark)
    found = keep(flow, parse_expression("`there`"))
    assert isinstance(found, Flow)
    assert content(found) == content(frame.where("`there`"))
    assert content(keep(flow, parse_expression("NOT `there`"))) == content(frame.where("NOT `there`"))


def test_distinct_rows_take_nulls_as_equal(spark: SparkSession) -> None:
    flow, frame = both(spark)
    found = flow.distinct()
    assert isinstance(found, Flow)
    assert content(found) == content(frame.distinct())


def test_distinct_floats_are_left_to_spark(spark: SparkSession) -> None:
    rows = pa.table({"x": pa.array([0.0, -0.0, float("nan"), float("nan"), None])})
    found = flow_of(spark, rows).distinct()
    assert isinstance(found, DataFrame)
    assert found.count() == 3


def test_both_sides_are_the_same_with_and_without_spark(spark: SparkSession) -> None:
    flow, frame = both(spark)
    found, expected = duplicate_sides(flow), duplicate_sides(frame)
    assert isinstance(found, Flow)
    assert isinstance(expected, DataFrame)
    assert content(found) == content(expected)
    assert as_frame(found).schema == as_frame(expected).schema


def test_a_union_of_flows_has_the_names_of_the_first_even_if_that_is_empty(spark: SparkSession) -> None:
    empty = compute(flow_of(spark, ROWS.slice(0, 0)), items("`o:id` AS `a`", "1L AS `_w`"))
    other = compute(flow_of(spark), items("`o:id` AS `b`", "-1L AS `_w`"))
    merged = union([empty, other])
    assert isinstance(merged, Flow)
    kept = compute(merged, items("`a`", "`_w`"))
    assert bodies(kept) == 1
    assert content(kept) == content(as_frame(empty).union(as_frame(other)))


def test_a_union_of_other_types_is_left_to_spark(spark: SparkSession) -> None:
    numbers, decimals = compute(flow_of(spark), items("`o:id`")), compute(flow_of(spark), items("`d`"))
    merged = union([numbers, decimals])
    assert isinstance(merged, DataFrame)
    assert content(merged) == content(as_frame(numbers).union(as_frame(decimals)))


def test_a_body_over_a_frame_sees_what_spark_computed(spark: SparkSession) -> None:
    frame = spark.range(3).selectExpr("id + 1 AS n")
    schema = StructType(list(frame.schema.fields))
    found = compute(Flow.of(frame).then(_same, schema), items("`n`", "7L AS `_w`"))
    assert content(found) == ["(1, 7)", "(2, 7)", "(3, 7)"]


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches

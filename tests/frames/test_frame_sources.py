"""Frames over sources whose columns are known: their texts give Spark the rows, and the columns, that the frames give."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from engine.errors import SqlError
from engine.frames.frame_sql import FrameSource, render_frame_query
from engine.spark_internals import get_connect_relation, open_offline_session
from tests.oracle.batch import assert_equal

COLUMNS = {"item": ("id", "g", "x"), "label": ("g", "label")}


def read_source(node: Any) -> FrameSource:
    """Return what stands for a source: a view of Spark, or a text as it is."""
    if hasattr(node, "query"):
        return FrameSource(f"({node.query})")
    name = node.named_table.unparsed_identifier
    return FrameSource(name, COLUMNS[name])


def dropped(spark: SparkSession) -> DataFrame:
    return spark.table("item").drop("g", "nobody")


def renamed(spark: SparkSession) -> DataFrame:
    return (
        spark.table("item")
        .withColumnRenamed("X", "y")
        .withColumnRenamed("nobody", "z")
        .withColumn("y", F.col("y") + 1)
    )


def replaced(spark: SparkSession) -> DataFrame:
    return spark.table("item").withColumn("G", F.coalesce("g", F.lit(9))).withColumn("n", F.lit(1))


def joined_without_the_others_key(spark: SparkSession) -> DataFrame:
    item, label = spark.table("item"), spark.table("label")
    return item.join(label, item.g == label.g, "left").drop(label.g)


def joined_without_a_name_of_both(spark: SparkSession) -> DataFrame:
    item, label = spark.table("item"), spark.table("label")
    return item.join(label, item.g == label.g).drop("g").withColumnRenamed("label", "l")


def shared_and_replaced(spark: SparkSession) -> DataFrame:
    joined = spark.table("item").join(spark.table("label"), "g", "full")
    return joined.withColumn("x", F.coalesce("x", F.lit(0))).drop("id")


def semi(spark: SparkSession) -> DataFrame:
    return spark.table("item").join(spark.table("label"), "g", "semi").drop("x")


def by_name(spark: SparkSession) -> DataFrame:
    item = spark.table("item")
    return item.unionByName(item.select("x", "g", (F.col("id") + 10).alias("id")))


def by_name_with_gaps(spark: SparkSession) -> DataFrame:
    return spark.table("item").unionByName(spark.table("label"), allowMissingColumns=True)


def unnamed(spark: SparkSession) -> DataFrame:
    found = (
        spark.table("item")
        .groupBy("g")
        .agg(F.sum("x"), F.count("*"), F.countDistinct("x").alias("d"), F.max(F.col("x")))
    )
    return found.withColumnRenamed("sum(x)", "s")


def shared_without_the_others_key(spark: SparkSession) -> DataFrame:
    item, label = spark.table("item"), spark.table("label")
    return item.join(label, "g").where("id > 0").drop(label.g)


def shared_without_the_lefts_key(spark: SparkSession) -> DataFrame:
    item, label = spark.table("item"), spark.table("label")
    return item.join(label, "g", "right").drop(item.g)


def unnamed_fields(spark: SparkSession) -> DataFrame:
    found = (
        spark.table("item").select("g", F.struct("x", F.struct("id").alias("inner")).alias("s")).alias("t")
    )
    return found.groupBy("g").agg(F.sum("s.x"), F.max("t.s.inner.id"), F.min("t.g"))


def with_units_and_nobody(spark: SparkSession) -> DataFrame:
    then = F.timestamp_add("HOUR", F.col("x"), F.timestamp_seconds("id"))
    apart = F.timestamp_diff("MINUTE", F.timestamp_seconds("id"), then)
    return spark.table("item").where(~F.col("x").isin([])).select("id", apart.alias("m"))


def of_a_text(spark: SparkSession) -> DataFrame:
    return (
        spark.sql("WITH a AS (SELECT g, max(x) AS m FROM item GROUP BY g) SELECT * FROM a")
        .where("m > 1")
        .join(spark.table("label"), "g")
    )


def of_a_range(spark: SparkSession) -> DataFrame:
    return (
        spark.range(1, 20, 3)
        .withColumnRenamed("id", "n")
        .withColumn("k", F.explode(F.sequence(F.lit(0), F.lit(2))))
    )


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Iterator[SparkSession]:
    item = pa.table({"id": [1, 2, 3, 4], "g": [1, 1, 2, None], "x": [5, 7, None, 1]})
    spark.createDataFrame(item).createOrReplaceTempView("item")
    spark.createDataFrame(pa.table({"g": [1, 3, None], "label": ["a", "b", "c"]})).createOrReplaceTempView(
        "label"
    )
    yield spark
    for name in COLUMNS:
        spark.catalog.dropTempView(name)


@pytest.mark.parametrize(
    "made",
    [
        dropped,
        renamed,
        replaced,
        joined_without_the_others_key,
        joined_without_a_name_of_both,
        shared_and_replaced,
        semi,
        by_name,
        by_name_with_gaps,
        unnamed,
        shared_without_the_others_key,
        shared_without_the_lefts_key,
        unnamed_fields,
        with_units_and_nobody,
        of_a_text,
        of_a_range,
    ],
)
def test_a_text_gives_what_its_frame_gives(
    made: Callable[[SparkSession], DataFrame], tables: SparkSession
) -> None:
    with open_offline_session({}) as offline:
        text = render_frame_query(get_connect_relation(made(offline)), read_source)
    found, wanted = tables.sql(text), made(tables)
    assert [name.lower() for name in found.columns] == [name.lower() for name in wanted.columns]
    assert_equal(found.toArrow(), wanted.toArrow(), text)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda spark: spark.table("item").unionByName(spark.table("label")), "one side lacks id, label, x"),
        (lambda spark: spark.table("item").dropDuplicates(["g"]), "dropDuplicates of some columns"),
        (lambda spark: spark.table("item").sample(0.5), "the operator sample"),
        (lambda spark: spark.table("item").fillna(0), "the operator fill na"),
        (lambda spark: spark.sql("SELECT * FROM item").drop("x"), "dropped columns, x"),
        (
            lambda spark: spark.table("item").groupBy("g").agg(F.sum(F.col("x") + 1)),
            "a column without a name",
        ),
        (
            lambda spark: (
                spark.table("item").select(F.struct("x").alias("s")).select(F.col("s.x").cast("int"))
            ),
            "a cast of the field s.x without a name",
        ),
    ],
)
def test_what_has_no_text_is_refused(made: Callable[[SparkSession], DataFrame], message: str) -> None:
    with open_offline_session({}) as offline, pytest.raises(SqlError, match=message):
        render_frame_query(get_connect_relation(made(offline)), read_source)

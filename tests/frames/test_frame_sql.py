"""Frames as views: what a function makes of frames that nobody serves is what Spark computes by the same function over the rows."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from dagster_tideline import materialized_view
from engine.errors import SqlError
from engine.session import Session
from tests.oracle.batch import assert_equal, content

Made = Callable[..., Any]


def picked(item: DataFrame) -> DataFrame:
    return item.where(item.x > 3).select(item.id, "g", (F.col("x") * 2 - 1).alias("y"), item["x"].cast("int"))


def summed(item: DataFrame) -> DataFrame:
    return item.groupBy("g").agg(
        F.sum("x").alias("s"), F.count("*").alias("n"), F.countDistinct("x").alias("d")
    )


def counted(item: DataFrame) -> DataFrame:
    return item.groupBy((F.col("id") % 3).alias("third")).count().filter("count > 1")


def overall(item: DataFrame) -> DataFrame:
    return item.agg(F.max("x").alias("high"), F.avg("x").alias("mean"))


def rolled(item: DataFrame) -> DataFrame:
    return item.rollup("g", "note").agg(F.count("id").alias("n"))


def cubed(item: DataFrame) -> DataFrame:
    return item.cube("g").agg(F.min("x").alias("low"), F.grouping("g").alias("all"))


def named(item: DataFrame, label: DataFrame) -> DataFrame:
    return item.join(label, item.g == label.g, "left").select(item.id, label.g.alias("k"), "label")


def shared(item: DataFrame, label: DataFrame) -> DataFrame:
    return item.join(label, "g").groupBy("label").agg(F.sum("x").alias("s"))


def outer_rows(item: DataFrame, label: DataFrame) -> DataFrame:
    return item.join(label, ["g"], "full").select("g", "id", "label")


def without(item: DataFrame, label: DataFrame) -> DataFrame:
    return item.join(label, item.g == label.g, "anti").select("id", item.x)


def within(item: DataFrame, label: DataFrame) -> DataFrame:
    return item.join(label.where(label.g > 1), "g", "semi").select("id", "g")


def pairs(item: DataFrame) -> DataFrame:
    a, b = item.alias("a"), item.alias("b")
    return a.join(b, (F.col("a.g") == F.col("b.g")) & (F.col("a.id") < F.col("b.id"))).select(
        F.col("a.id").alias("one"), F.col("b.id").alias("other")
    )


def crossed(item: DataFrame, label: DataFrame) -> DataFrame:
    return item.select("id").crossJoin(label.select("label").hint("broadcast")).repartition(3)


def three(item: DataFrame, label: DataFrame) -> DataFrame:
    totals = item.groupBy("g").agg(F.sum("x").alias("s"))
    joined = item.join(label, "g").join(totals.alias("t"), "g")
    return joined.where(F.col("t.s") > 2).select("id", label.label, totals.s)


def widened(item: DataFrame) -> DataFrame:
    high = F.when(F.col("x").isNull(), "none").when(F.col("x") >= 7, "high").otherwise("low")
    return item.withColumn("height", high).withColumns({"twice": F.col("x") * 2, "up": F.upper("note")})


def replaced(item: DataFrame) -> DataFrame:
    found = (
        item.select("id", "g", "x").withColumn("x", F.coalesce("x", F.lit(0))).withColumn("y", F.col("x") + 1)
    )
    return found.drop("g").withColumnRenamed("id", "key").toDF("k", "a", "b")


def both_sides(item: DataFrame, label: DataFrame) -> DataFrame:
    return (
        item.select("g", "x")
        .union(label.select("g", F.lit(None).cast("bigint").alias("x")))
        .union(item.select("id", "g"))
    )


def once(item: DataFrame) -> DataFrame:
    return item.select("g", "note").distinct()


def shared_keys(item: DataFrame, label: DataFrame) -> DataFrame:
    return item.select("g").intersect(label.select("g"))


def lone_keys(item: DataFrame, label: DataFrame) -> DataFrame:
    return item.select("g").exceptAll(label.select("g"))


def first_rows(item: DataFrame) -> DataFrame:
    return item.orderBy(F.col("x").desc_nulls_last(), "id").offset(1).limit(4)


def numbered(item: DataFrame) -> DataFrame:
    window = Window.partitionBy("g").orderBy(F.desc("x"), "id")
    return item.withColumn("r", F.row_number().over(window)).where(F.col("r") <= 2).select("id", "r")


def moving(item: DataFrame) -> DataFrame:
    window = Window.partitionBy("g").orderBy("id")
    near = window.rowsBetween(-1, Window.currentRow)
    return item.select("id", F.sum("x").over(near).alias("s"), F.lag("x", 1, 0).over(window).alias("before"))


def listed(item: DataFrame) -> DataFrame:
    more = F.transform("xs", lambda x: x + F.col("id"))
    return item.select(
        "id", more.alias("ys"), F.col("xs")[0].alias("a"), F.filter("xs", lambda x: x > 1).alias("f")
    )


def exploded(item: DataFrame) -> DataFrame:
    return item.select("id", F.explode("xs").alias("e")).groupBy("e").agg(F.count("id").alias("n"))


def matched(item: DataFrame) -> DataFrame:
    note = F.col("note")
    found = (
        (note.like("a%") | note.rlike("c$") | note.isin("b", "it's")) & ~note.contains("z") & note.isNotNull()
    )
    return item.where(found & F.col("x").between(1, 9)).select("id", F.concat_ws("-", "note", "g").alias("t"))


def constants(item: DataFrame) -> DataFrame:
    return item.select(
        "id",
        F.lit("it's \\ a").alias("t"),
        F.lit(1.5).alias("d"),
        F.lit(Decimal("1.25")).alias("n"),
        F.lit(datetime.date(2024, 2, 29)).alias("day"),
        F.lit(True).alias("b"),
        F.lit(10_000_000_000).alias("l"),
        F.array(F.lit(1), F.lit(2)).alias("xs"),
        F.expr("x + 1 AS more"),
        (-F.col("x")).alias("minus"),
    )


def pages(item: DataFrame) -> DataFrame:
    return item.select("id", "x").orderBy(F.desc("id")).limit(7).offset(2).offset(1).limit(3).limit(5)


def spelled(item: DataFrame) -> DataFrame:
    found = item.select("id", "g", "x", "note").drop("G").withColumnRenamed("ID", "key")
    return found.withColumn("X", F.coalesce("x", F.lit(0))).withColumnsRenamed({"note": "n", "N": "m"})


def fields(item: DataFrame) -> DataFrame:
    low = F.struct((-F.col("x")).alias("low"), "id", F.lit(1))
    found = item.groupBy("g").agg(F.max(low).alias("m"), F.max(F.to_json(low)).alias("j"))
    return found.select("g", "m.low", F.col("m.id").alias("i"), "j")


def hidden(item: DataFrame) -> DataFrame:
    found = item.select("id", "xs", F.col("x").alias("x1"), F.col("g").alias("X2"))
    return found.select("id", F.transform("xs", lambda e: e + F.col("x1") * F.col("X2")).alias("ys"))


def own(item: DataFrame) -> DataFrame:
    some = item.select("id", "g", "x")
    found = some.withColumn("x", some.x + 5).where((F.col("x") > 6) & (some.g > 1))
    return found.select(some.id, "x", F.expr("CAST(g AS INT)"))


def keyed(item: DataFrame, label: DataFrame) -> DataFrame:
    found = item.join(label, "g", "left").withColumn("y", F.col("x") + 1).where(item.g > 1)
    return found.groupBy(item.g).agg(F.sum("y").alias("s")).where(item.g < 3)


def starred(item: DataFrame, label: DataFrame) -> DataFrame:
    some = item.select("id", "g")
    found = some.join(label, some.g == label.g, "left")
    return found.select(some["*"], label.label).where(some.id > 1)


FUNCTIONS: tuple[Made, ...] = (
    picked, summed, counted, overall, rolled, cubed, named, shared, outer_rows, without, within, pairs, crossed, three, widened, replaced,
    both_sides, once, shared_keys, lone_keys, first_rows, numbered, moving, listed, exploded, matched, constants,
    pages, spelled, fields, hidden, own, keyed, starred,
)  # fmt: skip


def change(session: Session, dice: random.Random) -> None:
    keys = dice.sample(range(14), 6)
    rows = {
        "id": pa.array(keys, pa.int64()),
        "g": pa.array([dice.choice([1, 2, 3, None]) for _ in keys], pa.int64()),
    }
    rows["x"] = pa.array([dice.choice([None, 1, 4, 7, 9]) for _ in keys], pa.int64())
    rows["note"] = pa.array([dice.choice(["a", "abc", "b", "it's", "z", None]) for _ in keys])
    rows["xs"] = pa.array(
        [[dice.randrange(4) for _ in range(dice.randrange(3))] + [k] for k in keys], pa.list_(pa.int64())
    )
    session.write("item", pa.table(rows))
    session.sql(f"DELETE FROM item WHERE id = {dice.randrange(14)}")
    session.sql(f"UPDATE label SET label = 'l{dice.randrange(9)}' WHERE g = {dice.choice([1, 2])}")


@pytest.mark.long
def test_a_view_of_a_frame_holds_what_spark_computes_by_the_same_function(
    session: Session, spark: SparkSession
) -> None:
    session.sql(
        "CREATE TABLE item (id BIGINT PRIMARY KEY, g BIGINT, x BIGINT, note STRING, xs ARRAY<BIGINT>)"
    )
    session.sql("CREATE TABLE label (g BIGINT PRIMARY KEY, label STRING)")
    session.sql("INSERT INTO label VALUES (1, 'a'), (2, 'b'), (4, 'd')")
    for function in FUNCTIONS:
        session.sql(materialized_view()(function).build_statement())
    dice = random.Random(9)
    for epoch in range(3):
        change(session, dice)
        session.flush().raise_for_errors()
        frames = {name: spark.createDataFrame(content(session, name)) for name in ("item", "label")}
        for function in FUNCTIONS:
            names = function.__code__.co_varnames[: function.__code__.co_argcount]
            wanted = function(**{name: frames[name] for name in names}).toArrow()
            assert_equal(content(session, function.__name__), wanted, f"{function.__name__} {epoch}")


def test_the_text_of_a_frame_is_the_same_each_time() -> None:
    for function in (listed, three, both_sides):
        one, other = (materialized_view()(function).build_statement() for _ in range(2))
        assert one == other and "`frame_1`" in one


def test_functions_of_pyspark_are_those_of_the_process_again_afterwards(spark: SparkSession) -> None:
    materialized_view()(picked).build_statement()
    assert spark.range(3).select(F.sum("id").alias("s")).collect()[0].s == 3


def udf(item: DataFrame) -> DataFrame:
    return item.select(F.udf(lambda x: x, LongType())("x").alias("y"))


def mapped(item: DataFrame) -> DataFrame:
    return item.mapInArrow(lambda batches: batches, StructType([StructField("x", LongType())]))


REFUSED: tuple[tuple[Made, str], ...] = (
    (lambda item: item.drop("x"), "dropped columns, x"),
    (lambda item: item.withColumnRenamed("x", "y"), "a renamed column"),
    (lambda item: item.toDF("a", "b"), "new names for all columns"),
    (lambda item: item.groupBy("g").agg(F.sum(F.col("x") + 1)), r"a column without a name, sum\("),
    (lambda item: item.select(F.expr("x + 1")), "a column without a name, x"),
    (lambda item: item.groupBy("g").pivot("x").agg(F.sum("id").alias("s")), "a pivot"),
    (lambda item: item.dropDuplicates(["g"]), "dropDuplicates of some columns"),
    (lambda item: item.sample(0.5), "the operator sample"),
    (lambda item: item.fillna(0), "the operator fill na"),
    (lambda item: item.unionByName(item), "unionByName"),
    (lambda item: item.sortWithinPartitions("x"), "sortWithinPartitions"),
    (lambda item: item.join(item, item.x == item.id), "joined with itself"),
    (lambda item: item.select(item.x, item.alias("o").x), "a column of another frame"),
    (lambda item: item.select(item.columns[0]), "asks Spark for"),
    (lambda item: item.collect(), "asks Spark for"),
    (lambda item: item.sparkSession.sql("SELECT 1"), "asks Spark for sql"),
    (lambda item: item.groupBy(F.lit(1)).agg(F.sum("x").alias("s")), "a group by a constant"),
    (lambda item: item.select(F.col("s").withField("a", F.lit(1)).alias("t")), "of the kind update fields"),
    (lambda item: item.orderBy("x").select("id").limit(3), "ordered before it was selected or filtered"),
    (lambda item: item.orderBy("x").where("x > 1").offset(3), "ordered before it was selected or filtered"),
    (lambda item: item.orderBy("x").limit(3).alias("i").limit(2), "ordered before it was selected"),
    (lambda item: item.select("id", (item.x * 2).alias("x")).where(item.x > 6), "the column x of a frame from before"),
    (lambda item: item.select("id").orderBy(item.x).limit(2), "the column x of a frame from before"),
    (lambda item: item.groupBy("g").agg(F.sum("x").alias("x")).where(item.x > 1), "the column x of a frame"),
    (lambda item: item.select("id", "x").where("x > 1").select(item["*"]), "all columns of a frame from before"),
    (lambda item: item.select(F.arrays_zip(F.col("xs").alias("p"), "xs").alias("z")), "a name inside arrays_zip"),
    (lambda item: item.select("id", F.expr("upper('x')")), r"a column without a name, upper\('x'\)"),
    (mapped, "asks Spark for"),
    (udf, "the Python function"),
    (lambda item: 3, "returns int, not the text of a query"),
    (lambda item, other=1: item, "has the parameter other=1"),
    (lambda *items: items[0], r"has the parameter \*items"),
)  # fmt: skip


@pytest.mark.parametrize(("function", "message"), REFUSED)
def test_what_no_view_is_made_of_is_refused_with_what_to_do(function: Made, message: str) -> None:
    with pytest.raises(SqlError, match=message) as error:
        materialized_view()(function).build_statement()
    assert error.value.hint


def other_side(item: DataFrame, label: DataFrame) -> DataFrame:
    return item.join(label, "g", "full").withColumn("y", F.lit(1)).where(item.g.isNull())


def merged(item: DataFrame, label: DataFrame) -> DataFrame:
    both = item.join(label, "g")
    return both.join(label.select("g"), "g", "right").select(both.g.alias("h"))


def everything(item: DataFrame, label: DataFrame) -> DataFrame:
    both = item.join(label, item.g == label.g)
    return both.join(item.select("id"), F.col("x") > 1).select(both["*"])


def kept_alone(item: DataFrame, label: DataFrame) -> DataFrame:
    return item.select("id", "g").join(label, item.g == label.g, "semi").drop(label.g)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (other_side, "the column g of a frame from before"),
        (merged, "the column g of a frame from before"),
        (everything, "all columns of a joined frame"),
        (kept_alone, "a column of another frame"),
    ],
)
def test_a_column_that_is_another_side_s_after_a_join_is_refused(function: Made, message: str) -> None:
    with pytest.raises(SqlError, match=message) as error:
        materialized_view()(function).build_statement()
    assert error.value.hint


def test_a_frame_is_of_sparks_dialect() -> None:
    with pytest.raises(SqlError, match="its dialect is postgres"):
        materialized_view(dialect="postgres")(picked).build_statement()


def test_a_column_that_is_replaced_unseen_is_refused_when_the_view_is_made(session: Session) -> None:
    session.sql("CREATE TABLE item (id BIGINT PRIMARY KEY, x BIGINT)")

    def twice(item: DataFrame) -> DataFrame:
        return item.withColumn("x", F.col("x") + 1)

    with pytest.raises(SqlError, match="x"):
        session.sql(materialized_view()(twice).build_statement())

    def inside(item: DataFrame) -> DataFrame:
        return item.withColumn("x", F.col("x") + 1).where(F.col("x") > 1).select("id", "x")

    with pytest.raises(SqlError, match="x"):
        session.sql(materialized_view()(inside).build_statement())

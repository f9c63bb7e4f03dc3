"""A pipeline as queries over relations: what is taken, under which names, and why the rest is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.pipelines.names import KnownTable
from engine.pipelines.project import PipelineReading, read_pipeline
from tests.pipelines.projects import write_project

SPEC = "name: p\nstorage: s\ndatabase: db\nlibraries:\n  - glob: {include: a/**}\n"
HEAD = "from pyspark import pipelines as dp\nfrom pyspark.sql import functions as F\n"
KNOWN = [
    KnownTable("orders", ("id", "x")),
    KnownTable("log", ("at", "what"), True),
    KnownTable("other", ("what", "more"), True),
]


def read(folder: Path, said: dict[str, str] | None = None, **texts: str) -> PipelineReading:
    """Return a pipeline of files in SQL (`sql…`) and Python."""
    files = {f"a/{name}.{'sql' if name.startswith('sql') else 'py'}": text for name, text in texts.items()}
    files = {name: text if name.endswith(".sql") else HEAD + text for name, text in files.items()}
    return read_pipeline(write_project(folder, {"spark-pipeline.yml": SPEC, **files}), said, KNOWN)


def find_reason(reading: PipelineReading, name: str) -> str:
    """Return why an element is not taken."""
    (one,) = [one for one in reading.elements if one.name == name]
    assert not one.taken
    return one.reason


def test_views_come_inputs_first_and_read_each_other_over_files(tmp_path: Path) -> None:
    reading = read(
        tmp_path,
        py="@dp.materialized_view\ndef gold():\n    return spark.table('db.silver').drop('x').withColumn('n', F.lit(1))\n",
        sql="CREATE MATERIALIZED VIEW silver AS SELECT *, x + 1 AS y FROM raw.orders;",
    )
    assert [(view.relation, view.query) for view in reading.views] == [
        ("silver", "SELECT *, x + 1 AS y FROM `orders`"),
        ("gold", "SELECT *, 1 AS `n` FROM (SELECT `id`, `y` FROM `silver` AS `frame_1`) AS `frame_2`"),
    ]
    assert reading.views[0].foreign == {"orders": "raw.orders"} and not reading.views[1].foreign
    assert [(one.name, one.kind, one.relation) for one in reading.elements][-1] == (
        "raw.orders",
        "table",
        "orders",
    )


def test_a_stream_of_rows_that_are_only_added_is_a_view(tmp_path: Path) -> None:
    reading = read(
        tmp_path,
        sql="""
        CREATE STREAMING TABLE a AS SELECT at FROM STREAM log WHERE what = 'x';
        CREATE TEMPORARY VIEW t AS SELECT at FROM STREAM(a);
        CREATE STREAMING TABLE b AS SELECT at FROM STREAM t;
        CREATE STREAMING TABLE changes AS SELECT id FROM STREAM orders;
        CREATE STREAMING TABLE later AS SELECT id FROM STREAM nowhere;
        CREATE MATERIALIZED VIEW m AS SELECT at FROM a;
        CREATE MATERIALIZED VIEW wrong AS SELECT at FROM STREAM a;
        CREATE MATERIALIZED VIEW over_t AS SELECT at FROM t;
        CREATE STREAMING TABLE of_view AS SELECT at FROM STREAM m;
        CREATE STREAMING TABLE mixed AS SELECT l.at FROM STREAM log l JOIN orders o ON true;
        """,
    )
    assert [view.relation for view in reading.views if not view.error] == ["a", "t", "b", "m"]
    assert "is not APPEND ONLY" in find_reason(reading, "changes")
    assert "there is no table nowhere yet" in find_reason(reading, "later")
    assert "it reads a as a stream" in find_reason(reading, "wrong")
    assert "it reads t as a stream" in find_reason(reading, "over_t")
    assert "some change or go" in find_reason(reading, "of_view")
    assert "it joins the stream log with the table orders" in find_reason(reading, "mixed")


def test_a_text_in_which_spark_puts_settings_is_not_taken(tmp_path: Path) -> None:
    reading = read(
        tmp_path,
        sql="CREATE MATERIALIZED VIEW m AS SELECT id FROM orders WHERE x = '${where}';",
        py="@dp.materialized_view\ndef n():\n    return spark.sql(\"SELECT '${where}' AS w FROM orders\")\n",
    )
    for name in ("m", "n"):
        assert "its text has ${…}" in find_reason(reading, name)


def test_flows_of_one_table_are_matched_by_name(tmp_path: Path) -> None:
    reading = read(
        tmp_path,
        py="""
dp.create_streaming_table("t")
dp.create_streaming_table("u")
dp.create_streaming_table("empty")

@dp.append_flow(target="t")
def one():
    return spark.readStream.table("log").select("at", "what")

@dp.append_flow(target="t")
def two():
    return spark.readStream.table("log").select("what", F.lit(None).cast("timestamp").alias("AT"))

@dp.append_flow(target="u")
def three():
    return spark.readStream.table("log")

@dp.append_flow(target="u")
def four():
    return spark.readStream.table("other")

@dp.append_flow(target="nobody")
def five():
    return spark.readStream.table("log")
""",
    )
    (view,) = [view for view in reading.views if not view.error]
    assert view.query.count("SELECT `at`, `what` FROM (") == 2 and "UNION ALL" in view.query
    assert "whose columns differ" in find_reason(reading, "u")
    assert "no flow fills it" in find_reason(reading, "empty")
    assert "its target nobody is not defined" in find_reason(reading, "five")


def test_a_table_may_stand_for_a_dataset_or_for_files(tmp_path: Path) -> None:
    reading = read(
        tmp_path,
        {"db.bronze": "log", "/data/x": "orders"},
        py="""
@dp.table
def bronze():
    return spark.readStream.format("kafka").load()

@dp.table
def silver():
    return spark.readStream.table("bronze").where("what > ''")

@dp.materialized_view
def files():
    return spark.read.format("csv").option("header", True).load("/data/x").withColumnRenamed("x", "y")
""",
        sql="CREATE MATERIALIZED VIEW more AS SELECT * FROM parquet.`/data/y`;",
    )
    found = {view.relation: view.query for view in reading.views if not view.error}
    assert found == {
        "silver": "SELECT * FROM `log` AS `frame_1` WHERE (what > '')",
        "files": "SELECT `id`, `x` AS `y` FROM `orders` AS `frame_1`",
    }
    assert "no table stands for them" in find_reason(reading, "more")
    (bronze,) = [one for one in reading.elements if one.name == "bronze"]
    assert (bronze.relation, bronze.taken) == ("log", "table that you land")


def test_a_reader_with_a_schema_gives_its_columns(tmp_path: Path) -> None:
    reading = read(
        tmp_path,
        {"/data/x": "orders", "/data/y": "landed"},
        py="""
from pyspark.sql.types import IntegerType, StructField, StructType

@dp.materialized_view
def one():
    return spark.read.schema("x INT").csv("/data/x").withColumnRenamed("x", "y")

@dp.materialized_view
def same():
    return spark.read.schema("ID INT, x INT").csv("/data/x")

@dp.materialized_view
def lacks():
    return spark.read.schema("id INT, z INT").csv("/data/x")

@dp.materialized_view
def later():
    columns = [StructField("b", IntegerType()), StructField("a", IntegerType())]
    return spark.read.schema(StructType(columns)).json("/data/y").drop("a")
""",
    )
    found = {view.relation: view.query for view in reading.views if not view.error}
    assert found["one"] == "SELECT `x` AS `y` FROM (SELECT `x` FROM `orders`) AS `frame_1`"
    assert found["same"] == "SELECT * FROM `orders` AS `frame_1`"
    assert "SELECT `b` FROM (SELECT `b`, `a` FROM" in found["later"]
    assert "has the column z, and the table orders" in find_reason(reading, "lacks")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("CREATE MATERIALIZED VIEW v AS SELECT max(x) FROM orders", "its column 1 has no name"),
        ("CREATE MATERIALIZED VIEW v (a INT) AS SELECT id FROM orders", "its schema has the columns a"),
        ("CREATE MATERIALIZED VIEW v (a INT) AS SELECT * FROM unknown", "are not known"),
        ("CREATE MATERIALIZED VIEW v AS SELECT * FROM v", "it reads v, which is not taken"),
        ("CREATE MATERIALIZED VIEW `v-w` AS SELECT id FROM orders", "is no name of a relation"),
        (
            "SET spark.sql.ansi.enabled = false; CREATE MATERIALIZED VIEW v AS SELECT id FROM orders",
            "ansi.enabled",
        ),
        (
            "SET spark.sql.session.timeZone = Europe/Rome; CREATE MATERIALIZED VIEW v AS SELECT 1 AS x",
            "timeZone",
        ),
        ("CREATE STREAMING TABLE v AS SELECT id FROM orders", "it reads no stream"),
        ("CREATE MATERIALIZED VIEW v AS SELEC 1", "cannot be read"),
    ],
)
def test_what_is_not_taken_says_why(text: str, reason: str, tmp_path: Path) -> None:
    reading = read(tmp_path, sql=text)
    assert reason in find_reason(reading, "v-w" if "v-w" in text else "v")


def test_settings_that_change_no_row_are_taken(tmp_path: Path) -> None:
    text = (
        "SET spark.sql.shuffle.partitions = 3; SET spark.sql.ansi.enabled = true; SET my.own = 1;"
        "SET spark.sql.session.timeZone = UTC; CREATE MATERIALIZED VIEW v AS SELECT id FROM orders"
    )
    assert [one.taken for one in read(tmp_path, sql=text).elements] == [
        "materialized view",
        "table that you land",
    ]


def test_a_view_that_is_refused_tells_what_spark_does(tmp_path: Path) -> None:
    reading = read(tmp_path, sql="CREATE MATERIALIZED VIEW v AS SELECT max(x) FROM orders")
    assert find_reason(reading, "v").endswith("; Spark computes it in full at each update")

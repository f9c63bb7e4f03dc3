"""Columns that datasets are kept without."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.pipelines.left_out import leave_out
from engine.pipelines.names import KnownTable
from engine.pipelines.project import PipelineReading, read_pipeline
from engine.pipelines.spec import PipelineError
from tests.pipelines.projects import write_project

SPEC = "name: p\nstorage: s\ndatabase: shop\nlibraries:\n  - glob: {include: a/**}\n"


def read(folder: Path, *left_out: str, sql: str = "", py: str = "") -> PipelineReading:
    """Read a pipeline without some columns."""
    head = "from pyspark import pipelines as dp\nfrom pyspark.sql import functions as F\n"
    files = {"spark-pipeline.yml": SPEC, "a/a.sql": sql, "a/b.py": head + py}
    spec = write_project(folder, files)
    return read_pipeline(spec, {}, [KnownTable("orders", ("id", "x"))], left_out)


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("SELECT a, now() AS at FROM t", "SELECT a FROM t"),
        ("SELECT now() AS at, a FROM t", "SELECT a FROM t"),
        ("SELECT a, now() AS at, b FROM t", "SELECT a, b FROM t"),
        ("SELECT DISTINCT f(a, b) AS c, x.`At` FROM x", "SELECT DISTINCT f(a, b) AS c FROM x"),
        ("SELECT * EXCEPT (a), now() at", "SELECT * EXCEPT (a)"),
        (
            "WITH v AS (SELECT *, now() AS at FROM t) SELECT a, at FROM v WHERE at IS NULL",
            "WITH v AS (SELECT * FROM t) SELECT a FROM v WHERE at IS NULL",
        ),
        ("SELECT a, (SELECT max(x) FROM u) AS m, at FROM t", "SELECT a, (SELECT max(x) FROM u) AS m FROM t"),
        ("SELECT a, at FROM t UNION ALL SELECT at, a FROM u", "SELECT a FROM t UNION ALL SELECT a FROM u"),
        ("SELECT at FROM t", "SELECT at FROM t"),
        ("SELECT now() AS at, now() AS at, a -- at\nFROM t", "SELECT a -- at\nFROM t"),
    ],
)
def test_select_lists_are_written_without_a_column(text: str, rest: str) -> None:
    assert leave_out(text, frozenset({"at"})) == (rest, frozenset({"at"}))


def test_a_list_in_which_nothing_has_the_name_stays() -> None:
    text = "SELECT a AS b, at + 1 AS c FROM t"
    assert leave_out(text, frozenset({"at"})) == (text, frozenset())


def test_datasets_are_kept_without_columns(tmp_path: Path) -> None:
    reading = read(
        tmp_path,
        "silver.at",
        "shop.gold.at",
        "texted.at",
        sql="CREATE MATERIALIZED VIEW silver AS SELECT id, current_timestamp() AS at FROM orders;",
        py="""
@dp.materialized_view(schema="id INT, at TIMESTAMP, y INT")
def gold():
    orders = spark.table("orders").withColumn("at", F.current_timestamp()).withColumn("y", F.col("x") + 1)
    return orders.select("id", "at", "y")

@dp.materialized_view
def texted():
    return spark.sql("SELECT x, current_timestamp() AS at FROM orders").where("x > 1")
""",
    )
    found = {view.relation: view.query for view in reading.views}
    assert found["silver"] == "SELECT id FROM `orders`"
    assert "current_timestamp" not in found["gold"] and found["gold"].startswith("SELECT `id`, `y` FROM")
    assert found["texted"] == "SELECT * FROM (SELECT x FROM `orders`) AS `frame_1` WHERE (x > 1)"
    notes = {one.name: one.reason for one in reading.elements if one.taken and one.kind != "table"}
    assert notes["silver"] == "without its columns at, which are left out"
    assert notes["gold"].endswith("; without its columns at, which are left out")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("SELECT id, now() AS at FROM orders WHERE at IS NULL", "its column at is used in it"),
        ("SELECT id, now() AS at FROM orders ORDER BY orders.at", "its column at is used in it"),
        ("SELECT DISTINCT id, now() AS at FROM orders", "it has a DISTINCT"),
        ("SELECT id, now() AS at FROM orders UNION ALL SELECT now() AS at, id FROM orders", "it has a UNION"),
        ("SELECT now() AS at, id, max(x) AS x FROM orders GROUP BY 2", "GROUP BY places"),
        ("SELECT now() AS at, id, max(x) AS x FROM orders GROUP BY ALL", "GROUP BY places"),
        ("SELECT now() AS at, id FROM orders ORDER BY 2 LIMIT 3", "ORDER BY places"),
        ("SELECT b.id, b.at FROM (SELECT id, x AS at FROM orders) b NATURAL JOIN orders", "NATURAL JOIN"),
    ],
)
def test_a_query_that_would_have_other_rows_is_refused(text: str, problem: str, tmp_path: Path) -> None:
    reading = read(tmp_path, "v.at", sql=f"CREATE MATERIALIZED VIEW v AS {text}")
    (reason,) = [one.reason for one in reading.elements if one.name == "v"]
    assert problem in reason


def test_what_cannot_be_left_out_is_told(tmp_path: Path) -> None:
    sql = (
        "CREATE MATERIALIZED VIEW a AS SELECT id FROM orders;"
        "CREATE MATERIALIZED VIEW b AS SELECT *, x AS y FROM orders;"
        "CREATE MATERIALIZED VIEW d AS SELECT s.x, s.id FROM (SELECT id, x FROM orders) s"
    )
    py = "\n@dp.materialized_view\ndef c():\n    return spark.table('orders')\n"
    reading = read(tmp_path, "a.x", "b.x", "c.x", "d.x", sql=sql, py=py)
    reasons = {one.name: one.reason for one in reading.elements}
    assert "no SELECT list has its column x" in reasons["a"]
    assert "no SELECT list has its column x" in reasons["b"]
    assert "the frame has no column x" in reasons["c"]
    assert reasons["d"] == "without its columns x, which are left out"
    with pytest.raises(PipelineError, match="there is no dataset other whose column x"):
        read(tmp_path / "other", "other.x", sql=sql)

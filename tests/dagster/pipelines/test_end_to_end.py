"""A pipeline over tables that change: its views equal what Spark computes in batch by the pipeline's own functions and texts."""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.pipelines.flow import AutoCdcFlow, Flow
from pyspark.pipelines.graph_element_registry import GraphElementRegistry, graph_element_registration_context
from pyspark.pipelines.output import Output
from pyspark.sql import DataFrame, SparkSession

from dagster_tideline import PipelineProject, sync_models
from dagster_tideline.pipelines.project import list_known_tables, read_pipeline_models
from engine.session import Session
from tests.oracle.batch import assert_equal, content
from tests.pipelines.projects import write_project

TABLES = {
    "orders": "CREATE TABLE orders (id INT PRIMARY KEY, customer INT, cents INT, status STRING, placed_at TIMESTAMP)",
    "customers": "CREATE TABLE customers (id INT PRIMARY KEY, name STRING)",
    "items": "CREATE TABLE items (order_id INT, item STRING, n BIGINT) APPEND ONLY",
    "web": "CREATE TABLE web (at TIMESTAMP, what STRING) APPEND ONLY",
    "shops": "CREATE TABLE shops (at TIMESTAMP, what STRING) APPEND ONLY",
}
BATCH = {
    "bronze_items": "SELECT order_id, item, CAST(n AS INT) AS n FROM raw.items WHERE n > 0",
    "silver_orders": None,
    "large_orders": None,
    "shop.order_items": None,
    "gold_by_customer": None,
    "gold_ranked": None,
    "gold_all_ids": None,
    "gold_by_day": None,
    "gold_items": "SELECT item, count(DISTINCT order_id) AS orders, sum(n) AS pieces FROM order_items GROUP BY item",
    "gold_best": """SELECT upper(c.name) AS name, g.total FROM raw.customers c JOIN gold_by_customer g ON g.id = c.id
        WHERE g.total > 50 AND c.name IS NOT NULL""",
    "events": "SELECT at, 'web' AS feed, what FROM raw.web UNION ALL SELECT at, 'shop', what FROM raw.shops",
    "web_errors": "SELECT at, what FROM raw.web WHERE what LIKE 'error%'",
    "all_errors": """SELECT what, at FROM raw.web WHERE what LIKE 'error%'
        UNION ALL SELECT what, at FROM raw.shops WHERE what LIKE 'error%'""",
    "gold_feeds": "SELECT feed, count(*) AS n FROM events GROUP BY feed",
}
"""How Spark computes each dataset, inputs first: by a text in batch, or by the function that the pipeline has."""
REFUSED = {
    "sampled": "the operator sample",
    "with_udf": "a Python function",
    "peeked": "it asks Spark for rows, types or columns of a frame",
    "over_sampled": "it reads sampled, which is not taken",
    "as_of_now": "current_timestamp",
    "counted_items": "an aggregate",
    "from_changing": "is not APPEND ONLY",
    "not_streamed": "it reads no stream",
    "alerts": "sinks of Spark are not written",
    "latest": "AUTO CDC",
    "unnamed": "its column 1 has no name",
    "lax": "spark.sql.ansi.enabled = false",
    "create view kept": "no statement of a pipeline",
    "insert into gold_feeds": "no statement of a pipeline",
}


class Functions(GraphElementRegistry):
    """Keeps the functions of flows, to be called by whoever has a real Spark."""

    def __init__(self) -> None:
        self.found: dict[str, Callable[[], DataFrame]] = {}

    def register_output(self, output: Output) -> None:
        pass

    def register_flow(self, flow: Flow) -> None:
        self.found[flow.name] = flow.func

    def register_auto_cdc_flow(self, flow: AutoCdcFlow) -> None:
        pass

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        pass


def load_functions(file: Path, spark: SparkSession) -> dict[str, Callable[[], DataFrame]]:
    """Run a file of a pipeline with a real Spark."""
    functions = Functions()
    spec = importlib.util.spec_from_file_location("pipeline_in_batch", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    vars(module)["spark"] = spark
    with graph_element_registration_context(functions):
        spec.loader.exec_module(module)
    return functions.found


@pytest.fixture
def databases(spark: SparkSession, tmp_path: Path) -> Iterator[None]:
    """Give Spark the databases of the pipeline."""
    spark.conf.set("shop.least", "100")
    for name in ("raw", "shop"):
        spark.sql(f"CREATE DATABASE {name} LOCATION '{tmp_path / name}'")
    try:
        yield
    finally:
        spark.catalog.setCurrentDatabase("default")
        for name in ("raw", "shop"):
            spark.sql(f"DROP DATABASE {name} CASCADE")
        spark.conf.unset("shop.least")


def compute_batch(
    spark: SparkSession, session: Session, functions: dict[str, Callable[[], DataFrame]]
) -> dict[str, pa.Table]:
    """Return the rows of all datasets as Spark computes them from the tables of a store, each over those before it."""
    spark.catalog.setCurrentDatabase("default")
    for name in TABLES:
        spark.sql(f"DROP TABLE IF EXISTS raw.{name}")
        spark.createDataFrame(content(session, name)).write.saveAsTable(f"raw.{name}")
    spark.catalog.setCurrentDatabase("shop")
    answers = {}
    for name, text in BATCH.items():
        frame: Any = functions[name]() if text is None else spark.sql(text)
        plain = name.rpartition(".")[2]
        spark.sql(f"DROP TABLE IF EXISTS {plain}")
        frame.write.saveAsTable(plain)
        answers[plain] = spark.table(plain).toArrow()
    return answers


def change(session: Session, number: int, made: random.Random) -> None:
    """Insert into the tables, and update and delete where rows may change."""
    for key in range(number * 8, number * 8 + 8):
        status = made.choice(("open", "paid", "test", "lost"))
        when = f"TIMESTAMP '2026-03-0{made.randrange(1, 6)} 10:0{made.randrange(10)}:00'"
        values = f"{key}, {made.randrange(6)}, {made.randrange(90_000)}, '{status}', {when}"
        session.sql(f"INSERT INTO orders VALUES ({values})")
        session.sql(
            f"INSERT INTO items VALUES ({key}, 'i{made.randrange(4)}', {made.randrange(-1, 4)}), ({key}, 'i9', 1)"
        )
    session.sql(
        f"INSERT INTO customers VALUES ({number}, {'NULL' if number == 2 else f'{chr(39)}n {number}{chr(39)}'})"
    )
    for table, what in (
        ("web", "error of web"),
        ("shops", "sold"),
        ("shops", "error, sold"),
        ("web", "seen"),
    ):
        session.sql(f"INSERT INTO {table} VALUES (TIMESTAMP '2026-03-01 00:00:0{number}', '{what}')")
    session.sql(f"DELETE FROM orders WHERE id = {made.randrange(number * 8 + 1)}")
    session.sql(f"UPDATE orders SET cents = cents + 1234, status = 'paid' WHERE id % 7 = {number}")
    session.sql(f"UPDATE customers SET name = 'other' WHERE id = {number - 1}")


@pytest.mark.long
def test_views_equal_sparks_batch_over_five_rounds_of_changes(
    tmp_path: Path, spark: SparkSession, databases: None
) -> None:
    spec = write_project(tmp_path / "project")
    functions = load_functions(tmp_path / "project" / "transformations" / "silver.py", spark)
    made = random.Random(7)
    with Session((tmp_path / "store").as_uri(), spark) as session:
        for statement in TABLES.values():
            session.sql(statement)
        known = list_known_tables(session.catalog.relations)
        reading = read_pipeline_models(PipelineProject(spec=spec), known)
        report = sync_models(session, reading.models)
        reasons = {node.name: node.reason for node in reading.nodes if not node.taken} | report.errors
        assert sorted(reasons) == sorted(REFUSED)
        for name, words in REFUSED.items():
            assert words in reasons[name], name
        for number in range(5):
            change(session, number, made)
            flushed = session.flush()
            assert [one.error for one in flushed if one.error] == []
            expected = compute_batch(spark, session, functions)
            for name, rows in expected.items():
                found = content(session, name)
                assert found.column_names == rows.column_names, name
                assert_equal(found, rows, f"{name}, round {number}")
        assert content(session, "gold_best").num_rows and content(session, "all_errors").num_rows
        full = [one.view for one in flushed if one.rebuilt]
        assert not full
        again = sync_models(session, reading.models)
        assert not again.created and not again.changed

"""What is used of PySpark's private parts is still there, and is used in one file only."""

from __future__ import annotations

import ast
import datetime
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from py4j.java_gateway import JVMView
from pyspark.sql import SparkSession, functions
from pyspark.sql.types import LongType, StructField, StructType, TimestampNTZType, TimestampType

from engine import spark_internals
from engine.spark_internals import (
    RUNS_ANEW,
    activate,
    attach,
    derive_arrow_schema,
    derive_arrow_type,
    derive_spark_schema,
    has_own_spark,
    is_in_process,
    is_recomputed,
)

PRIVATE = ("_jdf", "_jsc", "_jvm", "_jsparkSession", "_jschema", "_jconf", "_active_spark_context")
PRIVATE_MODULES = ("pyspark.daemon", "pyspark.worker", "pyspark.sql.pandas", "pyspark.sql.classic")
HOME = Path(spark_internals.__file__)


def private_parts(path: Path) -> list[str]:
    found: list[str] = []
    text = path.read_text()
    if not any(name.rpartition(".")[2] in text for name in (*PRIVATE, *PRIVATE_MODULES)):
        return found
    for node in ast.walk(ast.parse(text)):
        names = [node.attr] if isinstance(node, ast.Attribute) else []
        names += [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            modules += [f"{node.module}.{alias.name}" for alias in node.names]
        found += [name for name in names if name in PRIVATE]
        found += [module for module in modules if module.startswith(PRIVATE_MODULES)]
    return found


def test_private_parts_of_pyspark_stand_in_one_file() -> None:
    others = [path for path in HOME.parent.rglob("*.py") if path != HOME]
    assert {path.name: parts for path in others if (parts := private_parts(path))} == {}
    assert set(private_parts(HOME)) >= {"_jdf", "_jsc", "_jvm", "_jsparkSession", "_active_spark_context"}


def test_a_session_of_this_process_is_told_by_its_java_context(spark: SparkSession) -> None:
    assert is_in_process(spark), (
        "SparkSession has no _jsc any more: is_in_process takes every session for one of Connect"
    )
    assert not is_in_process(object()), "anything passes for a session of this process"  # type: ignore[arg-type]


def test_a_session_carries_what_is_attached_to_it_and_frames_have_that_session(spark: SparkSession) -> None:
    session = spark.newSession()
    carried = attach(session, object)
    assert attach(session.range(1).sparkSession, object) is carried, (
        "a frame has another session than it was made in"
    )
    assert attach(session.newSession(), object) is not carried, (
        "a new session has the attributes of the old one"
    )


def test_a_spark_of_this_process_is_told_by_its_active_context(spark: SparkSession) -> None:
    assert has_own_spark(), "SparkContext._active_spark_context is not set any more by a running Spark"
    program = "from engine.spark_internals import has_own_spark; print(has_own_spark())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_thread_plans_by_the_session_that_was_made_active_in_it(spark: SparkSession) -> None:
    beside = spark.newSession()
    answers: list[bool] = []

    def plan() -> None:
        for session in (spark, beside):
            activate(session)
            active = session._jvm.SparkSession.getActiveSession()  # type: ignore[union-attr]
            answers.append(active.isDefined() and active.get().equals(session._jsparkSession))

    thread = threading.Thread(target=plan)
    thread.start()
    thread.join()
    assert answers == [True, True], "Spark's setActiveSession does not set the session of a thread any more"


def test_a_frame_of_operators_without_a_memory_computes_everything_anew(spark: SparkSession) -> None:
    frame = (
        spark.range(0, 4, 1, 1).selectExpr("id", "'Exchange of a Subquery, InMemory' AS note").where("id > 1")
    )
    assert is_recomputed(frame), "the plan of a filter holds operators that RUNS_ANEW does not know"


@pytest.mark.parametrize("kept", ["shuffled", "cached", "subquery"])
def test_a_frame_that_keeps_its_first_result_does_not_compute_everything_anew(
    spark: SparkSession, kept: str
) -> None:
    numbers = spark.range(0, 4, 1, 1)
    cached = numbers.where("id > 2").cache()
    frames = {
        "shuffled": numbers.repartition(2, "id"),
        "cached": cached.selectExpr("id + 1 AS n"),
        "subquery": spark.sql(
            "SELECT id FROM range(0, 4, 1, 1) WHERE id > (SELECT max(id) FROM range(0, 2, 1, 1))"
        ),
    }
    try:
        assert not is_recomputed(frames[kept])
    finally:
        cached.unpersist()


def test_operators_that_are_known_to_compute_anew_exist(spark: SparkSession) -> None:
    places = ("", ".aggregate", ".window", ".python")
    loader = spark.sparkContext._jvm.java.lang.Thread.currentThread().getContextClassLoader()  # type: ignore[union-attr]

    def exists(name: str) -> bool:
        for place in places:
            path = f"org/apache/spark/sql/execution{place.replace('.', '/')}/{name}.class"
            if loader.getResource(path) is not None:
                return True
        return False

    assert [name for name in sorted(RUNS_ANEW) if not exists(name)] == [], (
        "Spark calls these operators otherwise by now"
    )


def test_types_go_to_arrow_and_back() -> None:
    schema = StructType(
        [
            StructField("n", LongType()),
            StructField("at", TimestampType()),
            StructField("local", TimestampNTZType()),
        ]
    )
    shown = derive_arrow_schema(schema)
    assert [field.type for field in shown] == [pa.int64(), pa.timestamp("us", "UTC"), pa.timestamp("us")]
    assert [derive_arrow_type(field.dataType) for field in schema.fields] == [field.type for field in shown]
    assert derive_spark_schema(shown) == schema, "moments without a zone do not stay without one any more"


def test_moments_come_in_utc_whatever_the_zone_of_the_session(spark: SparkSession) -> None:
    rows = spark.sql("SELECT TIMESTAMP'2024-01-01 00:00:00' AS at").toArrow()
    assert rows.schema.types == list(
        derive_arrow_schema(spark.sql("SELECT current_timestamp() AS at").schema).types
    )
    assert rows.column("at")[0].as_py() == datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)


def test_the_daemon_of_workers_has_what_is_put_in_its_place() -> None:
    program = """
import pyspark.daemon as daemon
from engine.spark_internals import run_daemon
assert {"traceback", "gc", "manager"} <= set(vars(daemon)), "pyspark.daemon has no traceback, gc or manager any more"
seen = []
def manager():
    daemon.gc.collect()
    daemon.traceback.print_exc()
    seen.append(daemon.traceback.format_exc())
daemon.manager = manager
run_daemon(lambda: seen.append("printed"), lambda: "formatted", lambda: seen.append("collected"))
print(seen)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['collected', 'printed', 'formatted']"


def test_the_daemon_asks_for_what_is_put_in_its_place() -> None:
    import inspect

    import pyspark.daemon

    text = inspect.getsource(pyspark.daemon)
    for asked in ("gc.collect()", "traceback.print_exc()", "traceback.format_exc()"):
        assert asked in text, (
            f"pyspark.daemon does not call {asked} any more: what run_daemon replaces is never asked"
        )


def test_the_daemon_of_workers_loads_no_more_than_pysparks_own() -> None:
    program = "import sys; import pyspark.daemon; before = set(sys.modules); import engine.runtime.spark.worker_daemon; print(sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = [name for name in ast.literal_eval(done.stdout) if not name.startswith("engine")]
    assert loaded == []


def test_pyspark_finds_the_classes_that_are_remembered_without_asking_java(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    look_up = JVMView.__getattr__

    def record_look_up(view: JVMView, name: str) -> object:
        asked.append(name)
        return look_up(view, name)

    monkeypatch.setattr(JVMView, "__getattr__", record_look_up)
    frame = spark.range(3).select(functions.expr("id + 1").alias("n"), functions.col("id"))
    rows = frame.mapInArrow(lambda batches: batches, frame.schema).collect()
    assert sorted(tuple(row) for row in rows) == [(1, 0), (2, 1), (3, 2)]
    assert asked == [], (
        "the call sites of frames are noted, or PySpark looks up other classes than _OFTEN_CALLED"
    )

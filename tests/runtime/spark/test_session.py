"""A Spark session that somebody else has made, handed in or found in the process, is left as it is."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.runtime.spark.errors import is_job_cancelled
from engine.runtime.spark.masters import CLASS_CACHE, CLASSES
from engine.runtime.spark.session import EngineSpark, connect
from engine.session import Session
from tests.own_process import printed

THEIRS = {
    "spark.sql.session.timeZone": "Asia/Tokyo",
    "spark.sql.autoBroadcastJoinThreshold": "12345678",
    "spark.sql.shuffle.partitions": "37",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "77",
}


@pytest.fixture
def theirs(spark: SparkSession) -> Iterator[SparkSession]:
    """A session with settings and a view of its own."""
    made = spark.newSession()
    for key, value in THEIRS.items():
        made.conf.set(key, value)
    made.range(3).createOrReplaceTempView("mine")
    yield made


@pytest.mark.long
def test_a_session_that_is_handed_in_keeps_settings_and_views(tmp_path: Path, theirs: SparkSession) -> None:
    before = dict(theirs.conf.getAll)
    with Session((tmp_path / "store").as_uri(), theirs) as s:
        s.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, at TIMESTAMP, n INT)")
        s.sql("INSERT INTO t VALUES (1, TIMESTAMP'2024-01-01 00:00:00', 2), (2, NULL, 3)")
        s.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT date(at) AS day, sum(n) AS total FROM t GROUP BY date(at)"
        )
        s.sql("INSERT INTO t VALUES (3, TIMESTAMP'2024-01-01 23:00:00', 5)")
        s.sql("FLUSH")
        assert dict(theirs.conf.getAll) == before
        read = s.spark.read.format("tideline").option("store", s.url).load("v").orderBy("day").collect()
        assert [(str(row.day), row.total) for row in read] == [("None", 3), ("2024-01-01", 7)]  # of UTC
        s.spark.range(1).createOrReplaceTempView("ours")
        assert {row.tableName for row in theirs.sql("SHOW TABLES").collect()} == {"mine"}
    assert dict(theirs.conf.getAll) == before
    assert theirs.table("mine").count() == 3  # Spark goes on


def test_a_session_of_the_engine_is_shared_while_nobody_has_changed_it(theirs: SparkSession) -> None:
    own = connect(theirs)
    assert own is not theirs and connect(own) is own
    assert own.conf.get(CLASS_CACHE) == str(CLASSES)
    own.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    other = connect(own)
    assert other is not own
    assert own.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    assert other.conf.get("spark.sql.session.timeZone") == "UTC"


@pytest.mark.long
def test_sessions_on_several_sparks_and_settings_read_tables_beside_each_other(
    tmp_path: Path, spark: SparkSession, theirs: SparkSession
) -> None:
    url = (tmp_path / "store").as_uri()
    own: list[SparkSession] = []
    for given in (theirs, spark, theirs, spark.newSession()):
        with Session(url, given) as s:
            s.sql("CREATE TABLE IF NOT EXISTS t (id BIGINT PRIMARY KEY)")
            s.spark.createDataFrame(
                [(1,)], "a INT"
            ).count()  # from here on it is the active one of this thread
            assert s.spark.read.format("tideline").option("store", s.url).load("t").count() == 0
            own.append(s.spark)
    assert own[0] is own[2] and len({id(one) for one in own}) == 3


FOUND = """
import logging
import sys
import threading
from pyspark.sql import SparkSession
from engine.session import Session

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
theirs = builder.config("spark.sql.session.timeZone", "Asia/Tokyo").getOrCreate()
before = dict(theirs.conf.getAll)
warned = []
handler = logging.Handler()
handler.emit = warned.append
logging.getLogger("engine.runtime.spark.session").addHandler(handler)
for _ in range(2):
    with Session(sys.argv[1]) as s:
        assert s.spark is not theirs and s.spark.conf.get("spark.sql.session.timeZone") == "UTC"
        assert s.spark.createDataFrame([(1,)], "a int").count() == 1
assert dict(theirs.conf.getAll) == before
assert theirs.range(4).count() == 4
assert ["start it with spark.sql.codegen.cache.maxEntries=10000" in w.getMessage() for w in warned] == [True]
print("fine")
"""


@pytest.mark.long
def test_a_session_that_is_found_in_the_process_keeps_its_settings(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_REMOTE"}
    output = printed(FOUND, (tmp_path / "store").as_uri(), environment=environment)
    assert output.splitlines()[-1:] == ["fine"]


ASKED = """
import os, sys
from engine.session import Session

with Session(sys.argv[1], spark="local[1]") as s:
    assert s.spark.createDataFrame([(1,)], "a int").count() == 1
print("fine", os.environ["SPARK_REMOTE"])
"""


@pytest.mark.long
def test_a_master_that_is_asked_for_is_taken_though_the_environment_names_a_server(tmp_path: Path) -> None:
    named = {**os.environ, "SPARK_REMOTE": "sc://localhost:1"}
    output = printed(ASKED, (tmp_path / "store").as_uri(), environment=named)
    assert output.splitlines()[-1:] == ["fine sc://localhost:1"]


ENDLESS = "SELECT count(*) FROM range(0, 200000) a JOIN range(0, 200000) b ON (a.id * 7919 + b.id * 104729) % 1000003 < 3"


def test_jobs_with_a_mark_are_ended_and_no_others(spark: SparkSession) -> None:
    ended: list[Exception] = []

    def work() -> None:
        EngineSpark.of(spark).mark_jobs("ended")
        try:
            spark.sql(ENDLESS).collect()
        except Exception as error:
            ended.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    tracker = spark.sparkContext.statusTracker()
    while not tracker.getActiveJobsIds():
        thread.join(0.05)
    EngineSpark.of(spark).stop_jobs("another")
    thread.join(0.5)
    assert thread.is_alive()
    EngineSpark.of(spark).stop_jobs("ended")
    thread.join(60)
    (error,) = ended
    assert is_job_cancelled(error)
    assert not is_job_cancelled(ValueError("[SPARK_JOB_CANCELLED]"))


@pytest.mark.long
@pytest.mark.parametrize("own", [True, False])
def test_a_process_that_handles_interrupts_by_itself_goes_on_to(own: bool) -> None:
    script = f"""
import signal
signal.signal(signal.SIGINT, (lambda *_: None) if {own} else signal.default_int_handler)
before = signal.getsignal(signal.SIGINT)
from engine.runtime.spark.session import connect
connect("local[1]").stop()
print(signal.getsignal(signal.SIGINT) is before)
"""
    assert printed(script).strip() == str(own)


def test_a_text_is_what_it_says_and_no_setting(tmp_path: Path, spark: SparkSession) -> None:
    with Session((tmp_path / "s").as_uri(), spark) as session:
        session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")
        session.sql("INSERT INTO t VALUES (1)")
        for text in ("${spark.master}", "${env:HOME}", "${nobody}"):
            query = f"SELECT id, concat('{text}', upper(CAST(id AS STRING))) AS x FROM t WHERE '{text}' <> ''"
            assert session.sql(query).to_pylist() == [{"id": 1, "x": f"{text}1"}]

"""What a machine of a cluster lacks is told in one sentence; how real clusters say it is tried in tests/cluster."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.errors import EnvironmentNotReady
from engine.runtime.spark import probe
from engine.runtime.spark.probe import (
    MachineFindings,
    _format_failure,
    check_cluster,
    check_findings,
    compute_engine_digest,
)
from engine.runtime.spark.session import EngineSpark
from engine.session import Session

MASTER = "spark://10.1.2.3:7077"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def test_a_local_spark_is_not_asked(
    session: Session, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "_check_executors", lambda *_: pytest.fail("asked"))
    check_cluster(EngineSpark.of(spark), session.store)


def test_each_task_tells_what_its_machine_has(session: Session, spark: SparkSession, tmp_path: Path) -> None:
    with probe._provide_object(session.store) as made:  # the store is empty yet
        probe._check_executors(EngineSpark.of(spark), MASTER, session.url, made)
        assert session.store.objects.head(made) is not None
    assert session.store.objects.head(made) is None
    session.sql("CREATE TABLE t (id BIGINT)")
    with probe._provide_object(session.store) as newest:
        probe._check_executors(EngineSpark.of(spark), MASTER, session.url, newest)
        with pytest.raises(EnvironmentNotReady, match="a folder of this machine: take a bucket"):
            probe._check_executors(EngineSpark.of(spark), MASTER, (tmp_path / "elsewhere").as_uri(), newest)


def test_in_a_branch_that_nobody_has_written_to_an_object_of_its_own_is_looked_for(session: Session) -> None:
    session.sql("CREATE TABLE t (id BIGINT)")
    branch = session.store.create_branch("try")
    with Session(branch.url) as tried, probe._provide_object(tried.store) as made:
        assert f"/{made}".startswith("/branch/try/") and tried.store.objects.head(made) is not None
        assert not probe.ClusterProbe(tried.store.url, made)._find_fault()
    assert session.store.objects.head(made) is None


def test_a_cluster_is_asked_once_for_each_store(
    session: Session, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(probe, "is_local", lambda _: False)
    monkeypatch.setattr(probe, "_check_executors", lambda _spark, _master, store, _path: asked.append(store))
    monkeypatch.setattr(EngineSpark, "count_parallel_tasks", lambda _: 7)
    own = spark.newSession()
    for _ in range(2):
        check_cluster(EngineSpark.of(own), session.store)
    assert asked == [session.url]
    assert own.conf.get("spark.sql.shuffle.partitions") == "7"


@pytest.mark.parametrize(
    ("seen", "message"),
    [
        (
            MachineFindings("w1", "3.9", compute_engine_digest()),
            "executor on w1 of .* runs Python 3.9, and this process",
        ),
        (MachineFindings("w1", PYTHON, "0"), "another version of `engine` .*`tideline cluster pack"),
        (
            MachineFindings("w1", PYTHON, compute_engine_digest(), "Unable to locate credentials"),
            "cannot read the store s3://b/p",
        ),
    ],
)
def test_what_differs_is_told(seen: MachineFindings, message: str) -> None:
    with pytest.raises(EnvironmentNotReady, match=message):
        check_findings(seen, MASTER, "s3://b/p")


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("x\nModuleNotFoundError: No module named 'engine'", "engine is not in the Python of the executors"),
        ("No module named 'engine.runtime.spark.probe'", "or only another version of it is"),
        ('Cannot run program "./environment/bin/python": error=2', "no Python at ./environment/bin/python"),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.10 than that in driver: 3.11, PySpark",
            "run Python 3.10, and this process 3.11",
        ),
        ("[SPARK_JOB_CANCELLED] Job 0 cancelled", "no executor of .* within 9 s.* TIDELINE_EXECUTOR_SECONDS"),
        ("something new", r"cannot run a task \(something new\)"),
    ],
)
def test_what_spark_says_is_told_as_what_is_missing(said: str, message: str) -> None:
    error = type("Py4JError", (Exception,), {"__module__": "py4j.protocol"})(said)
    text = _format_failure(error, MASTER, 9.0)
    assert MASTER in text
    with pytest.raises(EnvironmentNotReady, match=message):
        raise EnvironmentNotReady(text)

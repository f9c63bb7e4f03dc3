"""Each kind of master is started with settings of its own, and nothing listens beyond loopback unless somebody says where."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from engine.errors import EnvironmentNotReady
from engine.jars import find_jar_paths
from engine.runtime.spark.masters import build_start_error, build_start_settings, check_answers, is_local

ELSEWHERE = "spark://10.1.2.3:7077"


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TIDELINE_DRIVER_HOST", "TIDELINE_DRIVER_BIND", "TIDELINE_PACKED", "PYSPARK_PYTHON"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2]", "local[2,4]"])
def test_a_local_spark_stays_on_loopback_whatever_is_said(
    master: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELINE_DRIVER_HOST", "10.9.9.9")
    monkeypatch.setenv("PYSPARK_PYTHON", "/usr/bin/python3")
    found = build_start_settings(master)
    assert is_local(master)
    assert found["spark.driver.host"] == found["spark.driver.bindAddress"] == "127.0.0.1"
    assert found["spark.authenticate"] == "true"
    assert "spark.driver.extraClassPath" in found and "spark.jars" not in found
    assert "spark.sql.execution.pyspark.python" not in found


@pytest.mark.parametrize(
    "master", [ELSEWHERE, "k8s://https://10.1.2.3:6443", "yarn", "local-cluster[2,1,1024]"]
)
def test_a_cluster_wants_to_know_where_its_executors_reach_the_driver(master: str) -> None:
    assert not is_local(master)
    with pytest.raises(EnvironmentNotReady, match=r"executors of .* set TIDELINE_DRIVER_HOST to an address"):
        build_start_settings(master)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_cluster_on_loopback_needs_nothing(host: str) -> None:
    found = build_start_settings(f"spark://{host}:7077")
    assert found["spark.driver.host"] == found["spark.driver.bindAddress"] == "127.0.0.1"


def test_one_master_of_several_beyond_loopback_is_beyond_loopback() -> None:
    with pytest.raises(EnvironmentNotReady, match="TIDELINE_DRIVER_HOST"):
        build_start_settings("spark://localhost:7077,10.1.2.3:7077")


def test_the_driver_binds_where_it_is_reached_or_where_it_is_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDELINE_DRIVER_HOST", "driver.example")
    found = build_start_settings(ELSEWHERE)
    assert found["spark.driver.host"] == found["spark.driver.bindAddress"] == "driver.example"
    assert found["spark.jars"] == ",".join(find_jar_paths()) and "spark.authenticate" not in found
    monkeypatch.setenv("TIDELINE_DRIVER_BIND", "0.0.0.0")
    found = build_start_settings(ELSEWHERE)
    assert (found["spark.driver.host"], found["spark.driver.bindAddress"]) == ("driver.example", "0.0.0.0")


def test_the_java_of_a_clusters_driver_optimises_late_and_has_no_archive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TIDELINE_DRIVER_HOST", "driver.example")
    options = build_start_settings(ELSEWHERE)["spark.driver.defaultJavaOptions"]
    assert "-XX:Tier4InvocationThreshold=" in options and "Archive" not in options


def test_kubernetes_hands_on_the_secret_that_it_makes_and_the_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDELINE_DRIVER_HOST", "driver.example")
    monkeypatch.setenv("TIDELINE_VERIFY", "0.5")
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/tideline/bin/python")
    found = build_start_settings("k8s://https://10.1.2.3:6443")
    assert found["spark.authenticate"] == "true"
    assert found["spark.sql.execution.pyspark.python"] == "/opt/tideline/bin/python"
    assert found["spark.executorEnv.TIDELINE_VERIFY"] == "0.5"


def test_the_python_of_an_archive_is_beside_the_executors(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TIDELINE_DRIVER_HOST", "driver.example")
    setting = "spark.sql.execution.pyspark.python"
    assert build_start_settings(ELSEWHERE)[setting] == sys.executable
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    assert build_start_settings(ELSEWHERE)[setting] == "/opt/python"
    packed = tmp_path / "environment.tar.gz"
    monkeypatch.setenv("TIDELINE_PACKED", str(packed))
    with pytest.raises(EnvironmentNotReady, match="tideline cluster pack"):
        build_start_settings(ELSEWHERE)
    packed.touch()
    found = build_start_settings(ELSEWHERE)
    assert found["spark.archives"] == f"{packed}#environment"
    assert found[setting] == "./environment/bin/python"
    assert build_start_settings(ELSEWHERE, serves=True)[setting] == "../environment/bin/python"
    monkeypatch.setenv("TIDELINE_PACKED", "s3a://bucket/environment.tar.gz")  # Spark fetches it
    assert build_start_settings(ELSEWHERE)["spark.archives"] == "s3a://bucket/environment.tar.gz#environment"


def test_a_master_that_does_not_answer_is_told_before_spark_tries() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens
        port = taken.getsockname()[1]
        with pytest.raises(
            EnvironmentNotReady, match=rf"no Spark master answers at spark://127.0.0.1:{port}"
        ):
            check_answers(f"spark://127.0.0.1:{port}")
        taken.listen()
        check_answers(f"spark://127.0.0.1:1,127.0.0.1:{port}")  # one of them is enough


@pytest.mark.parametrize("wrong", ["spark://", "spark://host", "spark://host:seven", "spark://a:1,b"])
def test_an_address_that_is_none_is_told(wrong: str) -> None:
    with pytest.raises(EnvironmentNotReady, match="spark://host:port"):
        check_answers(wrong)


@pytest.mark.parametrize("host", ["a..b", ".a", f"{'a' * 64}.b"])
def test_a_name_that_no_host_has_is_told_as_one_that_does_not_answer(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TIDELINE_DRIVER_HOST", raising=False)
    with pytest.raises(EnvironmentNotReady, match=f"no Spark master answers at spark://{host}"):
        check_answers(f"spark://{host}:7077")
    with pytest.raises(EnvironmentNotReady, match="set TIDELINE_DRIVER_HOST"):
        build_start_settings(f"spark://{host}:7077")


def test_what_a_cluster_said_is_told_in_one_line() -> None:
    error = RuntimeError(
        "An error occurred\n: org.apache.SparkException: Not the same version\n\tat a.b(c:1)"
    )
    message = str(build_start_error(ELSEWHERE, error))
    assert message.startswith(f"Spark was not started at {ELSEWHERE} (") and "Not the same version" in message
    assert "\n" not in message

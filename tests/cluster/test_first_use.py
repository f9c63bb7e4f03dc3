"""What a cluster lacks is one sentence at the first use of it, which names what it is and what to do now."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cluster.standalone import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
STORE = "s3://tideline/first-use"


def said(cluster: Cluster, packed: Path | None, store: str = STORE, more: Mapping[str, str] = {}) -> str:
    driver = cluster.drive("tests.cluster.first_use", store, packed=packed, more=more)
    out, _ = driver.communicate(timeout=200)
    assert driver.returncode == 0, cluster.driver.log()[-4000:]
    return out.decode().strip()


def test_a_cluster_that_has_all_is_ready(cluster: Cluster, packed: Path) -> None:
    assert said(cluster, packed).startswith("ready")


def test_executors_without_the_python_that_is_named(cluster: Cluster) -> None:
    output = said(cluster, None)  # by default it is where this process has it
    assert f"have no Python at {sys.executable}" in output and "tideline cluster pack" in output


def test_executors_without_the_engine(cluster: Cluster) -> None:
    output = said(cluster, None, more={"PYSPARK_PYTHON": os.path.realpath(sys.executable)})
    assert output.startswith("error: engine is not in the Python of the executors"), output
    assert "tideline cluster pack" in output


def test_executors_with_another_engine(cluster: Cluster, packed: Path, tmp_path: Path) -> None:
    unpacked = tmp_path / "environment"
    unpacked.mkdir()
    subprocess.run(["tar", "xzf", str(packed), "-C", str(unpacked)], check=True)
    with next(unpacked.glob("lib/*/site-packages/engine/jars.py")).open("a") as file:
        file.write("# changed since\n")
    other = cluster.network.folder / "other.tar.gz"
    subprocess.run(["tar", "czf", str(other), "-C", str(unpacked), "."], check=True)
    output = said(cluster, other)
    assert "has another version of `engine` than this process" in output


def test_a_store_in_a_folder_of_this_machine(cluster: Cluster, packed: Path) -> None:
    folder = cluster.network.folder / "store"
    output = said(cluster, packed, folder.as_uri())
    assert f"does not see the store {folder.as_uri()}, a folder of this machine: take a bucket" in output


def test_executors_that_the_bucket_refuses(cluster: Cluster, packed: Path) -> None:
    nowhere = {"spark.executorEnv.AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    with cluster.defaults(nowhere) as conf:
        output = said(cluster, packed, more={"SPARK_CONF_DIR": str(conf)})
    assert f"cannot read the store {STORE} (" in output and "access to the bucket" in output


def test_no_executor_that_fits(cluster: Cluster, packed: Path) -> None:
    with cluster.defaults({"spark.executor.memory": "200g"}) as conf:
        output = said(cluster, packed, more={"SPARK_CONF_DIR": str(conf), "TIDELINE_EXECUTOR_SECONDS": "5"})
    assert f"no executor of {cluster.master} has run a task within 5 s" in output


def test_executors_that_do_not_reach_the_driver(cluster: Cluster, packed: Path) -> None:
    more = {
        "TIDELINE_DRIVER_HOST": "127.0.0.1",  # which is another machine to each of them
        "TIDELINE_EXECUTOR_SECONDS": "10",
    }
    output = said(cluster, packed, more=more)
    assert output.startswith("error:") and "TIDELINE_DRIVER_HOST" in output


def test_no_master_at_the_address(cluster: Cluster, packed: Path) -> None:
    wrong = cluster.master.replace(":7077", ":7078")
    output = said(cluster, packed, more={"SPARK_REMOTE": wrong})
    assert f"no Spark master answers at {wrong}" in output and "start it, or name the right address" in output


def test_something_else_than_a_master_at_the_address(cluster: Cluster, packed: Path) -> None:
    other = f"spark://{cluster.s3.address}:5000"
    assert f"Spark was not started at {other}" in said(cluster, packed, more={"SPARK_REMOTE": other})


def test_an_address_of_the_driver_that_nobody_has_given(cluster: Cluster, packed: Path) -> None:
    output = said(cluster, packed, more={"TIDELINE_DRIVER_HOST": ""})
    assert "set TIDELINE_DRIVER_HOST" in output and f"such as {cluster.driver.address}" in output

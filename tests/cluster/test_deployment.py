"""The manifests, the image's entry point and Spark fit each other; none of it takes a cluster."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from engine.jars import find_pyspark_folder
from tests.cluster.machines import ROOT

DEPLOY = ROOT / "deploy"
VERSIONS = ("1.31.0", "1.37.0")
BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
OF_AN_EXECUTOR = {
    "SPARK_DRIVER_URL": "spark://driver:7078",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "4g",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.9",
    "SPARK_EXECUTOR_POD_NAME": "pod-3",
    "SPARK_RESOURCE_PROFILE_ID": "0",
}


def manifests() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))


def of_kind(kind: str) -> dict[str, Any]:
    return next(one for one in manifests() if one["kind"] == kind)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("manifest", manifests(), ids=lambda one: f"{one['kind']}-{one['metadata']['name']}")
def test_each_manifest_is_one_of_kubernetes(manifest: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(manifest, version, strict=True)


def test_a_manifest_that_is_wrong_is_told() -> None:
    wrong = of_kind("StatefulSet") | {"spek": {}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[-1], strict=True)


def test_the_parts_name_each_other() -> None:
    pods = of_kind("StatefulSet")["spec"]["template"]
    container = pods["spec"]["containers"][0]
    defaults = dict(
        line.split(" ", 1) for line in of_kind("ConfigMap")["data"]["spark-defaults.conf"].splitlines()
    )
    assert defaults["spark.kubernetes.container.image"] == container["image"]
    assert defaults["spark.kubernetes.driver.pod.name"] == f"{of_kind('StatefulSet')['metadata']['name']}-0"
    assert pods["metadata"]["labels"] == of_kind("StatefulSet")["spec"]["selector"]["matchLabels"]
    assert pods["spec"]["serviceAccountName"] == of_kind("ServiceAccount")["metadata"]["name"]
    given = {one["name"] for one in container["env"]}
    assert {"SPARK_REMOTE", "TIDELINE_DRIVER_HOST", "TIDELINE_STORE"} <= given
    user = re.search(r"^USER (\d+)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert user is not None and pods["spec"]["securityContext"]["runAsUser"] == int(user[1])


@pytest.fixture
def java(tmp_path: Path) -> Path:
    """A folder with a `java` that says what it was called with, an option of an argument file a line."""
    program = tmp_path / "java"
    program.write_text(
        '#!/bin/sh\nfor one in "$@"; do case $one in @*) cat "${one#@}";; *) echo "$one";; esac; done\n'
    )
    program.chmod(0o755)
    return tmp_path


def called(java: Path, *arguments: str, **more: str) -> list[str]:
    own = {
        "PATH": f"{java}{os.pathsep}{os.environ['PATH']}",
        "SPARK_HOME": "/spark",
        "TMPDIR": str(java),
        **OF_AN_EXECUTOR,
        **more,
    }
    words = [str(DEPLOY / "entrypoint.sh"), *arguments]
    return subprocess.run(words, env=own, capture_output=True, text=True, check=True).stdout.splitlines()


def test_an_executor_is_started_as_spark_says(java: Path) -> None:
    options = {"SPARK_JAVA_OPT_0": '-Dspark.a=b c"d', "SPARK_JAVA_OPT_1": "-Dspark.driver.port=7078"}
    said = called(java, "executor", **options)
    assert said[:4] == ['"-Dspark.a=b c\\"d"', '"-Dspark.driver.port=7078"', "-Xms4g", "-Xmx4g"]
    settings = dict(zip(said[said.index(BACKEND) + 1 :: 2], said[said.index(BACKEND) + 2 :: 2], strict=True))
    assert settings == {
        "--driver-url": "spark://driver:7078",
        "--executor-id": "3",
        "--cores": "2",
        "--app-id": "spark-1",
        "--hostname": "10.0.0.9",
        "--resourceProfileId": "0",
        "--podName": "pod-3",
    }


def test_sparks_own_executor_takes_these_options() -> None:
    script = (DEPLOY / "entrypoint.sh").read_text()
    jars = find_pyspark_folder() / "jars"
    done = subprocess.run(
        ["java", "-cp", f"{jars}/*", BACKEND, "--none"], capture_output=True, text=True, check=False
    )
    known = set(re.findall(r"--[\w-]+", done.stdout + done.stderr)) - {"--none"}
    assert set(re.findall(r"^ +(--[\w-]+) ", script, re.MULTILINE)) <= known


def test_anything_else_is_a_command(java: Path) -> None:
    assert called(java, "echo", "a b", "c") == ["a b c"]

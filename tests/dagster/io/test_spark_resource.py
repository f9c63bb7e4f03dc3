"""Which Spark a run takes: the resource's own, else what the environment names; a driver has one in its process."""

from __future__ import annotations

import pytest

from dagster_tideline.io.spark_resource import SparkResource

SERVER, CLUSTER = "sc://localhost:15002", "spark://10.0.0.2:7077"


@pytest.mark.parametrize(
    ("target", "remote", "taken"),
    [
        ("", "", "local[*]"),
        ("", SERVER, "local[*]"),
        (SERVER, "", "local[*]"),
        ("local[2]", SERVER, "local[2]"),
        (CLUSTER, "", CLUSTER),
        ("", CLUSTER, CLUSTER),
        (CLUSTER, SERVER, CLUSTER),
    ],
)
def test_a_driver_computes_in_its_process_or_on_the_cluster_that_is_named(
    target: str, remote: str, taken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_REMOTE", remote)
    assert SparkResource(target=target).in_process().address == taken

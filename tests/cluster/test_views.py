"""Views computed by two workers over a bucket equal a batch run, also when workers are killed and the bucket is away."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cluster.standalone import Cluster
from tests.cluster.trouble import Trouble

pytestmark = pytest.mark.cluster
SCALE, EPOCHS = os.environ.get("TIDELINE_TPCH_SCALE", "0.2"), "20"
VIEWS = os.environ.get("TIDELINE_RANDOM_VIEWS", "200")


@pytest.mark.timeout(600)
def test_a_small_session_equals_batch(cluster: Cluster, packed: Path) -> None:
    words = ("tests.cluster.small", "s3://tideline/small")
    driver = cluster.drive(*words, packed=packed, more={"TIDELINE_VERIFY": "1"})
    assert Trouble(cluster, kills=False).follow(driver) == 0, cluster.driver.log()[-6000:]
    logs = {name: machine.log() for name, machine in cluster.workers.items()}
    assert all("Launch command" in log for log in logs.values()), "a worker had no executor"


@pytest.mark.timeout(600)
def test_the_same_session_over_spark_connect_equals_batch(cluster: Cluster, packed: Path) -> None:
    client = cluster.network.machine("client")
    with cluster.connect_server(packed) as server:
        driver = cluster.drive(
            "tests.cluster.small",
            "s3://tideline/connected",
            packed=None,
            more={"SPARK_REMOTE": server},
            machine=client,
        )
        assert Trouble(cluster, kills=False).follow(driver) == 0, client.log()[-6000:]
        own = ("127.0.0.1", cluster.driver.address)
        strange = [place for place in cluster.driver.listeners() if not place.endswith(own)]
        assert not strange, "what runs on the driver's machine listens where nobody has said it may"


def run_in_trouble(cluster: Cluster, packed: Path, outage_at: int, module: str, *arguments: str) -> None:
    trouble = Trouble(cluster, outage_at)
    status = trouble.follow(cluster.drive(module, *arguments, packed=packed))
    assert status == 0, "\n".join([*trouble.lines[-40:], cluster.driver.log()[-6000:]])
    assert trouble.kills and trouble.outages == 1
    failed = [line for line in trouble.lines if line.startswith("failed")]
    lost = [line for line in failed if "store" not in line and "s3://" not in line]
    assert not lost, "an executor that is lost costs its tasks, not an epoch:\n" + "\n".join(lost)


@pytest.mark.timeout(1800)
def test_the_views_of_the_demo_are_right_whatever_befalls(troubled: Cluster, packed: Path) -> None:
    home = troubled.network.folder / "home"
    home.mkdir()
    run_in_trouble(troubled, packed, 6, "tests.cluster.flights", "s3://tideline/flights", str(home))


@pytest.mark.timeout(3 * 3600)
def test_the_views_of_tpch_are_right_whatever_befalls(troubled: Cluster, packed: Path) -> None:
    run_in_trouble(troubled, packed, 10, "tests.cluster.tpch_epochs", "s3://tideline/tpch", SCALE, EPOCHS)


@pytest.mark.timeout(3 * 3600)
def test_random_views_are_right_whatever_befalls(troubled: Cluster, packed: Path) -> None:
    away_at = int(VIEWS) // 5  # some of its worlds are over, and some are to come
    run_in_trouble(troubled, packed, away_at, "tests.cluster.worlds", "s3://tideline/worlds", "0", VIEWS)

"""What tasks of two workers write of large statements, of files in a bucket and of Delta tables there is right, workers killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.standalone import Cluster
from tests.cluster.trouble import Trouble
from tests.connectors.s3a import WITH_S3A

pytestmark = pytest.mark.cluster
BY_TASKS = {"TIDELINE_DRIVER_ROWS_MB": "0", "TIDELINE_LANDING_TASKS_MB": "1", "TIDELINE_VERIFY": "0.1"}


def run_with_workers_killed(cluster: Cluster, packed: Path, part: str) -> None:
    trouble = Trouble(cluster)
    words = ("tests.cluster.lake", f"s3://tideline/{part}", f"s3://lake/{part}", part)
    status = trouble.follow(cluster.drive(*words, packed=packed, more=BY_TASKS))
    assert status == 0, "\n".join([*trouble.lines[-40:], cluster.driver.log()[-6000:]])
    assert trouble.kills and trouble.lines[-1] == "equal"


@pytest.mark.timeout(1800)
def test_large_statements_and_files_that_land_in_a_bucket(troubled: Cluster, packed: Path) -> None:
    run_with_workers_killed(troubled, packed, "statements")


@WITH_S3A
@pytest.mark.timeout(1800)
def test_delta_tables_in_a_bucket_in_and_out(troubled: Cluster, packed: Path) -> None:
    run_with_workers_killed(troubled, packed, "delta")

"""Tasks of a Spark Connect server merge large compactions, on all of its cores but one: others use it, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.spark.conftest import said

CLIENT = """
import os, sys
import pyarrow as pa
from engine.hummock import Put
from engine.hummock.compaction import merging
from engine.runtime import compaction_tasks
from engine.runtime.spark.session import EngineSpark
from engine.session import Session

address, url = sys.stdin.readline().strip(), sys.stdin.readline().strip()
merging.TARGET_ROWS = 400
os.environ[compaction_tasks.SETTING] = "0"
CORES = None
if CORES is not None:
    EngineSpark.count_parallel_tasks = lambda spark: CORES
with Session(url, address) as session:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT)")
    for first in (0, 3000):
        session.write("t", pa.table({"id": range(first, first + 6000), "n": [first] * 6000}))
    before = session.store.metrics()
    session.compact("t")
    cost = session.store.metrics().since(before)
    print(cost.compactions, cost.driver_bytes["compaction t"] < 20_000, cost.requests.get("put", 0) > 4)
    print(session.sql("SELECT n, count(*) AS c FROM t GROUP BY n ORDER BY n").to_pylist())
"""
CONTENT = "[{'n': 0, 'c': 3000}, {'n': 3000, 'c': 6000}]"


@pytest.mark.long
def test_tasks_of_a_server_merge_large_compactions(address: str, tmp_path: Path) -> None:
    output = said(CLIENT.replace("CORES = None", "CORES = 4"), address, tmp_path)
    assert output.splitlines() == ["1 True True", CONTENT]


@pytest.mark.long
def test_a_server_of_three_cores_is_left_to_the_others(address: str, tmp_path: Path) -> None:
    output = said(CLIENT.replace("CORES = None", "CORES = 3"), address, tmp_path)
    assert output.splitlines()[0].startswith("1 False") and output.splitlines()[1] == CONTENT

"""A Spark that is stopped under a session is told as such; what needs none goes on without it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.errors import EnvironmentNotReady
from engine.runtime.spark import on_demand
from engine.session import Session
from tests.own_process import printed

STOPPED = """
import os, sys, threading
from pathlib import Path
import pyarrow as pa
from engine.errors import EnvironmentNotReady, StorageError
from engine.hummock.compaction import merging
from engine.runtime import compaction_tasks
from engine.runtime.compaction_tasks import SETTING, MergeRanges
from engine.runtime.spark.session import connect
from engine.session import Session

begun = Path(sys.argv[1]) / "begun"

class Waits(MergeRanges):
    def _merge_range(self, reader, number):
        begun.write_text("ends with the read at the other end")
        threading.Event().wait(60)

def stop_once_begun():
    begun.read_text()
    spark.stop()

os.mkfifo(begun)

os.environ[SETTING] = "0"
merging.TARGET_ROWS = 400
compaction_tasks.MergeRanges = Waits
spark = connect("local[3]")
session = Session((Path(sys.argv[1]) / "store").as_uri(), spark)
session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
for start in (0, 1000):
    session.write("t", pa.table({"id": range(start, start + 3000), "v": ["x" * 20] * 3000}), mode="upsert")
session.sql("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t", build=False)
session.computing
stopping = threading.Thread(target=stop_once_begun)
stopping.start()
try:
    session.compact("t")
except StorageError as error:
    print(error)
stopping.join()
try:
    session.flush()
except EnvironmentNotReady as error:
    print(error)
(report,) = session.compact("t")
print(report.done, report.rows_after)
"""


@pytest.mark.long
def test_a_spark_that_is_stopped_is_told_and_compactions_go_on_without_it(tmp_path: Path) -> None:
    midway, flushed, compacted = printed(STOPPED, str(tmp_path)).splitlines()
    assert midway.startswith("Spark's tasks could not compact table t, which is as it was: ")
    assert "was stopped: open another session" in flushed
    assert compacted == "True 4000"


def test_a_cluster_that_was_found_unfit_is_looked_at_again(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ["the executor does not see the store", "the executor does not see it yet"]

    def looked_at(_spark: SparkSession, _store: object) -> None:
        if found:
            raise EnvironmentNotReady(found.pop(0))

    monkeypatch.setattr(on_demand, "check_cluster", looked_at)
    with Session((tmp_path / "store").as_uri(), spark) as session:
        for _ in range(2):
            with pytest.raises(EnvironmentNotReady, match="does not see"):
                session.computing  # noqa: B018
        assert session.computing is not None

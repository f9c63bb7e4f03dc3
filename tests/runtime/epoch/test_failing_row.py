"""What is told of an epoch that fails on a row: the row, and the reason in words of what was written."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from engine.runtime.epoch.failing_row import SUM_TOO_LARGE
from engine.session import Session


def test_a_sum_past_bigint_is_told_as_a_sum(tmp_path: Path, spark: SparkSession) -> None:
    with Session((tmp_path / "store").as_uri(), spark, "postgres") as session:
        session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT)")
        session.sql("CREATE MATERIALIZED VIEW v AS SELECT id % 2 AS k, sum(n) AS s FROM t GROUP BY id % 2")
        session.sql(f"INSERT INTO t VALUES (2, {2**63 - 1}), (3, 7)")
        session.flush().raise_for_errors()
        session.sql("INSERT INTO t VALUES (4, 1)")
        (failed,) = session.flush().failed
        assert SUM_TOO_LARGE in str(failed.error)


def test_a_row_of_a_far_year_is_told(tmp_path: Path, spark: SparkSession) -> None:
    far = pa.array([253_402_300_800_000_000], pa.int64()).cast(pa.timestamp("us"))
    with Session((tmp_path / "store").as_uri(), spark) as session:
        session.sql("CREATE TABLE t (at TIMESTAMP_NTZ PRIMARY KEY, n INT)")
        session.sql("CREATE MATERIALIZED VIEW v AS SELECT at, 1 / n AS q FROM t")
        session.write("t", pa.table({"at": far, "n": pa.array([0], pa.int32())}), mode="insert")
        (failed,) = session.flush().failed
        assert "+10000-01-01 00:00:00" in str(failed.error)

"""A Delta table on S3 is followed by a Spark that has the file system s3a; S3A_JARS names a folder with its jars."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from engine.hummock.object_store import open_object_store
from tests.connectors.delta_tables import DeltaTable

JARS = os.environ.get("S3A_JARS", "")
pytestmark = [
    pytest.mark.s3,
    pytest.mark.skipif(not JARS, reason="S3A_JARS names no folder with hadoop-aws and the AWS SDK"),
]


@pytest.fixture
def s3a(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a Spark that is started from here on have the jars."""
    jars = ",".join(str(jar) for jar in sorted(Path(JARS).resolve().glob("*.jar")))
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(f"spark.jars {jars}\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))


def test_a_table_follows_a_delta_table_on_s3(
    s3a: None, spark: SparkSession, tmp_path: Path, s3_url: str
) -> None:
    there, bucket, put = DeltaTable(spark, tmp_path / "delta").make(), open_object_store(s3_url), set[Path]()

    def followed() -> Any:
        for file in sorted({f for f in there.path.rglob("*") if f.is_file() and f.suffix != ".crc"} - put):
            bucket.put(f"lake/{file.relative_to(there.path)}", file.read_bytes())
            put.add(file)
        store, place = (tmp_path / "store").as_uri(), f"{s3_url}/lake"
        command = [sys.executable, "-W", "ignore", "-m", "tests.connectors.delta_on_s3", store, place]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    there.insert("SELECT id, 'a' FROM range(100)")
    rows = [list(row) for row in there.rows()]
    assert followed() == [100, rows, ["0 rows were written"], [True] * 3]
    there.sql("UPDATE {} SET v = 'b' WHERE id < 10", "DELETE FROM {} WHERE id >= 90")
    rows = [list(row) for row in there.rows()]
    assert followed() == [20, rows, ["0 rows were written"], [True] * 3]

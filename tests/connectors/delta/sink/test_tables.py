"""The Delta tables that tests have delta-rs write are those that Spark would have written of the same statements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.connectors.delta_tables import DeltaTable, SparkDeltaTable

CHANGES = [
    "INSERT INTO {} (v, id, l) SELECT IF(id % 5 = 4, concat('v', NULL), concat('v', id % 3)), id, array(1.5D, NULL) FROM range(20)",
    "UPDATE {} SET v = concat(v, 'x'), id = id + 100 WHERE id < 5",
    "DELETE FROM {} WHERE id BETWEEN 7 AND 9",
    "MERGE INTO {} t USING (SELECT * FROM VALUES (10, 'm'), (11, 'm'), (50, NULL) AS s(id, v)) s ON t.id = s.id "
    "WHEN MATCHED AND s.id = 11 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v "
    "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)",
]
OTHERS = [
    "INSERT INTO {} SELECT id, IF(id = 0, NULL, id) FROM range(3)",
    "ALTER TABLE {} ADD COLUMN extra INT",
    "INSERT OVERWRITE {} (id, extra) VALUES (1, 1), (2, 2)",
    "RESTORE TABLE {} TO VERSION AS OF 1",
    "OPTIMIZE {}",
    "INSERT INTO {} (id) VALUES (7)",
]


def feed(spark: SparkSession, there: DeltaTable, last: int) -> list[tuple[Any, ...]]:
    """Return what Spark reads of the feed of a table up to a version, in order."""
    read = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0)
    found = read.option("endingVersion", last).load(str(there.path)).drop("_commit_timestamp")
    return sorted((tuple(row.values()) for row in found.toArrow().to_pylist()), key=repr)


@pytest.mark.long
def test_the_same_changes_make_the_same_rows_and_the_same_feed(spark: SparkSession, tmp_path: Path) -> None:
    found: list[object] = []
    for kind in (DeltaTable, SparkDeltaTable):
        there = kind(spark, tmp_path / kind.__name__).make("id BIGINT, v STRING, l ARRAY<DOUBLE>")
        there.sql(*CHANGES)
        found.append((DeltaTable(spark, there.path).rows(), feed(spark, there, len(CHANGES))))
    assert found[0] == found[1]


@pytest.mark.long
def test_columns_that_come_and_versions_that_are_written_over_or_restored_are_the_same(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = [kind(spark, tmp_path / kind.__name__).make() for kind in (DeltaTable, SparkDeltaTable)]
    for text in OTHERS:
        for there in tables:
            there.sql(text)
        assert tables[0].rows() == DeltaTable(spark, tables[1].path).rows()


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE {} RENAME COLUMN v TO w",
        "ALTER TABLE {} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "REORG TABLE {} APPLY (PURGE)",
    ],
)
def test_what_delta_rs_does_not_do_is_told(tmp_path: Path, spark: SparkSession, text: str) -> None:
    there = DeltaTable(spark, tmp_path / "delta").make()
    with pytest.raises(LookupError, match="needs Spark: use SparkDeltaTable") as caught:
        there.sql(text)
    assert text.format("there") in str(caught.value)
    with pytest.raises(LookupError, match="type VARIANT"):
        DeltaTable(spark, tmp_path / "other").make("id BIGINT, x VARIANT")

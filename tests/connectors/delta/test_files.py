"""A version's files are read as they are only where that gives the rows that Delta gives."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import WriterProperties, write_deltalake
from pyspark.sql import SparkSession

from engine.connectors.delta import files, source
from engine.connectors.delta.files import FileSplit, plan_splits
from engine.connectors.delta.log import Metadata
from engine.runtime.writes import key_order
from engine.session import Session
from tests.connectors.delta_tables import FEED, DeltaTable, SparkDeltaTable, follow, held, poll

WIDE = (
    "id BIGINT, k STRING, b BOOLEAN, t TINYINT, s SMALLINT, i INT, f FLOAT, d DOUBLE, m DECIMAL(10, 2), w DECIMAL(30, 5), "
    "day DATE, at TIMESTAMP, here TIMESTAMP_NTZ, raw BINARY, l ARRAY<STRING>, p MAP<STRING, INT>, n STRUCT<a: INT, b: STRING>"
)
MANY = 600


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[tuple[FileSplit, ...] | None]:
    """All rows are packed; tells what was read of the files, None for what Spark has read."""
    monkeypatch.setattr(key_order, "PACKED_FROM", 0)
    seen: list[tuple[FileSplit, ...] | None] = []

    def record_splits(*given: Any) -> tuple[FileSplit, ...] | None:
        seen.append(plan_splits(*given))
        return seen[-1]

    monkeypatch.setattr(source, "plan_splits", record_splits)
    return seen


@pytest.fixture
def there(spark: SparkSession, tmp_path: Path) -> DeltaTable:
    return DeltaTable(spark, tmp_path / "delta")


@pytest.fixture
def by_spark(spark: SparkSession, tmp_path: Path) -> SparkDeltaTable:
    return SparkDeltaTable(spark, tmp_path / "delta")


def wide(part: int) -> str:
    """Return rows of every type: nulls, NaN, days and times before the Gregorian calendar and after all others."""
    at = f"({part} * {MANY} + id)"
    return (
        f"SELECT {at}, IF(id % 5 = 0, concat('k ', id % 7), concat('key ', {at})), id % 2 = 0, id % 100, id % 1000, id, "
        "IF(id % 9 = 0, CAST('NaN' AS FLOAT), id / 3), IF(id % 9 = 1, -0.0D, id / 7), id / 4, id * 123456789.12345, "
        "date_add(DATE'0001-01-01', CAST(id * 6000 AS INT)), "
        "IF(id % 11 = 0, TIMESTAMP'0001-01-01 00:00:00.000001', IF(id % 11 = 1, TIMESTAMP'9999-12-31 23:59:59.999999', "
        "timestamp_micros(id * 1000003))), IF(id % 4 = 0, NULL, TIMESTAMP_NTZ'1500-02-28 01:02:03.000004'), "
        "CAST(concat('b', id) AS BINARY), array('x', NULL), map('k', CAST(id AS INT)), named_struct('a', CAST(id AS INT), 'b', 'c') "
        f"FROM range({MANY})"
    )


def texts() -> list[str]:
    names = [
        column.split(" ")[0]
        for column in WIDE.split(", ")
        if not column.startswith(("2)", "5)", "b:", "INT>"))
    ]
    return [f"CAST({'hex(raw)' if name == 'raw' else name} AS STRING)" for name in names]


@pytest.mark.long
def test_rows_of_every_type_are_what_spark_reads(
    session: Session, by_spark: SparkDeltaTable, read: list[tuple[FileSplit, ...] | None]
) -> None:
    there = by_spark
    there.make(WIDE)
    there.insert(wide(0))
    there.insert(wide(1))
    there.sql("UPDATE {} SET k = 'changed', d = d + 1 WHERE id % 10 = 3", "DELETE FROM {} WHERE id % 10 = 4")
    session.sql(f"CREATE TABLE t (PRIMARY KEY (id, k)) WITH (connector = 'delta', path = '{there.path}')")
    report = poll(session)
    assert read[0] is not None and len(read[0]) >= 2
    assert (report.rows, report.dead_rows) == (2 * MANY * 9 // 10, 0)
    assert held(session, columns=", ".join(texts())) == there.rows(texts())


@pytest.mark.long
def test_keys_that_are_null_or_stand_twice_are_set_aside(
    session: Session, there: DeltaTable, read: list[tuple[FileSplit, ...] | None]
) -> None:
    there.make()
    there.insert("VALUES (1, 'a'), (NULL, 'null'), (2, 'b'), (2, 'c'), (2, 'c')")
    there.insert("VALUES (2, 'a'), (3, 'x')")
    follow(session, there)
    assert poll(session).dead_rows == 4
    assert read[0] is not None
    assert held(session) == [(1, "a"), (2, "c"), (3, "x")]


def legacy(there: SparkDeltaTable) -> None:
    there.make("id BIGINT, day DATE")
    there.spark.conf.set("spark.sql.parquet.datetimeRebaseModeInWrite", "LEGACY")
    try:
        there.insert("SELECT id, DATE'1500-01-01' FROM range(50)")
    finally:
        there.spark.conf.unset("spark.sql.parquet.datetimeRebaseModeInWrite")


def vectors(there: SparkDeltaTable) -> None:
    there.make(properties=f"{FEED}, 'delta.enableDeletionVectors' = 'true'")
    there.insert("SELECT /*+ COALESCE(1) */ id, 'a' FROM range(50)")
    there.sql("DELETE FROM {} WHERE id = 7")


def vectors_that_are_off(there: SparkDeltaTable) -> None:
    vectors(there)
    there.sql("ALTER TABLE {} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')")


def mapped(there: SparkDeltaTable) -> None:
    there.make(properties="'delta.columnMapping.mode' = 'name'")
    there.insert("SELECT id, 'a' FROM range(50)")
    there.sql("ALTER TABLE {} RENAME COLUMN v TO w", "ALTER TABLE {} ADD COLUMN v STRING")
    there.sql("INSERT INTO {} (id, v) VALUES (99, 'v')")


def partitioned(there: DeltaTable) -> None:
    there.make(partitioned="v")
    there.insert("SELECT id, IF(id % 3 = 0, NULL, id % 3) FROM range(50)")


def wider(there: DeltaTable) -> None:
    there.make("id BIGINT")
    there.insert("SELECT id FROM range(50)")
    there.sql("ALTER TABLE {} ADD COLUMN v STRING", "INSERT INTO {} VALUES (99, 'v')")


def padded(there: SparkDeltaTable) -> None:
    there.make("id BIGINT, v CHAR(5)")
    there.insert("SELECT id, 'ab' FROM range(50)")


@pytest.mark.long
@pytest.mark.parametrize(
    ("make", "kind"),
    [
        pytest.param(legacy, SparkDeltaTable, marks=pytest.mark.long),
        (vectors_that_are_off, SparkDeltaTable),
        pytest.param(mapped, SparkDeltaTable, marks=pytest.mark.long),
        (partitioned, DeltaTable),
        (wider, DeltaTable),
        pytest.param(padded, SparkDeltaTable, marks=pytest.mark.long),
    ],
    ids=lambda one: one.__name__,
)
def test_what_files_do_not_tell_is_read_by_spark(
    session: Session,
    spark: SparkSession,
    tmp_path: Path,
    read: list[tuple[FileSplit, ...] | None],
    make: Callable[[DeltaTable], None],
    kind: type[DeltaTable],
) -> None:
    there = kind(spark, tmp_path / "delta")
    make(there)
    session.sql(f"CREATE TABLE t (PRIMARY KEY (id)) WITH (connector = 'delta', path = '{there.path}')")
    poll(session)
    assert read == [None]
    assert held(session) == there.rows()


@pytest.mark.long
def test_a_table_that_lost_all_vectors_is_read_from_its_files(
    session: Session, by_spark: SparkDeltaTable, read: list[tuple[FileSplit, ...] | None]
) -> None:
    there = by_spark
    vectors(there)
    there.sql("REORG TABLE {} APPLY (PURGE)")
    follow(session, there)
    poll(session)
    assert read[0] is not None
    assert held(session) == there.rows()


@pytest.mark.long
def test_large_files_are_split_by_row_groups(
    session: Session,
    there: DeltaTable,
    read: list[tuple[FileSplit, ...] | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there.make()
    many = range(20_000)
    rows = pa.table({"id": many, "v": [hashlib.sha256(b"%d" % n).hexdigest() for n in many]})
    groups = WriterProperties(max_row_group_size=1_000)
    write_deltalake(there.path, rows, mode="append", writer_properties=groups)
    monkeypatch.setattr(files, "SPLIT_BYTES", 1 << 17)
    follow(session, there)
    poll(session)
    assert read[0] is not None and len(read[0]) > 3 and len({split.path for split in read[0]}) == 1
    assert held(session) == there.rows()


@pytest.mark.parametrize(
    ("said", "plain"),
    [
        ({}, True),
        ({"org.apache.spark.version": "4.2.0"}, True),
        ({"org.apache.spark.version": "3.0.1"}, False),
        ({"org.apache.spark.version": "2.4.8"}, False),
        ({"org.apache.spark.version": "of my own"}, False),
        ({"org.apache.spark.version": "4.2.0", "org.apache.spark.legacyDateTime": ""}, False),
        ({"org.apache.spark.version": "4.2.0", "org.apache.spark.legacyINT96": ""}, False),
    ],
)
def test_who_wrote_a_file_tells_how_it_counts_days(
    session: Session, tmp_path: Path, said: dict[str, str], plain: bool
) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "v": ["a", "b"]})
    with pq.ParquetWriter(tmp_path / "a b.parquet", rows.schema, store_schema=False) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata(said)
    file = f"file:{tmp_path}/a%20b.parquet"
    relation, columns = session.catalog.get("t"), {"id": "id", "v": "v"}
    metadata = Metadata("x")
    found = plan_splits(relation, metadata, columns, [file], 2)
    assert (found is not None) == plain
    assert plan_splits(relation, metadata, columns, [file], 1) is None
    assert plan_splits(relation, metadata, columns, ["s3a://bucket/a.parquet"], 2) is None
    assert plan_splits(relation, metadata, columns, [file + "x"], 2) is None
    assert plan_splits(relation, metadata, {"id": "id", "v": "w"}, [file], 2) is None

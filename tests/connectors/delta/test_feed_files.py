"""Change data feeds read by Arrow: as Spark reads them, for any plain type, and left to Spark where more is asked of a reader."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from engine.connectors.delta import feed_files
from engine.connectors.delta.feed_files import read_feed_files
from engine.connectors.delta.frames import match_delta_columns, open_read_session, read_feed_changes
from engine.connectors.delta.steps import DeltaPosition, DeltaStep, plan_next_step, plan_snapshot
from engine.session import Session
from tests.connectors.delta_tables import DeltaTable, SparkDeltaTable, follow, held, poll, source
from tests.long_rest import mark_rest_long

VALUES = {
    "b TINYINT": ["-128", "127"],
    "h SMALLINT": ["-32768", "32767"],
    "i INT": ["-2147483648", "2147483647"],
    "l BIGINT": ["-9223372036854775808", "9223372036854775807"],
    "f FLOAT": ["float('NaN')", "float('-0.0')", "float('-Infinity')", "float(1.1)"],
    "d DOUBLE": ["double('NaN')", "double('-0.0')", "double('Infinity')", "4.9E-324D"],
    "o BOOLEAN": ["TRUE", "FALSE"],
    "s STRING": ["''", "'a\\u0000b'", "'größe'", "repeat('x', 9000)"],
    "x BINARY": ["X''", "X'00FF'"],
    "t DATE": ["DATE'0001-01-01'", "DATE'1582-10-04'", "DATE'9999-12-31'"],
    "u TIMESTAMP": [
        "TIMESTAMP'0001-01-01 00:00:00.000001Z'",
        "TIMESTAMP'1600-02-29 12:00:00Z'",
        "TIMESTAMP'9999-12-31 23:59:59.999999Z'",
    ],
    "n TIMESTAMP_NTZ": ["TIMESTAMP_NTZ'0001-01-01 00:00:00'", "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'"],
    "p DECIMAL(5, 2)": ["-999.99", "0.01"],
    "q DECIMAL(18, 0)": ["999999999999999999", "-1"],
    "r DECIMAL(38, 10)": ["-9999999999999999999999999999.9999999999", "0"],
    "g ARRAY<DOUBLE>": ["array(double('NaN'), NULL, 1.5D)", "array()"],
    "m MAP<STRING, BIGINT>": ["map('k', 1, 'l', NULL)", "map()"],
    "e STRUCT<a: INT, c: ARRAY<STRING>>": ["named_struct('a', 1, 'c', array('x', NULL))"],
}
NESTED_TIMES = {"w ARRAY<TIMESTAMP>": ["array(TIMESTAMP'1600-01-01 00:00:00Z')", "array()"]}
ROWS = "SELECT id, 'a' AS v FROM range(20)"


def make(spark: SparkSession, folder: Path, columns: str, **said: str) -> DeltaTable:
    return SparkDeltaTable(spark, folder / "delta").make(columns=columns, **said)


def random_row(rng: random.Random, values: Mapping[str, list[str]]) -> str:
    return ", ".join(
        f"CAST({rng.choice([*them, 'NULL'])} AS {one.partition(' ')[2]})" for one, them in values.items()
    )


class Reader:
    """Reads what a table's source would take next, by both ways."""

    def __init__(self, session: Session) -> None:
        self.session, self.source = session, source(session)
        self.at: DeltaPosition = plan_snapshot(self.source.log, "snapshot").then

    def plan(self) -> DeltaStep:
        """Return what comes next, which is behind this from now on."""
        step = plan_next_step(self.source.log, "t", self.at)
        assert step is not None
        self.at = step.then
        return step

    def by_arrow(self, step: DeltaStep, most: int = 10_000) -> pa.Table | None:
        relation = self.source.relation
        columns = match_delta_columns(relation, step.then.metadata, self.source.place)
        return read_feed_files(self.source.log, relation, step, columns, most)

    def by_spark(self, step: DeltaStep) -> pa.Table:
        relation, place = self.source.relation, self.source.place
        columns = match_delta_columns(relation, step.then.metadata, place)
        with open_read_session(lambda: self.session.computing, "t", place) as read:
            return read_feed_changes(read, relation, step, place, columns).toArrow()


def bag(rows: pa.Table) -> Counter[str]:
    return Counter(map(repr, rows.to_pylist()))


@contextmanager
def julian_times(spark: SparkSession) -> Iterator[None]:
    """Let Spark write days as Spark 2 did."""
    names = [f"spark.sql.parquet.{one}RebaseModeInWrite" for one in ("datetime", "int96")]
    for name in names:
        spark.conf.set(name, "LEGACY")
    try:
        yield
    finally:
        for name in names:
            spark.conf.unset(name)


@pytest.mark.parametrize("times", mark_rest_long(["INT96", "TIMESTAMP_MICROS"]))
@pytest.mark.parametrize("seed", mark_rest_long(range(1, 4)))
def test_any_plain_value_is_read_as_spark_reads_it(
    session: Session, spark: SparkSession, tmp_path: Path, times: str, seed: int
) -> None:
    rng = random.Random(seed)
    values = VALUES | (NESTED_TIMES if times == "TIMESTAMP_MICROS" else {})
    spark.conf.set("spark.sql.parquet.outputTimestampType", times)
    try:
        there = make(spark, tmp_path, f"id BIGINT, {', '.join(values)}")
        follow(session, there, f"id BIGINT PRIMARY KEY, {', '.join(values)}")
        reader = Reader(session)
        for _ in range(2):
            inserted = ", ".join(f"({rng.randrange(30)}, {random_row(rng, values)})" for _ in range(12))
            there.insert(f"VALUES {inserted}")
            name, _, kind = rng.choice([*values]).partition(" ")
            value = rng.choice([*values[f"{name} {kind}"], "NULL"])
            there.sql(f"UPDATE {{}} SET {name} = CAST({value} AS {kind}) WHERE id % 3 = 0")
            there.sql(f"DELETE FROM {{}} WHERE id % 7 = {rng.randrange(7)}")
        step = reader.plan()
        found = reader.by_arrow(step)
    finally:
        spark.conf.unset("spark.sql.parquet.outputTimestampType")
    assert found is not None and found.num_rows > 24
    expected = reader.by_spark(step).cast(found.schema)
    assert bag(found) == bag(expected)
    assert poll(session).error is None
    keys = [row[0] for row in held(session, columns="id")]
    assert len(keys) == len(set(keys)) > 3


@pytest.mark.parametrize(
    "statement",
    mark_rest_long(
        [
            "MERGE INTO {} t USING (SELECT id, 'm' AS v FROM range(15, 25)) s ON t.id = s.id "
            "WHEN MATCHED AND s.id = 16 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *",
            "MERGE INTO {} t USING (SELECT id, 'm' AS v FROM range(15, 25)) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
            "INSERT INTO {} SELECT id, 'i' AS v FROM range(100, 103)",
            "UPDATE {} SET v = NULL WHERE id = 3",
            "DELETE FROM {} WHERE id < 4",
        ],
    ),
)
def test_statements_of_spark_need_no_spark_here(
    session: Session, spark: SparkSession, tmp_path: Path, statement: str
) -> None:
    there = make(spark, tmp_path, "id BIGINT, v STRING")
    there.insert(ROWS)
    follow(session, there)
    reader = Reader(session)
    there.sql(statement, "OPTIMIZE {}", "ALTER TABLE {} SET TBLPROPERTIES ('mine' = '1')", statement)
    step = reader.plan()
    found = reader.by_arrow(step)
    assert found is not None and found.num_rows > 0
    assert bag(found) == bag(reader.by_spark(step))
    assert reader.by_arrow(step, most=found.num_rows - 1) is None


@pytest.mark.parametrize(
    ("columns", "said", "statement"),
    mark_rest_long(
        [
            ("id BIGINT, v STRING", {}, "DELETE FROM {}"),
            ("id BIGINT, v STRING", {}, "INSERT OVERWRITE {} SELECT id, 'o' FROM range(3)"),
            (
                "id BIGINT, v STRING",
                {
                    "properties": "'delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'true'"
                },
                "DELETE FROM {} WHERE id = 3",
            ),
            ("id BIGINT, v STRING", {"partitioned": "v"}, "INSERT INTO {} VALUES (50, 'p')"),
            (
                "id BIGINT, v STRING",
                {"properties": "'delta.enableChangeDataFeed' = 'true', 'delta.columnMapping.mode' = 'name'"},
                "INSERT INTO {} VALUES (50, 'p')",
            ),
            ("id BIGINT, v VARCHAR(5)", {}, "INSERT INTO {} VALUES (50, 'p')"),
        ]
    ),
)
def test_what_asks_more_of_a_reader_is_left_to_spark(
    session: Session, spark: SparkSession, tmp_path: Path, columns: str, said: dict[str, str], statement: str
) -> None:
    there = make(spark, tmp_path, columns, **said)
    there.insert(ROWS)
    follow(session, there)
    assert poll(session).rows == 20
    reader = Reader(session)
    there.sql(statement)
    step = reader.plan()
    has_vector = "DeletionVectors" in said.get("properties", "")
    found = reader.by_arrow(step)
    assert found is None or (has_vector and bag(found) == bag(reader.by_spark(step)))
    assert poll(session).error is None
    assert held(session) == there.rows()


@pytest.mark.long
def test_nested_times_of_96_bits_are_left_to_spark(
    session: Session, spark: SparkSession, tmp_path: Path
) -> None:
    there = make(spark, tmp_path, "id BIGINT, w ARRAY<TIMESTAMP>")
    follow(session, there, "id BIGINT PRIMARY KEY, w ARRAY<TIMESTAMP>")
    reader = Reader(session)
    there.insert("VALUES (1, array(TIMESTAMP'9999-03-01 00:00:00Z'))")
    assert reader.by_arrow(reader.plan()) is None
    poll(session)
    texts = ("id", "CAST(w[0] AS STRING) AS w")
    assert held(session, columns=", ".join(texts)) == there.rows(texts)


def test_days_of_another_calendar_are_left_to_spark(
    session: Session, spark: SparkSession, tmp_path: Path
) -> None:
    there = make(spark, tmp_path, "id BIGINT, t DATE, u TIMESTAMP")
    follow(session, there, "id BIGINT PRIMARY KEY, t DATE, u TIMESTAMP")
    reader = Reader(session)
    with julian_times(spark):
        there.insert("VALUES (1, DATE'1500-03-01', TIMESTAMP'1500-03-01 00:00:00Z')")
    step = reader.plan()
    assert reader.by_arrow(step) is None
    poll(session)
    texts = ("id", "t", "CAST(u AS STRING) AS u")
    assert held(session, columns=", ".join(texts)) == there.rows(texts)


def test_files_of_delta_rs_are_read(session: Session, spark: SparkSession, tmp_path: Path) -> None:
    there = DeltaTable(spark, tmp_path / "delta").make("id BIGINT, v STRING, x BINARY, u TIMESTAMPTZ")
    there.insert("SELECT id, 'a', NULL, TIMESTAMPTZ'2026-01-01 00:00:00Z' FROM range(20)")
    follow(session, there, "id BIGINT PRIMARY KEY, v STRING, x BINARY, u TIMESTAMP")
    reader = Reader(session)
    there.sql("UPDATE {} SET v = 'b' WHERE id < 5", "DELETE FROM {} WHERE id = 7")
    step = reader.plan()
    found = reader.by_arrow(step)
    assert found is not None and found.num_rows == 11
    assert bag(found) == bag(reader.by_spark(step).cast(found.schema))
    poll(session)
    assert held(session, columns="id, v") == there.rows(("id", "v"))


def test_many_files_are_left_to_spark(
    session: Session, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = DeltaTable(spark, tmp_path / "delta").make()
    follow(session, there)
    reader = Reader(session)
    for n in range(3):
        there.insert(f"VALUES ({n}, 'a')")
    step = reader.plan()
    assert len(step.commits) == 3 and reader.by_arrow(step) is not None
    monkeypatch.setattr(feed_files, "MOST_FILES", 2)
    assert reader.by_arrow(step) is None


def test_what_cannot_be_read_is_left_to_spark(session: Session, spark: SparkSession, tmp_path: Path) -> None:
    there = make(spark, tmp_path, "id BIGINT, v STRING")
    follow(session, there)
    reader = Reader(session)
    there.insert("VALUES (1, 'a')")
    step = reader.plan()
    assert reader.by_arrow(step) is not None
    (file,) = (tmp_path / "delta").glob("*.parquet")
    rows = pq.read_table(file)
    for other in (
        rows.drop_columns(["v"]),
        rows.set_column(1, "v", pa.array([{"a": 1}])),
        rows.set_column(0, "id", rows["id"].cast(pa.int32())),
        pa.table({"id": rows["id"], "v": pa.array([b"\xff"], pa.binary()).view(pa.string())}),
    ):
        pq.write_table(other, file)
        assert reader.by_arrow(step) is None
    file.write_bytes(b"no file of rows")
    assert reader.by_arrow(step) is None
    file.unlink()
    assert reader.by_arrow(step) is None


def test_a_small_change_of_a_feed_asks_for_no_spark(
    session: Session, spark: SparkSession, tmp_path: Path
) -> None:
    there = make(spark, tmp_path, "id BIGINT, v STRING")
    there.insert(ROWS)
    follow(session, there)
    poll(session)
    there.sql("UPDATE {} SET v = 'b' WHERE id < 3", "DELETE FROM {} WHERE id = 7")

    def refuse() -> SparkSession:
        raise AssertionError("Spark was asked for")

    assert source(session).poll(refuse).rows == 4
    assert held(session) == there.rows()


def test_change_files_say_what_each_row_is(
    session: Session, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = make(spark, tmp_path, "id BIGINT, v STRING")
    there.insert(ROWS)
    follow(session, there)
    reader = Reader(session)
    there.sql("UPDATE {} SET v = 'b' WHERE id < 3")
    step = reader.plan()
    assert reader.by_arrow(step) is not None
    monkeypatch.setattr(feed_files, "_COMES", pa.array(["insert"]))  # a kind of change that is not known
    assert reader.by_arrow(step) is None

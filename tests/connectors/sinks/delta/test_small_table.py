"""Few changes of a small table are written without Spark, and the table is what Spark's MERGE would make of it."""

from __future__ import annotations

import datetime
import os
import random
import time
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake.exceptions import DeltaError

from engine.connectors.delta.sink import small_table
from engine.connectors.delta.sink.small_table import SmallTable
from engine.errors import Conflict
from engine.log_store.changes import DELETE, UPDATE
from engine.session import Session
from engine.sql.catalog import RelationColumn
from tests.connectors.sinks.delta.logs import actions, rows_by_spark, versions
from tests.connectors.sinks.delta.test_rows import brought, content, created
from tests.long_rest import mark_rest_long

UTC = datetime.UTC
FAR = datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)
COLUMNS = [RelationColumn("id", "bigint"), RelationColumn("v", "string")]


def writers(table: Path) -> list[str]:
    """Return which engine has made each commit, by the first word of its name."""
    engines = [one["commitInfo"]["engineInfo"] for one in actions(table) if "commitInfo" in one]
    return ["Spark" if "Spark" in engine else "delta-rs" for engine in engines]


def build_changes(*changes: tuple[int, int | None, str | None]) -> pa.Table:
    codes, ids, values = zip(*changes, strict=True)
    return pa.table(
        {
            "op": pa.array(codes, pa.int8()),
            "c0": pa.array(ids, pa.int64()),
            "c1": pa.array(values, pa.string()),
        }
    )


def open_small(session: Session, target: Path) -> SmallTable:
    found = SmallTable.open(target.as_uri(), COLUMNS, session.catalog.get("s").options["app"])
    assert found is not None
    return found


@pytest.fixture
def target(session: Session, tmp_path: Path) -> Path:
    """A sink's table of three rows."""
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
    session.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    created(session, f"CREATE SINK s FROM t WITH (connector = 'delta', path = '{tmp_path}/t')")
    brought(session)
    return tmp_path / "t"


@pytest.mark.parametrize("most_bytes", [small_table.MOST_BYTES, pytest.param(-1, marks=pytest.mark.long)])
def test_both_ways_keep_the_same_rows(
    session: Session, spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_bytes: int
) -> None:
    monkeypatch.setattr(small_table, "MOST_BYTES", most_bytes)
    chance, target = random.Random(most_bytes), tmp_path / "a ä#?+"
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, a BIGINT, b STRING, n BIGINT)")
    session.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT a, b, sum(n) AS `order`, min(n) AS c0, min(id) AS _c0, max(b) AS op FROM t GROUP BY a, b"
    )
    created(session, f"CREATE SINK s FROM v WITH (connector = 'delta', path = '{target}')")
    for _ in range(4):
        ids = chance.sample(range(40), 12)
        drawn = {
            "id": pa.array(ids, pa.int64()),
            "a": pa.array([chance.choice([None, 1, 2]) for _ in ids], pa.int64()),
            "b": pa.array([chance.choice([None, "", "x'", '"y']) for _ in ids], pa.string()),
            "n": pa.array([chance.choice([None, 1, 2, 3]) for _ in ids], pa.int64()),
        }
        session.write("t", pa.table(drawn))
        session.write("t", pa.table({"id": pa.array(ids[:5], pa.int64())}), mode="delete")
        brought(session)
        assert rows_by_spark(spark, target) == content(session, "v")
    assert set(writers(target)[1:]) == {"Spark" if most_bytes < 0 else "delta-rs"}


def test_every_type_arrives_as_it_is_and_is_found(session: Session, spark, tmp_path: Path) -> None:
    session.sql(
        "CREATE TABLE t (id BIGINT PRIMARY KEY, ok BOOLEAN, ti TINYINT, si SMALLINT, i INT, f FLOAT, d DOUBLE, m DECIMAL(38, 10), "
        "few DECIMAL(9, 2), at TIMESTAMP, wall TIMESTAMP_NTZ, day DATE, raw BINARY, l ARRAY<DOUBLE>, k MAP<STRING, INT>, "
        "n STRUCT<a: DOUBLE, b: STRING>, text STRING)"
    )
    created(session, f"CREATE SINK s FROM t WITH (connector = 'delta', path = '{tmp_path}/t')")
    brought(session)
    names = [column.name for column in session.catalog.get("t").visible_columns]
    session.sql("INSERT INTO t (id) VALUES (0)")
    brought(session)
    nan, long = float("nan"), "é" * 100
    large = Decimal("1234567890123456789012345678.0123456789")
    day, wall = datetime.date(9999, 12, 31), datetime.datetime(1, 1, 1, 0, 0, 0, 1)
    at = datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)
    values = [
        [1, True, -128, 32767, -(2**31), nan, nan, large, Decimal("-1234567.89"), at, FAR, day, b"\0\xff",
         [nan, None], [("x", None)], {"a": nan, "b": None}, long],
        [2, False, 127, -32768, 2**31 - 1, -0.0, float("-inf"), -large, Decimal("0.01"),
         datetime.datetime(1582, 10, 10, 0, 0, 0, 1, UTC), wall, datetime.date(1582, 10, 10), b"", [], [],
         {"a": -0.0, "b": long}, ""],
    ]  # fmt: skip
    schema = session.sql("SELECT * FROM t LIMIT 0").schema
    drawn = zip(*values, strict=True)
    arrays = [pa.array(column, schema.field(name).type) for name, column in zip(names, drawn, strict=True)]
    session.write("t", pa.table(arrays, names=names))
    brought(session)
    assert rows_by_spark(spark, tmp_path / "t") == content(session, "t")
    spark.read.format("delta").load(str(tmp_path / "t")).createOrReplaceTempView("small_copy")
    for condition in (
        "d > 1e300",
        "f > 1",
        "n.a > 1",
        f"m > {large - 1}",
        f"m < {1 - large}",
        "few < -1234567.88",
        "at > TIMESTAMP '1969-12-31 23:59:59.999998Z'",
        "at < TIMESTAMP '1582-10-10 00:00:00.000002Z'",
        "wall > TIMESTAMP_NTZ '9999-12-31 23:59:59.999998'",
        "wall < TIMESTAMP_NTZ '0001-01-01 00:00:00.000002'",
        "day >= DATE '9999-12-31'",
        f"text > '{long[:-1]}'",
        "text = ''",
    ):
        found = spark.sql(f"SELECT id FROM small_copy WHERE {condition}").toArrow()
        assert found.num_rows == 1, condition
    session.sql("DELETE FROM t WHERE id <> 2")
    session.sql("UPDATE t SET text = NULL, l = array(1.0D)")
    brought(session)
    assert rows_by_spark(spark, tmp_path / "t") == content(session, "t")
    assert set(writers(tmp_path / "t")[1:]) == {"delta-rs"}


TIMES = {
    1: datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
    2: datetime.datetime(2024, 1, 1, tzinfo=UTC),
    3: datetime.datetime(1600, 1, 1, 0, 0, 0, 1, UTC),
    4: datetime.datetime(1, 1, 1, tzinfo=UTC),
}


def test_rows_that_spark_has_written_stay_as_they_are(session: Session, spark, tmp_path: Path) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, at TIMESTAMP, n BIGINT)")
    columns = {
        "id": list(TIMES),
        "at": pa.array(list(TIMES.values()), pa.timestamp("us", "UTC")),
        "n": [1] * 4,
    }
    session.write("t", pa.table(columns))
    queries = {
        "rows": "SELECT id, at, array(at) AS l FROM t",
        "groups": "SELECT at, sum(n) AS n FROM t GROUP BY at",
    }
    for view, query in queries.items():
        options = f"connector = 'delta', path = '{tmp_path}/{view}'"
        session.sql(f"CREATE MATERIALIZED VIEW {view} WITH ({options}) AS {query}")
    brought(session)
    for text in (
        "UPDATE t SET n = 5 WHERE id = 1",
        "DELETE FROM t WHERE id = 3",
        "INSERT INTO t (id) VALUES (5)",
    ):
        session.sql(text)
        brought(session)
        for view in queries:
            assert rows_by_spark(spark, tmp_path / view) == content(session, view)
    assert writers(tmp_path / "groups")[1:] == ["delta-rs"] * 3


@pytest.mark.long
def test_times_of_96_bits_are_left_to_spark(session: Session, spark, tmp_path: Path) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, l ARRAY<TIMESTAMP>)")
    session.sql("INSERT INTO t VALUES (1, array(TIMESTAMP '9999-12-31 00:00:00Z')), (2, NULL)")
    created(session, f"CREATE SINK s FROM t WITH (connector = 'delta', path = '{tmp_path}/t')")
    brought(session)
    spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    try:
        spark.sql(f"UPDATE delta.`{tmp_path}/t` SET id = 3 WHERE id = 1")
    finally:
        spark.conf.unset("spark.sql.parquet.outputTimestampType")
    session.sql("UPDATE t SET l = array() WHERE id = 2")
    brought(session)
    assert writers(tmp_path / "t")[-1] == "Spark"
    (far,) = (row for row in rows_by_spark(spark, tmp_path / "t") if row[0] == "3")
    assert "9999" in far[1]


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=() if kind == "STRING" else pytest.mark.long)
        for kind in ("DOUBLE", "DECIMAL(38, 10)", "TIMESTAMP", "DATE", "BOOLEAN", "BINARY", "STRING")
    ],
)
def test_rows_are_found_by_keys_of_any_type(session: Session, spark, tmp_path: Path, kind: str) -> None:
    values = {
        "DOUBLE": ["double('NaN')", "-0.0D", "1.5D"],
        "DECIMAL(38, 10)": ["9999999999999999999999999999.0000000001", "-0.0000000001", "0"],
        "TIMESTAMP": ["TIMESTAMP '0001-01-01 00:00:00.000001Z'", "TIMESTAMP '9999-12-31 00:00:00.999999Z'"],
        "DATE": ["DATE '0001-01-01'", "DATE '9999-12-31'"],
        "BOOLEAN": ["true", "false"],
        "BINARY": ["X'00'", "X'0000'", "X''"],
        "STRING": ["''", "' '", "'é'", "'e\u0301'"],
    }[kind]
    session.sql(f"CREATE TABLE t (id BIGINT PRIMARY KEY, g {kind})")
    session.sql("CREATE MATERIALIZED VIEW v AS SELECT g, count(*) AS n, sum(id) AS s FROM t GROUP BY g")
    created(session, f"CREATE SINK s FROM v WITH (connector = 'delta', path = '{tmp_path}/v')")
    brought(session)
    for start in (0, 10, 20):
        rows = [f"({start + n}, CAST({value} AS {kind}))" for n, value in enumerate([*values, "NULL"])]
        session.sql(f"INSERT INTO t VALUES {', '.join(rows)}")
        brought(session)
        assert rows_by_spark(spark, tmp_path / "v") == content(session, "v")
    session.sql("DELETE FROM t WHERE id % 10 < 2")
    brought(session)
    assert rows_by_spark(spark, tmp_path / "v") == content(session, "v")
    assert writers(tmp_path / "v")[-1] == ("Spark" if kind == "DOUBLE" else "delta-rs")


def test_a_view_of_one_row_and_an_append_need_no_spark(session: Session, spark, tmp_path: Path) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT)")
    session.sql("CREATE MATERIALIZED VIEW total AS SELECT count(*) AS c, sum(n) AS s FROM t")
    created(session, f"CREATE SINK a FROM total WITH (connector = 'delta', path = '{tmp_path}/total')")
    append = "connector = 'delta', type = 'append-only', force_append_only = 'true'"
    created(session, f"CREATE SINK b FROM t WITH ({append}, path = '{tmp_path}/log')")
    brought(session)
    for text in (
        "INSERT INTO t VALUES (1, 2), (2, NULL)",
        "UPDATE t SET n = 5",
        "DELETE FROM t WHERE id = 1",
    ):
        session.sql(text)
        brought(session)
        assert rows_by_spark(spark, tmp_path / "total") == content(session, "total")
    assert sorted(rows_by_spark(spark, tmp_path / "log").elements()) == [
        ("1", "2"),
        ("1", "5"),
        ("2", "5"),
        ("2", "None"),
    ]
    assert set(writers(tmp_path / "total")[1:]) == set(writers(tmp_path / "log")[1:]) == {"delta-rs"}


def test_a_range_counts_once_whichever_way_has_written_it(session: Session, spark, target: Path) -> None:
    small = open_small(session, target)
    number = versions(target)[-1] + 1
    assert not small.has(number)
    assert (
        small.merge(build_changes((UPDATE, 1, "x"), (DELETE, 2, None), (DELETE, 9, None)), ["id"], number, "")
        == 2
    )
    again = open_small(session, target)
    assert again.has(number) and again.has(number - 1) and not again.has(number + 1)
    name, app = f"delta.`{target}`", session.catalog.get("s").options["app"]
    spark.conf.set("spark.databricks.delta.write.txnAppId", app)
    spark.conf.set("spark.databricks.delta.write.txnVersion", str(number))
    try:
        spark.sql(f"MERGE INTO {name} t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE")
    finally:
        spark.conf.unset("spark.databricks.delta.write.txnAppId")
        spark.conf.unset("spark.databricks.delta.write.txnVersion")
    assert sorted(rows_by_spark(spark, target)) == [("1", "'x'"), ("3", "'c'")]


def test_who_comes_second_has_lost(session: Session, target: Path) -> None:
    first, second = open_small(session, target), open_small(session, target)
    number = versions(target)[-1] + 1
    first.merge(build_changes((UPDATE, 1, "x")), ["id"], number, "")
    with pytest.raises(Conflict, match="another has written"):
        second.merge(build_changes((UPDATE, 1, "y")), ["id"], number, "")
    assert len(versions(target)) == 2


@pytest.mark.long
@pytest.mark.parametrize("name", ["`n.b`", "__delta_rs_source"])
def test_names_that_readers_or_delta_rs_mistake_are_left_to_spark(
    session: Session, spark, tmp_path: Path, name: str
) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING, n STRUCT<b: TIMESTAMP>)")
    session.sql(f"CREATE MATERIALIZED VIEW w AS SELECT id, v AS {name}, n FROM t")
    created(session, f"CREATE SINK s FROM w WITH (connector = 'delta', path = '{tmp_path}/w')")
    brought(session)
    session.sql("INSERT INTO t VALUES (1, 'a', named_struct('b', TIMESTAMP '2024-01-01 00:00:00Z'))")
    brought(session)
    assert rows_by_spark(spark, tmp_path / "w") == content(session, "w")
    assert set(writers(tmp_path / "w")) == {"Spark"}


def test_a_commit_that_fails_by_itself_is_no_lost_race(
    session: Session, spark, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.sql(f"ALTER TABLE delta.`{target}` SET TBLPROPERTIES (delta.appendOnly = true)")
    monkeypatch.setattr(small_table, "_is_plain", lambda table, app: True)
    small = open_small(session, target)
    with pytest.raises(DeltaError):
        small.merge(build_changes((UPDATE, 1, "x")), ["id"], versions(target)[-1] + 1, "")


PANIC = type("PanicException", (BaseException,), {"__module__": "pyo3_runtime"})


@pytest.mark.parametrize("failure", [DeltaError, pytest.param(PANIC, marks=pytest.mark.long)])
def test_what_delta_rs_cannot_write_is_written_by_spark(
    session: Session,
    spark,
    target: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    failure: type[BaseException],
) -> None:
    def fail(*given: object) -> None:
        raise failure("no such thing")

    session.sql("UPDATE t SET v = 'x' WHERE id = 1")
    with monkeypatch.context() as broken:
        broken.setattr("deltalake.table.TableMerger.execute", fail)
        brought(session)
    assert "delta-rs cannot" in caplog.text and "no such thing" in caplog.text
    assert writers(target)[-1] == "Spark"
    assert rows_by_spark(spark, target) == content(session, "t")


def test_the_log_gets_checkpoints_that_spark_reads(session: Session, spark, target: Path) -> None:
    for n in range(12):
        session.sql(f"UPDATE t SET v = 'x{n}' WHERE id = {1 + n % 3}")
        brought(session)
    assert (target / "_delta_log" / "00000000000000000010.checkpoint.parquet").is_file()
    assert rows_by_spark(spark, target) == content(session, "t")


@pytest.mark.parametrize("kept", mark_rest_long(["365 days", ""]))
def test_the_log_is_kept_for_as_long_as_somebody_has_said(
    session: Session, spark, target: Path, kept: str
) -> None:
    if kept:
        spark.sql(f"ALTER TABLE delta.`{target}` SET TBLPROPERTIES ('delta.logRetentionDuration' = '{kept}')")
    log, small, number = target / "_delta_log", open_small(session, target), versions(target)[-1]
    for n in range(1, 12):
        small.merge(build_changes((UPDATE, 1, f"x{n}")), ["id"], number + n, "")
        for path in log.iterdir():
            os.utime(path, (time.time() - 100 * 86_400,) * 2)
    assert (log / f"{0:020}.json").exists() == bool(kept)


@pytest.mark.parametrize(
    "change",
    mark_rest_long(
        [
            "ALTER TABLE {} SET TBLPROPERTIES (delta.enableChangeDataFeed = true)",
            "ALTER TABLE {} SET TBLPROPERTIES (delta.enableDeletionVectors = true)",
            "ALTER TABLE {} SET TBLPROPERTIES (delta.appendOnly = true)",
            "ALTER TABLE {} SET TBLPROPERTIES (delta.deletedFileRetentionDuration = '5 days')",
            "ALTER TABLE {} SET TBLPROPERTIES (tideline.sink = 'several')",
            "ALTER TABLE {} ADD CONSTRAINT few CHECK (id < 1000)",
            "ALTER TABLE {} ADD COLUMNS (w STRING)",
        ],
        keep=2,
    ),
)
def test_tables_that_ask_more_of_a_writer_are_left_to_spark(
    session: Session, spark, target: Path, change: str
) -> None:
    app = session.catalog.get("s").options["app"]
    assert SmallTable.open(target.as_uri(), COLUMNS, app) is not None
    spark.sql(change.format(f"delta.`{target}`"))
    assert SmallTable.open(target.as_uri(), COLUMNS, app) is None
    assert SmallTable.open("s3a://bucket/t", COLUMNS, app) is None


@pytest.mark.long
def test_a_large_table_is_looked_at_once(
    session: Session, spark, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = []
    monkeypatch.setattr(SmallTable, "open", classmethod(lambda *given: looked.append(given)))
    for n in range(2):
        session.sql(f"UPDATE t SET v = 'x{n}' WHERE id = 1")
        brought(session)
    assert len(looked) == 1 and rows_by_spark(spark, target) == content(session, "t")


def test_a_large_table_is_left_to_spark(
    session: Session, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, sizes = (
        session.catalog.get("s").options["app"],
        [one["add"]["size"] for one in actions(target) if "add" in one],
    )
    monkeypatch.setattr(small_table, "MOST_BYTES", sum(sizes))
    assert SmallTable.open(target.as_uri(), COLUMNS, app) is not None
    monkeypatch.setattr(small_table, "MOST_BYTES", sum(sizes) - 1)
    assert SmallTable.open(target.as_uri(), COLUMNS, app) is None
    assert SmallTable.open(target.with_name("none").as_uri(), COLUMNS, app) is None
    assert SmallTable.open(target.with_name("a%20b").as_uri(), COLUMNS, app) is None

"""The Delta source: the snapshot, then each version once, whatever it did; what does not follow is said."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.connectors.delta.frames import open_read_session, read_feed_changes
from engine.connectors.delta.log import Metadata
from engine.connectors.delta.source import DeltaSource
from engine.connectors.delta.steps import DeltaPosition, DeltaStep
from engine.connectors.delta.values import MatchedColumn
from engine.connectors.delta.ways import BY_KEY
from engine.connectors.polling import SourcePoller
from engine.connectors.sources import compute_pending_digest, poll_all
from engine.errors import PathNotAllowed, SourceError, SqlError
from engine.hummock.back_off import BackOff
from engine.hummock.object_store import open_object_store
from engine.session import Session
from tests.connectors.delta_tables import DeltaTable, SparkDeltaTable, follow, held, poll, source
from tests.connectors.s3a import WITHOUT_S3A
from tests.long_rest import mark_rest_long


@pytest.fixture
def delta(spark: SparkSession, tmp_path: Path) -> Callable[..., DeltaTable]:
    """A function that makes a Delta table."""

    def make(kind: type[DeltaTable] = DeltaTable, **said: str) -> DeltaTable:
        return kind(spark, tmp_path / "delta").make(**said)

    return make


def pending(session: Session) -> int:
    return compute_pending_digest(session.catalog, session.store)[0]


def refuses_spark() -> SparkSession:
    raise AssertionError("Spark was asked for")


@pytest.mark.long
def test_the_snapshot_then_every_kind_of_change_of_the_feed(
    session: Session, delta: Callable[..., DeltaTable]
) -> None:
    there = delta(kind=SparkDeltaTable)
    there.insert("SELECT id, 'a' FROM range(100)")
    follow(session, there)
    assert session.notices == ()
    assert pending(session) == 1
    report = poll(session)
    assert (report.rows, report.dead_rows, report.warnings) == (100, 0, ())
    assert held(session) == there.rows()
    assert pending(session) == 0
    there.sql(
        "UPDATE {} SET v = 'b' WHERE id < 10",
        "DELETE FROM {} WHERE id BETWEEN 5 AND 7",
        "MERGE INTO {} t USING (SELECT id, 'm' AS v FROM range(95, 105)) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *",
        "UPDATE {} SET id = id + 1000 WHERE id < 3",
        "INSERT INTO {} VALUES (6, 'again')",
    )
    assert pending(session) == 1
    before = session.store.refresh().tables["t"].committed_epoch
    report = poll(session)
    assert report.error is None and report.warnings == ()
    assert held(session) == there.rows()
    assert pending(session) == 0
    assert (
        session.store.refresh().tables["t"].find_first_change(before) == report.epoch
    )  # all versions in one commit
    assert poll(session).epoch is None


def test_versions_that_change_no_row_need_no_spark(
    session: Session, delta: Callable[..., DeltaTable]
) -> None:
    there = delta()
    there.insert("VALUES (1, 'a')")
    there.insert("VALUES (2, 'b')")
    follow(session, there)
    poll(session)
    there.sql("OPTIMIZE {}", "ALTER TABLE {} SET TBLPROPERTIES ('mine' = 'x')")
    assert pending(session) == 1
    (report,) = poll_all(session.catalog, session.store, None, refuses_spark)
    assert (report.error, report.rows) == (None, 0)
    assert pending(session) == 0
    (report,) = poll_all(session.catalog, session.store, None, refuses_spark)
    assert (report.error, report.epoch) == (None, None)


def test_without_a_feed_the_difference_by_key_is_written_and_told(
    session: Session, delta: Callable[..., DeltaTable]
) -> None:
    there = delta(properties="")
    there.insert("SELECT id, 'a' FROM range(100)")
    follow(session, there)
    assert session.notices == (f"t: {BY_KEY}",)
    assert BY_KEY in poll(session).warnings
    there.sql(
        "UPDATE {} SET v = 'b' WHERE id < 10",
        "DELETE FROM {} WHERE id > 90",
        "INSERT INTO {} VALUES (500, NULL)",
    )
    report = poll(session)
    assert (report.rows, report.warnings) == (10 + 9 + 1, ())
    assert held(session) == there.rows()
    there.sql(
        "ALTER TABLE {} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
        "DELETE FROM {} WHERE id = 11",
    )
    assert poll(session).rows == 1
    assert held(session) == there.rows()


@pytest.mark.long
@pytest.mark.parametrize("feed", ["true", "false"])
def test_a_restored_table_and_one_made_anew(
    session: Session, delta: Callable[..., DeltaTable], feed: str
) -> None:
    properties = f"'delta.enableChangeDataFeed' = '{feed}'"
    there = delta(properties=properties)
    there.insert("SELECT id, 'a' FROM range(10)")
    follow(session, there)
    poll(session)
    there.sql(
        "DELETE FROM {} WHERE id = 1",
        "RESTORE TABLE {} TO VERSION AS OF 1",
        "INSERT INTO {} VALUES (77, 'c')",
    )
    if feed == "true":
        with pytest.raises(SourceError, match="restored an earlier one: ALTER TABLE t RESYNC"):
            poll(session)
        assert [row[0] for row in held(session)] == [
            0,
            2,
            3,
            4,
            5,
            6,
            7,
            8,
            9,
        ]  # what came before it is taken
        assert pending(session) == 1
        session.sql("ALTER TABLE t RESYNC")
        assert session.notices == ("2 rows were written",)
    else:
        poll(session)
    assert held(session) == there.rows()
    assert pending(session) == 0
    shutil.rmtree(there.path)
    assert pending(session) == 1
    there.make(properties=properties)
    there.insert("VALUES (1, 'x'), (2, 'a')")
    there.insert("VALUES (3, 'x')")
    there.sql(
        *["INSERT INTO {} VALUES (4, 'x')"] * 3,
        "DELETE FROM {} WHERE id = 4",
        "INSERT INTO {} VALUES (5, 'x')",
    )
    with pytest.raises(SourceError, match=r"dropped and created again.*ALTER TABLE t RESYNC"):
        poll(session)
    (standing,) = (one for one in session.status() if one.name == "t")
    assert standing.last_error is not None and "created again" in standing.last_error
    session.sql("ALTER TABLE t RESYNC")
    (standing,) = (one for one in session.status() if one.name == "t")
    assert (standing.last_error, standing.note) == (None, None if feed == "true" else BY_KEY)
    assert held(session) == there.rows()
    there.sql("UPDATE {} SET v = 'y' WHERE id < 3")
    poll(session)
    assert held(session) == there.rows()


@pytest.mark.long
def test_a_history_that_was_vacuumed_is_said(session: Session, delta: Callable[..., DeltaTable]) -> None:
    there = delta()
    there.insert("SELECT id, 'a' FROM range(10)")
    follow(session, there)
    poll(session)
    there.sql(
        "UPDATE {} SET v = 'b' WHERE id < 3", "DELETE FROM {} WHERE id = 4", "INSERT INTO {} VALUES (20, 'c')"
    )
    there.sql("OPTIMIZE {}", "VACUUM {} RETAIN 0 HOURS")
    with pytest.raises(SourceError, match=r"can't be read any more.*ALTER TABLE t RESYNC"):
        poll(session)
    session.sql("ALTER TABLE t RESYNC")
    assert session.notices == ("5 rows were written",)
    assert held(session) == there.rows()


@pytest.mark.long
def test_a_feed_that_was_off_for_a_while(session: Session, delta: Callable[..., DeltaTable]) -> None:
    there = delta()
    there.insert("VALUES (1, 'a')")
    follow(session, there)
    poll(session)
    off, on = (
        f"ALTER TABLE {{}} SET TBLPROPERTIES (delta.enableChangeDataFeed = {x})" for x in ("false", "true")
    )
    there.sql("INSERT INTO {} VALUES (2, 'b')", off, on, "INSERT INTO {} VALUES (3, 'c')", "OPTIMIZE {}")
    assert poll(session).rows == 2
    assert held(session) == there.rows()
    there.sql("UPDATE {} SET v = 'z' WHERE id = 2", off, "DELETE FROM {} WHERE id = 1", on)
    there.insert("VALUES (4, 'd')")
    poll(session)
    assert held(session) == there.rows()


def test_an_error_that_only_delta_knows_is_said(session: Session, delta: Callable[..., DeltaTable]) -> None:
    there = delta(properties="")
    there.insert("VALUES (1, 'a')")
    follow(session, there)
    relation, place = session.catalog.get("t"), source(session).place
    lacking = DeltaStep("feed", 0, 1, 0, DeltaPosition(1, "", Metadata("")))
    columns = {name: MatchedColumn(name, kind, name) for name, kind in (("id", "bigint"), ("v", "string"))}
    with (
        pytest.raises(SourceError, match=r"can't be read any more \(Error getting change data.*RESYNC"),
        open_read_session(lambda: session.computing, "t", place) as read,
    ):
        read_feed_changes(read, relation, lacking, place, columns).collect()


@pytest.mark.long
def test_a_column_that_was_away_for_a_while(session: Session, delta: Callable[..., DeltaTable]) -> None:
    mapped = "'delta.enableChangeDataFeed' = 'true', 'delta.columnMapping.mode' = 'name'"
    there = delta(SparkDeltaTable, properties=mapped)
    there.insert("VALUES (1, 'a')")
    follow(session, there)
    poll(session)
    there.sql("ALTER TABLE {} RENAME COLUMN v TO w", "UPDATE {} SET w = 'b'")
    with pytest.raises(SourceError, match=r"has no column v: .* RESYNC passes the versions that lack it"):
        poll(session)
    there.sql("ALTER TABLE {} RENAME COLUMN w TO v")
    session.sql("ALTER TABLE t RESYNC")
    there.sql("INSERT INTO {} VALUES (2, 'c')")
    poll(session)
    assert held(session) == there.rows()


@pytest.mark.parametrize("feed", mark_rest_long(["true", "false"]))
def test_nested_values_that_are_no_numbers(
    session: Session, delta: Callable[..., DeltaTable], feed: str
) -> None:
    there = delta(
        columns="id BIGINT, l ARRAY<DOUBLE>, m MAP<STRING, DOUBLE>",
        properties=f"'delta.enableChangeDataFeed' = '{feed}'",
    )
    there.insert("SELECT id, array(double('NaN'), 1.5D, null), map('k', double('NaN')) FROM range(3)")
    session.sql(
        f"CREATE TABLE t (PRIMARY KEY (id)) WITH (connector = 'delta', path = '{there.path}')",
    )
    assert poll(session).rows == 3
    there.sql("UPDATE {} SET l = array(2.5D) WHERE id = 1")
    assert poll(session).rows == 1
    assert repr(held(session)) == repr(there.rows())


@pytest.mark.long
def test_a_log_that_was_cleaned_up_is_said(session: Session, delta: Callable[..., DeltaTable]) -> None:
    there = delta(properties="'delta.enableChangeDataFeed' = 'true', 'delta.checkpointInterval' = '2'")
    there.insert("SELECT id, 'a' FROM range(10)")
    follow(session, there)
    poll(session)
    for n in range(5):
        there.insert(f"VALUES ({100 + n}, 'b')")
    log = there.path / "_delta_log"
    (log / f"{1:020d}.json").unlink()
    assert pending(session) == 1
    assert poll(session).rows == 5  # the version that was taken is not needed, if the table is the same
    for n in range(5):
        there.insert(f"VALUES ({200 + n}, 'b')")
    for version in range(9):
        (log / f"{version:020d}.json").unlink(missing_ok=True)
    with pytest.raises(SourceError, match="ALTER TABLE t RESYNC"):
        poll(session)
    session.sql("ALTER TABLE t RESYNC")
    assert held(session) == there.rows()


@pytest.mark.long
def test_a_column_that_comes_later_is_told_once_and_taken_from_alter_table_on(
    session: Session, delta: Callable[..., DeltaTable]
) -> None:
    there = delta()
    there.insert("VALUES (1, 'a')")
    follow(session, there)
    poll(session)
    there.sql("ALTER TABLE {} ADD COLUMN extra INT", "INSERT INTO {} VALUES (2, 'b', 2)")
    (warning,) = poll(session).warnings
    assert "ALTER TABLE t ADD COLUMN extra INT" in warning
    there.insert("VALUES (3, 'c', 3)")
    assert poll(session).warnings == ()
    session.sql("ALTER TABLE t ADD COLUMN extra INT")
    there.insert("VALUES (4, 'd', 4)")
    assert poll(session).warnings == ()
    assert held(session) == [(1, "a", None), (2, "b", None), (3, "c", None), (4, "d", 4)]
    session.sql("ALTER TABLE t RESYNC")
    assert held(session) == there.rows()
    session.sql("ALTER TABLE t ADD COLUMN other INT")
    there.insert("VALUES (5, 'e', 5)")
    with pytest.raises(SourceError, match="has no column other: ALTER TABLE t DROP COLUMN other"):
        poll(session)
    session.sql("ALTER TABLE t DROP COLUMN other")
    poll(session)
    assert held(session) == there.rows()


@pytest.mark.long
def test_deletion_vectors_column_mapping_partitions_and_nested_values(
    session: Session, delta: Callable[..., DeltaTable]
) -> None:
    said = "'delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = 'name'"
    columns = "Id BIGINT, day DATE, v STRING, m MAP<STRING, INT>, s STRUCT<a: INT, b: ARRAY<STRING>>, ts TIMESTAMP, n TIMESTAMP_NTZ, d DECIMAL(20, 3), b BINARY"
    there = delta(SparkDeltaTable, columns=columns, properties=said, partitioned="day")
    there.insert(
        "SELECT id, date_add(DATE'2026-01-01', CAST(id % 3 AS INT)), 'a', map('k', 1), named_struct('a', 1, 'b', array('x', NULL)), "
        "TIMESTAMP'2026-01-01 01:02:03.000004', TIMESTAMP_NTZ'2026-01-01 01:02:03', 1.250, X'00FF' FROM range(50)"
    )
    session.sql(f"CREATE TABLE t (PRIMARY KEY (id)) WITH (connector = 'delta', path = '{there.path}')")
    poll(session)
    there.sql(
        "UPDATE {} SET v = NULL, m = map('z', 9) WHERE id < 7", "DELETE FROM {} WHERE id = 30", "OPTIMIZE {}"
    )
    poll(session)
    there.sql(
        "ALTER TABLE {} RENAME COLUMN v TO w",
        "INSERT INTO {} (id, day, w) VALUES (99, DATE'2027-01-01', 'new')",
    )
    with pytest.raises(SourceError, match="has no column v: ALTER TABLE t DROP COLUMN v"):
        poll(session)
    session.sql("ALTER TABLE t DROP COLUMN v")
    session.sql("ALTER TABLE t ADD COLUMN w STRING")
    poll(session)
    texts = [f"CAST({name} AS STRING)" for name in ("id", "day", "s", "ts", "n", "d", "hex(b)")]
    assert held(session, columns=", ".join(texts)) == there.rows(texts)
    assert session.sql("ALTER TABLE t RESYNC") is None
    found = session.sql("SELECT count(*) n, count(w) w, count(m) m FROM t")
    assert found is not None and found.to_pylist() == [{"n": 50, "w": 43, "m": 49}]


@pytest.mark.long
def test_rows_without_a_key_and_keys_that_stand_twice_are_set_aside(
    session: Session, delta: Callable[..., DeltaTable]
) -> None:
    there = delta()
    there.insert("VALUES (1, 'a'), (NULL, 'null'), (2, 'b'), (2, 'c'), (2, 'c')")
    follow(session, there)
    report = poll(session)
    assert report.dead_rows == 3
    assert held(session) == [(1, "a"), (2, "c")]
    found = session.sql("SELECT file, reason, raw FROM _dead_letter WHERE source = 't' ORDER BY raw")
    assert found is not None
    assert [row["raw"] for row in found.to_pylist()] == [
        '{"id": 2, "v": "b"}',
        '{"id": 2, "v": "c"}',
        '{"id": null, "v": "null"}',
    ]
    there.sql(
        "UPDATE {} SET v = 'still null' WHERE id IS NULL",
        "INSERT INTO {} VALUES (1, 'later')",
        "INSERT INTO {} VALUES (5, 'x'), (5, 'y')",
    )
    report = poll(session)
    assert report.dead_rows == 1
    assert any("1 rows more than they have keys" in text for text in report.warnings)
    assert held(session) == [(1, "later"), (2, "c"), (5, "y")]
    there.sql("UPDATE {} SET id = 7 WHERE id IS NULL", "UPDATE {} SET id = NULL WHERE id = 1")
    poll(session)
    assert held(session) == [(2, "c"), (5, "y"), (7, "still null")]


def test_what_is_refused_when_the_table_is_made(
    session: Session, delta: Callable[..., DeltaTable], tmp_path: Path
) -> None:
    there = delta(SparkDeltaTable, columns="id BIGINT, v STRING, t TIMESTAMP, x VARIANT")
    for columns, words in {
        "id INT PRIMARY KEY": r"(?s)column id is int here and bigint in the Delta table.*write id BIGINT",
        "id BIGINT PRIMARY KEY, w STRING": "has no column w",
        "id BIGINT PRIMARY KEY, v VARCHAR(3)": "a text of 3 characters at most",
        "id BIGINT PRIMARY KEY, v STRING NOT NULL": "NOT NULL here",
        "id BIGINT PRIMARY KEY, t TIMESTAMP_NTZ": "timestamp_ntz here and timestamp",
        "id BIGINT, v STRING": "needs a PRIMARY KEY",
        "id BIGINT PRIMARY KEY, v STRING DEFAULT 'x'": "has a DEFAULT",
        "PRIMARY KEY (id)": "column x of the Delta table is variant",
        "PRIMARY KEY (nothing)": "has no column nothing",
    }.items():
        with pytest.raises(SqlError, match=words):
            follow(session, there, columns)
    with pytest.raises(SqlError, match="there is no Delta table at"):
        session.sql(
            f"CREATE TABLE t (id BIGINT PRIMARY KEY) WITH (connector = 'delta', path = '{tmp_path}/nowhere')"
        )
    with pytest.raises(SqlError, match="needs a path"):
        session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY) WITH (connector = 'delta')")
    with pytest.raises(SqlError, match="follows no source that can repeat all its rows"):
        session.sql("CREATE TABLE u (id BIGINT PRIMARY KEY)")
        session.sql("ALTER TABLE u RESYNC")
    follow(session, there, "id BIGINT PRIMARY KEY, v STRING, t TIMESTAMP")
    assert poll(session).warnings == ()


def test_a_table_that_is_there_is_left_as_it_is_without_a_look_at_its_delta_table(
    session: Session, delta: Callable[..., DeltaTable], tmp_path: Path
) -> None:
    there = delta()
    follow(session, there)
    there.path.rename(tmp_path / "elsewhere")
    again = f"(id BIGINT PRIMARY KEY) WITH (connector = 'delta', path = '{there.path}')"
    session.sql(f"CREATE TABLE IF NOT EXISTS t {again}")
    with pytest.raises(SqlError, match="t exists already"):
        session.sql(f"CREATE TABLE t {again}")
    with pytest.raises(SqlError, match="there is no Delta table at"):
        session.sql(f"CREATE TABLE IF NOT EXISTS u {again}")


@WITHOUT_S3A
@pytest.mark.s3
def test_a_spark_that_can_not_read_s3_is_said_when_the_table_is_made(
    session: Session, delta: Callable[..., DeltaTable], s3_url: str
) -> None:
    there, bucket = delta(), open_object_store(s3_url)
    for entry in (there.path / "_delta_log").glob("*.json"):
        bucket.put(f"lake/_delta_log/{entry.name}", entry.read_bytes())
    words = r"table t: this Spark has no file system s3a.*s3://.*/lake: `python -m engine.jars --s3a`"
    with pytest.raises(SqlError, match=words):
        session.sql(f"CREATE TABLE t (PRIMARY KEY (id)) WITH (connector = 'delta', path = '{s3_url}/lake')")
    assert "t" not in session.catalog.relations
    with pytest.raises(SqlError, match="has no column w"):  # which needs no Spark
        session.sql(
            f"CREATE TABLE t (id BIGINT PRIMARY KEY, w INT) WITH (connector = 'delta', path = '{s3_url}/lake')"
        )


@pytest.mark.long
def test_many_rows_are_written_by_tasks(
    session: Session, delta: Callable[..., DeltaTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = delta()
    there.insert("SELECT id, CAST(id AS STRING) FROM range(30000)")
    follow(session, there)
    monkeypatch.setattr("engine.connectors.delta.source.SMALL_ROWS", 10)
    poll(session)
    there.sql("UPDATE {} SET v = 'b' WHERE id % 3 = 0", "DELETE FROM {} WHERE id % 3 = 1")
    monkeypatch.setattr(DeltaSource, "_collect_if_few", lambda *_: None)
    report = poll(session)
    assert report.rows == 20000
    assert held(session) == there.rows()
    session.sql("ALTER TABLE t RESYNC")
    assert session.notices == ("0 rows were written",)


@pytest.mark.long
def test_a_thread_follows_while_another_computes(session: Session, delta: Callable[..., DeltaTable]) -> None:
    there = delta()
    there.insert("VALUES (1, 'a')")
    follow(session, there)
    session.sql("CREATE MATERIALIZED VIEW counted AS SELECT v, count(*) AS n FROM t GROUP BY v")
    polling = SourcePoller(
        session.store, {"t"}, session.store.refresh, BackOff(0.0, 0.0), lambda: session.computing
    )
    try:
        for n in range(2):
            there.insert(f"VALUES ({10 + n}, 'b')")
            while len(held(session)) < n + 2:
                assert polling.wait(60.0)
                assert [(one.error, one.warnings) for one in polling.take_reports()] == [(None, ())]
                session.flush().raise_for_all()
        assert held(session, "counted") == [("a", 1), ("b", 2)]
    finally:
        polling.close()


@pytest.mark.long
def test_a_path_outside_of_the_home_is_refused(
    session: Session, delta: Callable[..., DeltaTable], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = delta()
    there.insert("VALUES (1, 'a')")
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("TIDELINE_HOME", str(home))
    with pytest.raises(SqlError, match="lies outside of"):
        follow(session, there)
    monkeypatch.setenv("TIDELINE_ALLOWED_PATHS", str(tmp_path))
    follow(session, there)
    assert source(session).place.spark == f"file:{there.path}"
    assert poll(session).rows == 1
    elsewhere = home / "clone"
    there.spark.sql(f"CREATE TABLE delta.`{elsewhere}` SHALLOW CLONE delta.`{there.path}`").collect()
    session.sql(
        f"CREATE TABLE c (id BIGINT PRIMARY KEY, v STRING) WITH (connector = 'delta', path = '{elsewhere}')"
    )
    assert poll(session, "c").rows == 1
    shutil.copytree(elsewhere, home / "other")
    session.sql("CREATE TABLE d (id BIGINT PRIMARY KEY, v STRING) WITH (connector = 'delta', path = 'other')")
    monkeypatch.delenv("TIDELINE_ALLOWED_PATHS")
    with pytest.raises(PathNotAllowed, match="lies outside of"):
        poll(session, "d")
    with pytest.raises(SqlError, match="hdfs: is no place"):
        session.sql("CREATE TABLE u (id BIGINT PRIMARY KEY) WITH (connector = 'delta', path = 'hdfs://x/y')")

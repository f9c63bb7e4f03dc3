"""What a Delta table holds is what its view holds, whatever the types, names and keys; and what cannot be is refused."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable as RustTable

from engine.errors import SqlError
from engine.log_store.changes import Changes
from engine.session import Session
from tests.connectors.delta_tables import DeltaTable, SparkDeltaTable
from tests.connectors.s3a import WITHOUT_S3A
from tests.connectors.sinks.delta.logs import actions, operations, rows, rows_by_spark, versions


def brought(session: Session) -> None:
    """Deliver all that waits."""
    report = session.flush(sink_seconds=120)
    report.raise_for_all()
    assert [sink.error for sink in report.sinks] == [None] * len(report.sinks)
    assert [sink.lag_rows for sink in report.sinks] == [0] * len(report.sinks)


def created(session: Session, sink: str) -> None:
    session.sql(sink)
    session.sinks.wait(120)


def content(session: Session, relation: str) -> Counter:
    found = session.sql(f"SELECT * FROM {relation}")
    assert found is not None
    return Counter(tuple(repr(value) for value in row.values()) for row in found.to_pylist())


@pytest.mark.long
def test_a_view_and_its_table_agree_through_random_changes(session: Session, spark, tmp_path: Path) -> None:
    chance = random.Random(7)
    session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT)")
    session.sql(
        "CREATE MATERIALIZED VIEW top AS SELECT auction, count(*) AS n, max(price) AS p FROM bid GROUP BY auction"
    )
    session.sql("CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n, sum(price) AS s FROM bid")
    for view in ("top", "total"):
        created(
            session, f"CREATE SINK s_{view} FROM {view} WITH (connector='delta', path='{tmp_path}/{view}')"
        )
    for _ in range(2):
        ids = chance.sample(range(40), 12)
        new = pa.table(
            {
                "id": pa.array(ids, pa.int64()),
                "auction": pa.array([chance.randint(0, 8) for _ in ids], pa.int64()),
                "price": pa.array([chance.choice([None, 1, 2, 3]) for _ in ids], pa.int64()),
            }
        )
        session.write("bid", new)
        session.write("bid", pa.table({"id": pa.array(ids[:5], pa.int64())}), mode="delete")
        brought(session)
        for view in ("top", "total"):
            assert rows(tmp_path / view) == content(session, view)
    assert rows_by_spark(spark, tmp_path / "top") == content(session, "top")
    assert "MERGE" in operations(tmp_path / "top")
    shown = {row["name"]: row for row in session.sql("SHOW SINKS").to_pylist()}
    assert shown["s_top"]["to"] == (tmp_path / "top").as_uri() and shown["s_top"]["type"] == "upsert"


@pytest.mark.long
def test_types_names_and_null_keys_arrive_as_they_are(session: Session, spark, tmp_path: Path) -> None:
    session.sql(
        "CREATE TABLE t (id BIGINT PRIMARY KEY, d DOUBLE, m DECIMAL(38, 10), at TIMESTAMP, wall TIMESTAMP_NTZ, day DATE, "
        'raw BINARY, l ARRAY<INT>, k MAP<STRING, INT>, n STRUCT<a: INT, b: STRING>, `a b` STRING, `c.d` INT, `e"f` INT, op INT)'
    )
    session.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT d, min(m) AS m, min(at) AS at, min(wall) AS wall, min(day) AS day, max(`a b`) AS "
        '`a b`, max(`c.d`) AS `c.d`, max(`e"f`) AS `e"f`, max(op) AS op FROM t GROUP BY d'
    )
    created(session, f"CREATE SINK st FROM t WITH (connector = 'delta', path = '{tmp_path}/t t')")
    created(session, f"CREATE SINK sv FROM v WITH (connector = 'delta', path = '{tmp_path}/v')")
    utc = datetime.UTC
    values = [
        (1, float("nan"), "1.5", 7),
        (2, None, "-99999999999999999999999999.1234567891", None),
        (3, float("nan"), None, 3),
        (4, -0.0, "0", 1),
        (5, float("inf"), "2", 2),
    ]
    for change in (values, [(1, None, "3", 9), (4, float("nan"), "7", 0)]):
        ids = [one[0] for one in change]
        session.write(
            "t",
            pa.table(
                {
                    "id": pa.array(ids, pa.int64()),
                    "d": pa.array([one[1] for one in change], pa.float64()),
                    "m": pa.array([one[2] and Decimal(one[2]) for one in change], pa.decimal128(38, 10)),
                    "at": pa.array([datetime.datetime(1960, 1, 1, 0, 0, 0, n, utc) for n in ids]),
                    "wall": pa.array([datetime.datetime(2024, 3, 31, 2, 30, 0, n) for n in ids]),
                    "day": pa.array([datetime.date(1, 1, n) for n in ids]),
                    "raw": pa.array([bytes([0, 255, n]) for n in ids]),
                    "l": pa.array([[n, None] for n in ids], pa.list_(pa.int32())),
                    "k": pa.array([[("x", n)] for n in ids], pa.map_(pa.string(), pa.int32())),
                    "n": pa.array(
                        [{"a": n, "b": None} for n in ids], pa.struct([("a", pa.int32()), ("b", pa.string())])
                    ),
                    "a b": [str(one[3]) for one in change],
                    "c.d": pa.array([one[3] for one in change], pa.int32()),
                    'e"f': pa.array([one[3] for one in change], pa.int32()),
                    "op": pa.array([one[3] for one in change], pa.int32()),
                }
            ),
        )
        brought(session)
        assert rows_by_spark(spark, tmp_path / "t t") == content(
            session, "t"
        )  # names that need column mapping
        assert rows_by_spark(spark, tmp_path / "v") == content(session, "v")
    session.sql("DELETE FROM t WHERE d IS NULL")
    brought(session)
    assert rows_by_spark(spark, tmp_path / "v") == content(session, "v")


@pytest.mark.long
def test_large_ranges_are_read_by_tasks(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unread(*given: object) -> Iterator[Changes]:
        raise AssertionError("the changes were read in the driver")
        yield

    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
    session.sql("INSERT INTO t SELECT id, concat('v', id) FROM range(1000)")
    monkeypatch.setenv("TIDELINE_DRIVER_ROWS_MB", "0")
    monkeypatch.setattr("engine.connectors.delta.sink.changes.count_partitions", lambda rows, cores: 3)
    monkeypatch.setattr("engine.log_store.sink.read_changes", unread)
    created(session, f"CREATE SINK s FROM t WITH (connector = 'delta', path = '{tmp_path}/t')")
    session.sql("UPDATE t SET v = 'new' WHERE id < 10")
    session.sql("DELETE FROM t WHERE id >= 990")
    session.sql("INSERT INTO t VALUES (5000, NULL)")
    brought(session)
    assert rows(tmp_path / "t") == content(session, "t")


@pytest.mark.long
def test_a_sink_that_is_forced_to_append_keeps_what_was_there(session: Session, tmp_path: Path) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
    said = f"connector = 'delta', path = '{tmp_path}/t', type = 'append-only', force_append_only = true"
    created(session, f"CREATE SINK f FROM t WITH ({said})")
    session.sql("INSERT INTO t VALUES (1, 'x'), (2, 'x')")
    brought(session)
    session.sql("UPDATE t SET v = 'y' WHERE id = 1")
    session.sql("DELETE FROM t WHERE id = 2")
    brought(session)
    assert operations(tmp_path / "t")[1:] == ["WRITE", "WRITE"] and len(versions(tmp_path / "t")) == 3
    assert sorted(rows(tmp_path / "t")) == [("1", "'x'"), ("1", "'y'"), ("2", "'x'")]


@pytest.mark.long
def test_a_reset_sink_and_one_created_again_make_the_table_as_the_view_is(
    session: Session, tmp_path: Path
) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING, w INT)")
    session.sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2)")
    text = f"CREATE SINK s FROM {{}} WITH (connector = 'delta', path = '{tmp_path}/t')"
    created(session, text.format("t"))
    session.sql("ALTER SINK s RESET")
    session.sql("ALTER SINK s RESET")
    brought(session)
    session.sql("ALTER SINK s PAUSE")
    session.sql("DELETE FROM t WHERE id = 1")
    session.sql("ALTER SINK s RESET")
    session.sql("ALTER SINK s RESUME")
    brought(session)
    assert rows(tmp_path / "t") == content(session, "t")
    session.sql("DROP SINK s")
    session.sql("CREATE MATERIALIZED VIEW v AS SELECT id, v, w, w * 2 AS more FROM t")
    created(session, text.format("v"))
    session.sql("INSERT INTO t VALUES (3, 'c', 3)")
    brought(session)
    assert rows(tmp_path / "t") == content(session, "v")
    found = versions(tmp_path / "t")
    assert len(found) >= 4 and found == sorted(set(found))


@pytest.mark.long
def test_a_table_that_was_clustered_is_never_partitioned(session: Session, tmp_path: Path) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING, w INT)")
    session.sql("INSERT INTO t VALUES (1, 'a', 1)")
    text = f"CREATE SINK s FROM t WITH (connector = 'delta', path = '{tmp_path}/t'{{}})"
    for layout in (", partition_by = 'v'", ", cluster_by = 'w'", ""):
        created(session, text.format(layout))
        brought(session)
        session.sql("DROP SINK s")
    with pytest.raises(SqlError, match="is, or was, clustered, and Delta makes no partitioned one of it"):
        session.sql(text.format(", partition_by = 'v'"))
    assert rows(tmp_path / "t") == content(session, "t")


@pytest.mark.long
def test_two_sinks_and_somebody_else_share_a_table(session: Session, spark, tmp_path: Path) -> None:
    session.sql("CREATE TABLE a (id BIGINT PRIMARY KEY, v STRING)")
    session.sql("CREATE TABLE b (id BIGINT PRIMARY KEY, v STRING, extra INT)")
    session.sql("INSERT INTO a VALUES (1, 'a')")
    session.sql("INSERT INTO b VALUES (2, 'b', 7)")
    for name in ("a", "b"):
        created(session, f"CREATE SINK s{name} FROM {name} WITH (connector = 'delta', path = '{tmp_path}/t')")
    DeltaTable(spark, tmp_path / "t").insert("VALUES (3, 'theirs', NULL)")
    session.sql("ALTER SINK sa RESET")
    session.sql("UPDATE a SET v = 'A'")
    session.sql("UPDATE b SET extra = 8")
    brought(session)
    expected = [("1", "'A'", "None"), ("2", "'b'", "8"), ("3", "'theirs'", "None")]
    assert sorted(rows(tmp_path / "t")) == expected
    apps = {txn: versions(tmp_path / "t", txn) for txn in apps_of(tmp_path / "t")}
    assert len(apps) == 2 and all(found == sorted(set(found)) for found in apps.values())


def apps_of(table: Path) -> set[str]:
    return {action["txn"]["appId"] for action in actions(table) if "txn" in action}


@pytest.mark.long
def test_without_a_snapshot_the_table_begins_with_the_next_change(session: Session, tmp_path: Path) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
    session.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    created(
        session, f"CREATE SINK s FROM t WITH (connector = 'delta', path = '{tmp_path}/t', snapshot = false)"
    )
    session.sql("UPDATE t SET v = 'c' WHERE id = 2")
    session.sql("DELETE FROM t WHERE id = 1")
    brought(session)
    assert sorted(rows(tmp_path / "t")) == [("2", "'c'")]


@pytest.mark.long
def test_a_table_that_is_gone_is_not_made_of_changes_alone(session: Session, tmp_path: Path) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
    session.sql("INSERT INTO t VALUES (1, 'a')")
    created(session, f"CREATE SINK s FROM t WITH (connector = 'delta', path = '{tmp_path}/t')")
    (tmp_path / "t").rename(tmp_path / "elsewhere")
    session.sql("INSERT INTO t VALUES (2, 'b')")
    (report,) = session.flush(sink_seconds=120).sinks
    assert "no table" in (report.error or "") and "RESET" in (report.error or "") and report.lag_rows == 1
    session.sql("ALTER SINK s RESET")
    brought(session)
    assert rows(tmp_path / "t") == content(session, "t")


@pytest.mark.long
@pytest.mark.parametrize("kind", ["upsert", "append-only"])
def test_a_column_that_the_table_has_lost_is_told(session: Session, spark, tmp_path: Path, kind: str) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
    session.sql("INSERT INTO t VALUES (1, 'a')")
    more = "" if kind == "upsert" else ", type = 'append-only', force_append_only = true"
    created(session, f"CREATE SINK s FROM t WITH (connector = 'delta', path = '{tmp_path}/t'{more})")
    brought(session)
    SparkDeltaTable(spark, tmp_path / "t").sql(
        "ALTER TABLE {} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "ALTER TABLE {} RENAME COLUMN v TO w",
    )
    session.sql("INSERT INTO t VALUES (2, 'b')")
    (report,) = session.flush(sink_seconds=120).sinks
    assert "has no column v any more" in (report.error or "")
    session.sql("ALTER SINK s RESET")
    brought(session)
    assert rows_by_spark(spark, tmp_path / "t") == content(session, "t")


@pytest.mark.long
def test_a_text_that_a_partition_column_has_for_null_is_told(session: Session, tmp_path: Path) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, region STRING)")
    options = "connector = 'delta', partition_by = 'region'"
    created(session, f"CREATE SINK s FROM t WITH ({options}, path = '{tmp_path}/t')")
    session.sql("INSERT INTO t VALUES (1, 'x'), (2, NULL)")
    brought(session)
    session.sql("UPDATE t SET region = 'y' WHERE id = 1")
    brought(session)
    assert rows(tmp_path / "t") == content(session, "t")
    for text in ("__HIVE_DEFAULT_PARTITION__", ""):
        session.sql(f"INSERT INTO t VALUES (3, '{text}')")
        (report,) = session.flush(sink_seconds=120).sinks
        assert "region is an empty text or __HIVE_DEFAULT_PARTITION__" in (report.error or "")
        session.sql("DELETE FROM t WHERE id = 3")


@pytest.mark.long
def test_a_text_of_which_no_folder_can_be_named_is_told(session: Session, tmp_path: Path) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, region STRING)")
    options = "connector = 'delta', partition_by = 'region'"
    created(session, f"CREATE SINK s FROM t WITH ({options}, path = '{tmp_path}/t')")
    longest = ["x" * 248, "é" * 124, "/" * 82, "\x01\x7f[]{^=" * 10]
    session.write("t", pa.table({"id": [1, 2, 3, 4], "region": longest}))
    brought(session)
    assert rows(tmp_path / "t") == content(session, "t")
    unnamed = {
        "a\0b": "holds the character 0",
        "é" * 124 + "x": "gives a folder whose name has more than 255",
    }
    for text, says in {**unnamed, "/" * 83: "gives a folder whose name has more than 255"}.items():
        session.write("t", pa.table({"id": [5], "region": [text]}))
        (report,) = session.flush(sink_seconds=120).sinks
        assert f"column region {says}" in (report.error or "")
        session.sql("DELETE FROM t WHERE id = 5")
        session.sql("ALTER SINK s RESET")
    brought(session)
    assert rows(tmp_path / "t") == content(session, "t")


@pytest.mark.parametrize(
    ("columns", "options", "says"),
    [
        ("v TIME", "", "column v is time"),
        ("v INTERVAL DAY TO SECOND", "", "no type INTERVAL"),
        ("v ARRAY<STRUCT<a: INT>>", "partition_by = 'v'", "has no order"),
        ("v INT", "partition_by = 'w'", "there is no column w"),
        ("v INT", "partition_by = 'v, id'", "no column would be left"),
        ("v INT", "partition_by = 'v', cluster_by = 'id'", "partitioned or clustered, not both"),
        ("v INT", "vnode_groups = 2", "would meet in one Delta table"),
        ("v BOOLEAN", "cluster_by = 'v'", "v is boolean, by which Delta does not cluster"),
        ("a INT, b INT, c INT, d INT", "cluster_by = 'id, a, b, c, d'", "clusters by 4 at most"),
        (", ".join(f"c{n} INT" for n in range(40)), "cluster_by = 'c31'", "c31 is behind the first 32"),
        ("v INT", "format = 'parquet'", "a sink has no option format"),
    ],
)
def test_what_delta_has_not_is_refused_at_create(
    session: Session, tmp_path: Path, columns: str, options: str, says: str
) -> None:
    session.sql(f"CREATE TABLE t (id BIGINT PRIMARY KEY, {columns})")
    with pytest.raises(SqlError, match=says):
        session.sql(
            f"CREATE SINK s FROM t WITH (connector = 'delta', path = '{tmp_path}/t', {options or 'snapshot = true'})"
        )
    assert session.sql("SHOW SINKS").num_rows == 0 and not (tmp_path / "t").exists()


@WITHOUT_S3A
def test_a_bucket_that_spark_cannot_write_is_refused_at_create(session: Session) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v INT)")
    with pytest.raises(SqlError, match=r"Spark has no file system for s3a://b/t: .*engine.jars --s3a"):
        session.sql("CREATE SINK s FROM t WITH (connector = 'delta', url = 's3://b/t')")


def test_places_that_cannot_be_written_are_refused_at_create(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark
) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v INT)")
    monkeypatch.setenv("TIDELINE_HOME", str(tmp_path / "home"))
    with pytest.raises(SqlError, match="may not write there"):
        session.sql(f"CREATE SINK s FROM t WITH (connector = 'delta', path = '{tmp_path}/t')")
    DeltaTable(spark, tmp_path / "home" / "t").make(properties="", partitioned="v")
    with pytest.raises(SqlError, match=r"column v is int and string in the Delta table"):
        session.sql("CREATE SINK s FROM t WITH (connector = 'delta', path = 't')")
    session.sql("CREATE TABLE u (id BIGINT PRIMARY KEY, v STRING)")
    with pytest.raises(SqlError, match="the table that is there is partitioned by v"):
        session.sql("CREATE SINK s FROM u WITH (connector = 'delta', path = 't')")


@pytest.mark.long
def test_any_reader_of_delta_reads_it(session: Session, tmp_path: Path) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING, at TIMESTAMP_NTZ, m DECIMAL(20, 2))")
    session.sql(
        "INSERT INTO t VALUES (1, 'a', TIMESTAMP_NTZ '2024-01-01 00:00:00', 1.5), (2, 'b', NULL, NULL)"
    )
    created(
        session, f"CREATE SINK s FROM t WITH (connector = 'delta', path = '{tmp_path}/t', cluster_by = 'id')"
    )
    session.sql("UPDATE t SET v = 'c' WHERE id = 1")
    session.sql("DELETE FROM t WHERE id = 2")
    session.sql("INSERT INTO t VALUES (3, NULL, NULL, 7)")
    brought(session)
    found = RustTable(str(tmp_path / "t")).to_pyarrow_table().sort_by("id").to_pylist()
    assert found == session.sql("SELECT * FROM t ORDER BY id").to_pylist()
    app = session.catalog.get("s").options["app"]
    assert RustTable(str(tmp_path / "t")).transaction_version(app) == versions(tmp_path / "t")[-1]


@pytest.mark.long
def test_reset_keeps_the_properties_that_a_table_has_got(session: Session, spark, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, `a b` STRING)")
    session.sql(f"CREATE SINK s FROM t WITH (connector = 'delta', path = '{target}')")
    session.write("t", pa.table({"id": [1], "a b": ["x"]}))
    session.flush(sink_seconds=120).raise_for_errors()
    DeltaTable(spark, target).sql(
        "ALTER TABLE {} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
        "ALTER TABLE {} SET TBLPROPERTIES ('mine' = 'x')",
    )
    session.sql("ALTER SINK s RESET")
    report = session.flush(sink_seconds=120)
    assert [sink.error for sink in report.sinks] == [None]
    said = [action["metaData"]["configuration"] for action in actions(target) if "metaData" in action]
    assert said[-1].items() >= {"delta.enableChangeDataFeed": "true", "mine": "x"}.items()
    assert rows_by_spark(spark, target) == Counter([("1", "'x'")])

"""Reads: the store answers small ones without Spark, the past stays readable, and Spark reads tables as a source."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.errors import SqlError
from engine.session import Session
from tests.runtime.writes.test_dml import rows


@pytest.fixture
def bids(session: Session) -> Session:
    session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price DOUBLE, note STRING)")
    session.write(
        "bid",
        pa.table(
            {
                "id": pa.array(range(100), pa.int64()),
                "auction": pa.array([i % 10 for i in range(100)], pa.int64()),
                "price": [float(i) for i in range(100)],
                "note": [None if i % 3 else f"n{i}" for i in range(100)],
            }
        ),
    )
    return session


@pytest.fixture
def without_spark(bids: Session, spark: SparkSession) -> Iterator[Session]:
    """A second session on the same store, which starts no Spark session of its own."""
    bids.sql(
        "CREATE MATERIALIZED VIEW top AS SELECT auction, max(price) AS p, count(*) AS n FROM bid GROUP BY auction"
    )
    bids.sql("CREATE INDEX by_auction ON bid (auction)")
    with Session(bids.url) as opened:
        yield opened
        assert opened.on_demand.started is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM bid WHERE id = 7", [(7, 7, 7.0, None)]),
        ("SELECT note, id AS k FROM bid WHERE id IN (9, 3, 3, 500, NULL) ORDER BY k", [("n3", 3), ("n9", 9)]),
        ("SELECT id FROM bid WHERE id = NULL", []),
        ("SELECT id FROM bid WHERE auction = 4 AND price > 80 ORDER BY id", [(84,), (94,)]),
        ("SELECT id FROM bid WHERE price BETWEEN 3 AND 5 ORDER BY id DESC LIMIT 2", [(5,), (4,)]),
        ("SELECT count(*) AS n FROM bid WHERE note IS NULL", [(66,)]),
        ("SELECT p FROM top WHERE auction = 3", [(93.0,)]),
        ("SELECT auction FROM top WHERE n >= 10 AND p < 91 ORDER BY auction", [(0,)]),
        ("SELECT count(*) AS n FROM top", [(10,)]),
    ],
)
def test_small_reads_start_no_spark(without_spark: Session, text: str, expected: list[object]) -> None:
    assert rows(without_spark, text) == expected


def test_a_limit_without_an_order_reads_no_more_than_it_needs(
    without_spark: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.runtime.reads.local_read.LOCAL_SCAN_ROWS", 10)
    assert len(rows(without_spark, "SELECT id FROM bid LIMIT 5")) == 5
    assert rows(without_spark, "SELECT id FROM bid WHERE auction = 2 AND id < 20 ORDER BY id") == [
        (2,),
        (12,),
    ]


def next_millisecond() -> dt.datetime:
    """Return the present once the clock shows another millisecond than it does now: epochs count these."""
    begun = time.time_ns() // 1_000_000
    while time.time_ns() // 1_000_000 == begun:
        pass
    return dt.datetime.now(dt.UTC)


def test_the_past_is_read_by_epoch_and_by_time(bids: Session) -> None:
    bids.sql("CREATE MATERIALIZED VIEW top AS SELECT auction, max(price) AS p FROM bid GROUP BY auction")
    before = bids.store.refresh().epoch
    moment = next_millisecond().isoformat()
    next_millisecond()
    bids.sql("DELETE FROM bid WHERE id >= 10")
    bids.sql("FLUSH")
    for past in (str(before), f"TIMESTAMP '{moment}'", f"'{moment}'"):
        assert rows(bids, f"SELECT count(*) AS n FROM bid FOR SYSTEM_TIME AS OF {past}") == [(100,)]
        assert rows(bids, f"SELECT p FROM top FOR SYSTEM_TIME AS OF {past} WHERE auction = 9") == [(99.0,)]
    assert rows(bids, "SELECT count(*) AS n FROM bid FOR SYSTEM_TIME AS OF now() - INTERVAL '0' SECOND") == [
        (10,)
    ]
    both = f"SELECT count(*) AS gone FROM bid FOR SYSTEM_TIME AS OF {before} AS o LEFT JOIN bid AS b ON o.id = b.id WHERE b.id IS NULL"
    assert rows(bids, both) == [(90,)]
    bids.sql("CREATE VIEW cheap AS SELECT id FROM bid WHERE price < 50")
    assert rows(bids, f"SELECT count(*) AS n FROM cheap FOR SYSTEM_TIME AS OF {before}") == [(50,)]


@pytest.mark.parametrize(
    ("text", "says", "column"),
    [
        ("SELECT id FROM bid FOR SYSTEM_TIME AS OF 99999999999999999", "future", 24),
        ("SELECT id FROM bid FOR SYSTEM_TIME AS OF 'soon'", "no moment", 42),
        ("SELECT id FROM bid FOR SYSTEM_TIME AS OF id", "no moment", 42),
        ("SELECT prize + 1 AS p FROM bid", "prize", 8),
        ("SELECT id,\n  nothing(id) AS p FROM bid", "nothing", 3),
        ("SELECT id FROM bids", "bids", 16),
        ("SELECT sum(note + id) AS s FROM bid GROUP BY nr", "nr", 46),
        ("SELECT array(map()) AS m", "m is array<map<void,void>>: keys without a type", 1),
    ],
)
def test_a_wrong_read_is_told_with_its_place(bids: Session, text: str, says: str, column: int) -> None:
    with pytest.raises(SqlError, match=says) as caught:
        bids.sql(text)
    assert caught.value.column == column and caught.value.hint


@pytest.mark.long
def test_spark_reads_tables_with_columns_filters_partitions_and_the_past(bids: Session) -> None:
    before = bids.store.refresh().epoch
    bids.sql("UPDATE bid SET note = 'new' WHERE id = 1")
    reader = bids.spark.read.format("tideline").option("store", bids.url)
    frame = reader.option("partitions", "4").load("bid")
    assert frame.count() == 100 and frame.rdd.getNumPartitions() == 4
    found = frame.where("id IN (3, 4) AND price > 3.5 AND note IS NULL").select("id", "price")
    assert [tuple(row) for row in found.collect()] == [(4, 4.0)]
    assert frame.where("id = 7 OR auction = 1").count() == 11
    assert frame.where("note <> 'new' AND note LIKE 'n1%'").count() == 3
    assert reader.option("columns", "note, id").load("bid").where("id = 1").collect() == [("new", 1)]
    assert reader.schema("id BIGINT").load("bid").columns == ["id"]
    old = (
        bids.spark.read.format("tideline").option("store", bids.url).option("epoch", str(before)).load("bid")
    )
    assert old.where("id = 1").collect()[0].note is None
    later = dt.datetime.now(dt.UTC).isoformat()
    now = bids.spark.read.format("tideline").option("store", bids.url).option("timestamp", later).load("bid")
    assert now.where("id = 1").collect()[0].note == "new"


def test_a_filter_is_evaluated_in_the_store_and_a_key_is_looked_up(bids: Session) -> None:
    reader = bids.spark.read.format("tideline").option("store", bids.url).option("partitions", "8")
    some = reader.option("filter", "price >= 3 AND note IS NOT NULL AND id < 10").load("bid")
    assert sorted(row.id for row in some.collect()) == [3, 6, 9] and some.rdd.getNumPartitions() == 8
    one = reader.option("filter", "id IN (5, 6) AND price > 5").load("bid")
    assert [row.id for row in one.collect()] == [6] and one.rdd.getNumPartitions() == 1


@pytest.mark.long
def test_a_plain_view_or_a_wrong_option_is_refused_by_the_source(bids: Session, tmp_path: Path) -> None:
    bids.sql("CREATE VIEW cheap AS SELECT id FROM bid")
    for options, table, says in (
        ({}, "cheap", "read it by Session.sql"),
        ({"columns": "id, nr"}, "bid", "no column nr"),
        ({"timestamp": "soon"}, "bid", "no timestamp"),
        ({"filter": "id + 1 = 2"}, "bid", "cannot be evaluated in the store"),
    ):
        with pytest.raises(Exception, match=says):
            bids.spark.read.format("tideline").option("store", bids.url).options(**options).load(
                table
            ).count()


@pytest.mark.long
def test_a_limit_keeps_its_order_below_a_scalar_subquery_and_a_join(session: Session) -> None:
    session.sql("CREATE TABLE o (x INT PRIMARY KEY, s INT)")
    session.sql(f"INSERT INTO o VALUES {', '.join(f'({(n * 7) % 30}, {n % 3})' for n in range(30))}")
    first = "SELECT * FROM (SELECT x, s FROM o) ORDER BY x LIMIT 3"
    chosen = f"SELECT k.*, (SELECT max(x) FROM o AS p WHERE p.s = k.s) AS m FROM ({first}) AS k"
    query = f"SELECT q.x, q.m FROM ({chosen}) AS q LEFT JOIN o AS r ON q.m = r.x"
    session.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    for asked in (query, "SELECT x, m FROM v"):
        assert sorted(row["x"] for row in session.sql(asked).to_pylist()) == [0, 1, 2]


@pytest.mark.parametrize("dialect", ["spark", "postgres"])
def test_null_and_its_contrary_are_told_apart_without_spark(session: Session, dialect: str) -> None:
    session.dialect = dialect  # type: ignore[assignment]
    session.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    session.sql("INSERT INTO t VALUES (1, 5), (2, NULL)")
    chosen = {
        "n IS NULL": [2],
        "n IS NOT NULL": [1],
        "NOT (n IS NULL)": [1],
        "NOT n IS NULL": [1],
        "NOT (n IS NOT NULL)": [2],
        "id IS NOT NULL": [1, 2],
        "id IS NULL": [],
    }
    for condition, ids in chosen.items():
        asked = session.sql(f"SELECT id FROM t WHERE {condition} ORDER BY id")
        assert asked is not None and asked.column("id").to_pylist() == ids, condition
    session.sql("UPDATE t SET n = 7 WHERE id IS NOT NULL")
    session.sql("DELETE FROM t WHERE n IS NOT NULL")
    assert session.sql("SELECT id FROM t").num_rows == 0  # type: ignore[union-attr]

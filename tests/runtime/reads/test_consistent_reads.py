"""Tables that are read together are read at one epoch at which each has content, whoever brought the views on and when."""

from __future__ import annotations

import pytest

from engine.errors import SqlError, TidelineError
from engine.session import Session
from tests.long_rest import mark_rest_long


@pytest.fixture
def twins(session: Session) -> Session:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, x BIGINT)")
    for name in ("a", "b"):
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS SELECT count(*) AS n FROM t")
    session.flush().raise_for_errors()
    return session


JOINED = "SELECT a.n AS a, b.n AS b FROM a FULL JOIN b ON a.n = b.n"


@pytest.mark.parametrize("policy", mark_rest_long(["consistent", "global"]))
def test_twin_views_that_were_flushed_apart_are_read_in_one_state(twins: Session, policy: str) -> None:
    for step in range(1, 4):
        for view in ("a", "b"):
            twins.sql(f"INSERT INTO t VALUES ({step}{len(view)}{ord(view)}, 1)")
            twins.flush([view]).raise_for_errors()
            (row,) = twins.sql(JOINED, policy=policy).to_pylist()
            assert row["a"] == row["b"]
    assert row["a"] >= 5, "the second view stops where the first one stands, so that both meet there"


def test_a_view_over_two_views_waits_for_an_epoch_at_which_both_have_content(twins: Session) -> None:
    twins.sql("CREATE MATERIALIZED VIEW both AS SELECT a.n AS a, b.n AS b FROM a CROSS JOIN b")
    twins.flush().raise_for_errors()
    for step, view in enumerate(("a", "b", "b", "a")):
        twins.sql(f"INSERT INTO t VALUES ({step}, 1)")
        twins.flush([view]).raise_for_errors()
    twins.flush(["both"]).raise_for_errors()
    assert twins.sql("SELECT * FROM both").to_pylist() == [{"a": 4, "b": 4}]
    changes = [row for batch in twins.store.iter_log("both", 0) for row in batch.to_pylist()]
    assert all(row["a"] == row["b"] for row in changes)


def test_a_view_is_read_at_the_epoch_of_the_last_change_that_it_has(twins: Session) -> None:
    twins.sql("INSERT INTO t VALUES (1, 1)")
    first = twins.store.refresh().tables["t"].last_change
    twins.sql("INSERT INTO t VALUES (2, 1)")
    second = twins.store.refresh().tables["t"].last_change
    twins.sql("CREATE TABLE other (id BIGINT PRIMARY KEY)")
    twins.flush().raise_for_errors()
    found = twins.sql(f"SELECT n FROM a FOR SYSTEM_TIME AS OF {second}")
    assert found.to_pylist() == [{"n": 2}]
    with pytest.raises(
        SqlError, match=rf"a has no content at epoch .*\({first}\).*from epoch .*\({second}\) on"
    ):
        twins.sql(f"SELECT n FROM a FOR SYSTEM_TIME AS OF {first}")
    with pytest.raises(TidelineError, match="no content at epoch"):
        twins.sql("SELECT n FROM a", policy=str(first))


@pytest.mark.long
def test_the_spark_source_tells_of_an_epoch_without_content(twins: Session) -> None:
    twins.sql("INSERT INTO t VALUES (1, 1)")
    first = twins.store.refresh().tables["t"].last_change
    twins.sql("INSERT INTO t VALUES (2, 1)")
    twins.flush().raise_for_errors()
    reader = twins.spark.read.format("tideline").option("store", twins.url)
    assert reader.load("a").collect()[0].n == 2
    with pytest.raises(Exception, match="no content at epoch"):
        reader.option("epoch", str(first)).load("a").collect()


def test_two_tables_of_one_timestamp_are_read_at_one_epoch(twins: Session) -> None:
    twins.sql("INSERT INTO t VALUES (1, 1)")
    twins.flush(["a"]).raise_for_errors()
    twins.sql("INSERT INTO t VALUES (2, 1)")
    twins.flush(["b"]).raise_for_errors()
    moment = "FOR SYSTEM_TIME AS OF now() - INTERVAL '0' SECOND"
    (row,) = twins.sql(
        f"SELECT a.n AS a, b.n AS b, (SELECT count(*) FROM t {moment}) AS t FROM a {moment} CROSS JOIN b {moment}"
    ).to_pylist()
    assert row["a"] == row["b"] == row["t"]


@pytest.mark.long
def test_the_common_epoch_of_tables_can_be_handed_to_other_readers(twins: Session) -> None:
    twins.sql("INSERT INTO t VALUES (1, 1)")
    twins.flush(["a"]).raise_for_errors()
    twins.sql("INSERT INTO t VALUES (2, 1)")
    twins.flush(["b"]).raise_for_errors()
    epoch = twins.common_epoch("a", "b")
    reader = twins.spark.read.format("tideline").option("store", twins.url).option("epoch", str(epoch))
    assert reader.load("a").collect() == reader.load("b").collect()


def test_a_row_that_was_mended_after_another_runs_cut_fails_nothing(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT PRIMARY KEY, raw STRING)")
    session.sql("CREATE MATERIALIZED VIEW v AS SELECT sum(CAST(raw AS INT)) AS s FROM t")
    session.sql("CREATE MATERIALIZED VIEW o AS SELECT count(*) AS n FROM t")
    session.sql("INSERT INTO t VALUES (1, '1')")
    session.flush().raise_for_errors()
    session.sql("INSERT INTO t VALUES (2, 'poison')")
    session.flush(["o"]).raise_for_errors()
    session.sql("UPDATE t SET raw = '2' WHERE id = 2")
    session.flush().raise_for_errors()
    assert session.sql("SELECT s, n FROM v CROSS JOIN o").to_pylist() == [{"s": 3, "n": 2}]


@pytest.mark.long
def test_one_flush_brings_what_reads_a_partition_that_it_mends(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT PRIMARY KEY, g INT, raw STRING)")
    session.sql("INSERT INTO t VALUES (1, 7, '1'), (2, 7, '2'), (3, 8, '3')")
    session.sql(
        "CREATE MATERIALIZED VIEW v WITH (partition_by = 'g') AS SELECT g, id, CAST(raw AS INT) AS x FROM t"
    )
    session.sql("CREATE MATERIALIZED VIEW below AS SELECT count(*) AS n, sum(x) AS s FROM v")
    session.sql("UPDATE t SET raw = 'x' WHERE id = 2")
    assert set(session.flush()["v"].quarantined) == {"7"}
    session.sql("UPDATE t SET raw = '50' WHERE id = 2")
    session.sql("INSERT INTO t VALUES (9, 9, '9')")
    session.flush().raise_for_errors()
    assert session.sql("SELECT n, s FROM below").to_pylist() == [{"n": 4, "s": 63}]


def test_a_table_is_not_empty_before_it_was_there_but_not_there(session: Session) -> None:
    session.sql("SET dialect = risingwave")
    session.sql("CREATE TABLE young (a INT)")
    session.sql("INSERT INTO young VALUES (1)")
    for moment in ("963716300", "'2000-02-20T12:13:14-08:30'", "now() - '1' hour"):
        for query in ("SELECT * FROM young {}", "SELECT count(*) FROM young {} JOIN young y ON TRUE"):
            with pytest.raises(SqlError, match="young was not there yet"):
                session.sql(query.format(f"FOR SYSTEM_TIME AS OF {moment}"))
    found = session.sql("SELECT * FROM young FOR SYSTEM_TIME AS OF now()")
    assert found is not None and found.num_rows == 1

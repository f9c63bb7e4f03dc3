"""Tables that are read together are read at one epoch at which each has content, whoever brought the views on and when."""

from __future__ import annotations

import pytest

from engine.errors import SqlError, TidelineError
from engine.session import Session


@pytest.fixture
def twins(session: Session) -> Session:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, x BIGINT)")
    for name in ("a", "b"):
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS SELECT count(*) AS n FROM t")
    session.flush().raise_for_errors()
    return session


JOINED = "SELECT a.n AS a, b.n AS b FROM a FULL JOIN b ON a.n = b.n"


@pytest.mark.parametrize("policy", ["consistent", "global"])
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

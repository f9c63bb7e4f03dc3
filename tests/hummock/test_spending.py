"""What commits have asked of a store is told by their manifests."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.hummock import Hummock, Put
from engine.hummock.metrics import REQUESTS, Counters
from engine.hummock.monitoring.prices import DOLLARS_BY_REQUEST, Spending, calculate_dollars
from engine.session import Session
from engine.testing.memory import MemoryObjectStore


def test_every_kind_of_request_has_a_price() -> None:
    assert set(DOLLARS_BY_REQUEST) == set(REQUESTS)
    assert calculate_dollars({"get": 10_000, "put": 1_000, "delete": 5}) == pytest.approx(0.004 + 0.005)


def test_requests_are_told_once_and_those_of_a_lost_commit_with_the_next() -> None:
    counters = Counters()
    counters.count_request("get", seconds=0.0)
    spent = counters.count_unreported()
    counters.count_request("put", seconds=0.0)
    counters.add_requests({"get": 2})
    assert spent == {"get": 1} and counters.count_unreported() == {"get": 3, "put": 1}
    counters.mark_reported(spent)
    assert counters.count_unreported() == {"get": 2, "put": 1}


def test_the_newest_commits_tell_all_that_their_process_asked_for() -> None:
    with Hummock.open("memory://spending", object_store=MemoryObjectStore()) as store:
        assert store.spending() is None
        store.create_table("t", pa.schema([("id", pa.int64()), ("n", pa.int64())]), ["id"])
        for n in range(150):  # over two checkpoints
            store.ingest_batch({"t": [Put(pa.table({"id": [n], "n": [n]}))]})
        spent = store.spending()  # also of compactions
        assert spent is not None and 64 <= spent.commits <= 128
        assert spent.requests["put_if_absent"] == spent.commits
        assert spent.requests["put"] >= spent.commits and spent.until >= spent.since


def test_a_months_price_is_not_guessed_from_a_moment() -> None:
    assert Spending(2, 0.0, 59.0, {"put": 10}).dollars_a_month is None
    month = Spending(2, 0.0, 3600.0, {"put": 1_000}).dollars_a_month
    assert month == pytest.approx(0.005 * 24 * 30)


def test_requests_of_spark_tasks_are_among_those_of_the_commits(s3_url: str, spark: SparkSession) -> None:
    with Session(s3_url, spark) as session:
        session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g BIGINT)")
        session.sql("CREATE MATERIALIZED VIEW v AS SELECT g, count(*) AS n FROM t GROUP BY g")
        before = session.store.metrics().requests
        session.write("t", pa.table({"id": [1, 2], "g": [1, 1]}))
        session.flush().raise_for_errors()
        made = session.store.metrics().requests
        # files: one of the table, one of the view, which a task has written
        assert made["put"] - before.get("put", 0) >= 2

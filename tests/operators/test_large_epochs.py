"""Epochs that are spread over partitions give what small ones give: groups fold where they are written, terms cancel in the sink."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from engine.operators import context
from engine.runtime import executor
from engine.runtime.epoch import spark_executor
from engine.session import Session
from tests.oracle.batch import assert_equal, by_duckdb, content

VIEWS = {
    "sums": "SELECT auction, count(*) AS n, sum(price) AS total, avg(price) AS mean FROM bid GROUP BY auction",
    "by_expression": "SELECT price % 3 AS p, auction AS a, count(price) AS n FROM bid GROUP BY auction, price % 3",
    "filtered": "SELECT auction, price + 1 AS q, max(id) AS last FROM bid WHERE price > 3 GROUP BY auction, price + 1",
    "whole": "SELECT count(*) AS n, sum(price) AS total FROM bid",
    "wide": "SELECT b.id, b.price, a.item FROM bid b LEFT JOIN auction a ON b.auction = a.id",
    "items": "SELECT a.item, count(*) AS n, sum(b.price) AS total FROM bid b JOIN auction a ON b.auction = a.id GROUP BY a.item",
}


@pytest.fixture
def spread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes every epoch a large one."""
    monkeypatch.setattr(context, "SMALL_CHANGE_ROWS", 2)
    monkeypatch.setattr(executor, "SMALL_CHANGE_ROWS", 2)
    monkeypatch.setattr(spark_executor, "COPIED_ROWS", 0)


def bids(chance: random.Random, rows: int) -> pa.Table:
    """Return bids with ids below 60, some without an auction."""
    ids = chance.sample(range(60), rows)
    auctions = [chance.choice([None, *range(8)]) for _ in ids]
    return pa.table(
        {
            "id": ids,
            "auction": pa.array(auctions, pa.int64()),
            "price": [chance.randrange(9) for _ in ids],
        }
    )


@pytest.mark.long
def test_views_equal_a_batch_run_after_epochs_over_several_partitions(session: Session, spread: None) -> None:
    chance = random.Random(5)
    session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT)")
    session.sql("CREATE TABLE auction (id BIGINT PRIMARY KEY, item STRING)")
    session.write("bid", bids(chance, 30))
    session.write("auction", pa.table({"id": [0, 1, 2, 3], "item": ["a", "b", "a", "c"]}))
    for name, query in VIEWS.items():
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}", build=False)
    session.flush().raise_for_errors()
    for _ in range(2):
        session.write("bid", bids(chance, 20), mode="upsert")
        session.sql(f"DELETE FROM bid WHERE auction = {chance.randrange(8)}")
        items = [chance.choice("abcd") for _ in range(3)]
        session.write("auction", pa.table({"id": chance.sample(range(8), 3), "item": items}), mode="upsert")
        session.flush().raise_for_errors()
        tables = {name: content(session, name) for name in ("bid", "auction")}
        for name, query in VIEWS.items():
            assert_equal(content(session, name), by_duckdb(tables, query), name)

"""Every kind of view equals a batch run of its query by DuckDB and Spark after random epochs of inserts, updates and deletes."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from engine.session import Session
from tests.oracle.batch import assert_views_equal_duckdb

TABLES = ("bid", "auction", "category")
VIEWS = {
    "linear": "SELECT id, price * 2 AS double_price, upper(note) AS note FROM bid WHERE price > 20",
    "grouped": "SELECT auction, count(*) AS n, count(price) AS priced, sum(price) AS total, avg(price) AS mean FROM bid GROUP BY auction",
    "extremes": "SELECT auction, min(price) AS low, max(price) AS high, max(note) AS last_note FROM bid GROUP BY auction",
    "by_expression": "SELECT price % 5 AS bucket, count(*) AS n, min(note) AS first_note FROM bid GROUP BY price % 5",
    "distinct_values": "SELECT DISTINCT auction, price FROM bid",
    "distinct_count": "SELECT auction, count(DISTINCT price) AS prices FROM bid GROUP BY auction",
    "whole": "SELECT count(*) AS n, sum(price) AS total, max(price) AS high FROM bid",
    "whole_fast": "SELECT count(*) AS n, sum(price) AS total FROM bid",
    "over_two": "SELECT auction, count(*) AS n FROM bid GROUP BY auction HAVING count(*) > 2",
    "joined": "SELECT b.id, b.price, a.item, a.category FROM bid b JOIN auction a ON b.auction = a.id",
    "joined_sum": (
        "SELECT a.category, count(*) AS n, sum(b.price) AS total FROM bid b JOIN auction a ON b.auction = a.id "
        "GROUP BY a.category"
    ),
    "joined_max": (
        "SELECT a.category, max(b.price) AS high FROM bid b JOIN auction a ON b.auction = a.id GROUP BY a.category"
    ),
    "kept_left": "SELECT b.id, b.price, a.item FROM bid b LEFT JOIN auction a ON b.auction = a.id",
    "left_with_test": (
        "SELECT b.id, a.item, a.category FROM bid b LEFT JOIN auction a ON b.auction = a.id AND a.category > 1 AND b.price > a.id"
    ),
    "from_auctions": "SELECT a.id AS auction_id, a.item, b.id AS bid_id, b.price FROM auction a LEFT JOIN bid b ON a.id = b.auction",
    "three": (
        "SELECT b.id, a.item, c.label FROM bid b JOIN auction a ON b.auction = a.id LEFT JOIN category c ON a.category = c.id"
    ),
    "self_join": "SELECT x.id AS low_bid, y.id AS high_bid FROM bid x JOIN bid y ON x.auction = y.auction AND x.price < y.price",
    "united": "SELECT id, price AS amount FROM bid WHERE price > 50 UNION ALL SELECT id, category AS amount FROM auction",
    "over_subquery": (
        "SELECT s.auction, s.n, a.item FROM (SELECT auction, count(*) AS n FROM bid GROUP BY auction) s "
        "JOIN auction a ON s.auction = a.id"
    ),
    "with_cte": (
        "WITH totals AS (SELECT auction, sum(price) AS total FROM bid GROUP BY auction) "
        "SELECT a.category, count(*) AS auctions, sum(t.total) AS total FROM totals t JOIN auction a ON t.auction = a.id "
        "GROUP BY a.category"
    ),
    "left_of_aggregate": (
        "SELECT a.id, a.item, t.high FROM auction a LEFT JOIN (SELECT auction, max(price) AS high FROM bid GROUP BY auction) t "
        "ON a.id = t.auction"
    ),
    "null_groups": "SELECT note, count(*) AS n, sum(price) AS total, max(price) AS high FROM bid GROUP BY note",
    "filtered_calls": "SELECT auction, count(*) FILTER (WHERE price > 30) AS dear, sum(price) FILTER (WHERE note IS NULL) AS unnoted FROM bid GROUP BY auction",
    "cases": "SELECT id, CASE WHEN price > 50 THEN 'high' WHEN price IS NULL THEN 'none' ELSE 'low' END AS level FROM bid",
}
ON_VIEWS = {
    "upper_floor": ("SELECT n, count(*) AS auctions FROM {grouped} GROUP BY n", "grouped"),
    "named": (
        "SELECT g.auction, g.total, a.item FROM {grouped} g JOIN auction a ON g.auction = a.id",
        "grouped",
    ),
}


def create_tables(session: Session) -> None:
    session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT, note STRING)")
    session.sql("CREATE TABLE auction (id BIGINT PRIMARY KEY, item STRING, category INT)")
    session.sql("CREATE TABLE category (id INT PRIMARY KEY, label STRING)")


def random_bids(chance: random.Random, ids: list[int]) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "auction": pa.array([chance.choice([None, *range(8)]) for _ in ids], pa.int64()),
            "price": pa.array([chance.choice([None, chance.randrange(100)]) for _ in ids], pa.int64()),
            "note": pa.array([chance.choice([None, "a", "b", "ä"]) for _ in ids], pa.string()),
        }
    )


def random_epoch(session: Session, chance: random.Random) -> None:
    """Change some of the tables: inserts, updates, deletes, or nothing."""
    if chance.random() < 0.8:
        ids = chance.sample(range(60), chance.randrange(1, 25))
        session.write("bid", random_bids(chance, ids))
    if chance.random() < 0.6:
        keys = chance.sample(range(60), chance.randrange(1, 15))
        session.write("bid", pa.table({"id": pa.array(keys, pa.int64())}), mode="delete")
    if chance.random() < 0.7:
        ids = chance.sample(range(10), chance.randrange(1, 5))
        rows = {
            "id": pa.array(ids, pa.int64()),
            "item": [chance.choice("pqr") for _ in ids],
            "category": pa.array([chance.choice([None, 1, 2, 3]) for _ in ids], pa.int32()),
        }
        session.write("auction", pa.table(rows))
    if chance.random() < 0.3:
        session.write(
            "auction", pa.table({"id": pa.array([chance.randrange(10)], pa.int64())}), mode="delete"
        )
    if chance.random() < 0.4:
        ids = chance.sample(range(1, 4), chance.randrange(1, 3))
        session.write(
            "category",
            pa.table({"id": pa.array(ids, pa.int32()), "label": [chance.choice("xyz") for _ in ids]}),
        )


@pytest.mark.long
@pytest.mark.parametrize(("seed", "epochs"), [(1, 2), (2, 5)])
def test_views_equal_batch_results_after_random_epochs(
    session: Session, code_generated: None, seed: int, epochs: int
) -> None:
    chance = random.Random(seed)
    create_tables(session)
    if seed % 2:  # views over rows that are there already
        session.write("bid", random_bids(chance, list(range(30))))
    for name, query in VIEWS.items():
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    for name, (query, base) in ON_VIEWS.items():
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query.format(**{base: base})}")
    on_views = {name: query.format(**{base: f"({VIEWS[base]})"}) for name, (query, base) in ON_VIEWS.items()}
    for epoch in range(epochs):
        random_epoch(session, chance)
        session.flush().raise_for_errors()
        assert_views_equal_duckdb(session, TABLES, VIEWS | on_views, f"seed {seed}, epoch {epoch}")

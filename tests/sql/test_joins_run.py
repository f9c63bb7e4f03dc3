"""Joins and filters that the binder moves give, epoch after epoch, what DuckDB gives for the query as it was written."""

from __future__ import annotations

import random

import pytest

from engine.session import Session
from tests.oracle.batch import assert_views_equal_duckdb
from tests.runtime.test_incremental_views import TABLES, create_tables, random_bids, random_epoch

VIEWS = {
    "right_with_where": (
        "SELECT b.id, c.label, a.id AS aid FROM bid b JOIN auction a ON b.auction = a.id "
        "RIGHT JOIN category c ON a.category = c.id WHERE b.price > 10 OR c.label = 'x'"
    ),
    "equality_above_right": (
        "SELECT b.id, c.id AS cid FROM auction a JOIN bid b ON a.id = b.auction "
        "RIGHT JOIN category c ON a.category = c.id WHERE a.id = b.auction"
    ),
    "reordered": "SELECT b.id, c.label FROM category c, bid b, auction a WHERE b.auction = a.id AND a.category = c.id",
    "using_right": "SELECT id, b.price, a.item FROM bid b RIGHT JOIN auction a USING (id)",
    "using_three": "SELECT id, price, item, label FROM bid JOIN auction USING (id) LEFT JOIN category USING (id)",
    "through_group": (
        "SELECT t.auction, t.n FROM (SELECT auction, count(*) AS n FROM bid GROUP BY auction) t "
        "WHERE t.auction > 2 AND t.n > 1"
    ),
    "through_left": (
        "SELECT s.id, s.item FROM (SELECT b.id, b.price AS p, a.item FROM bid b LEFT JOIN auction a ON b.auction = a.id) s "
        "WHERE s.p > 30 AND s.item IS NULL"
    ),
    "having_key": "SELECT auction, max(price) AS m FROM bid GROUP BY auction HAVING auction > 3 AND max(price) > 20",
    "computed_key": "SELECT b.id, a.item FROM bid b JOIN auction a ON b.auction + 1 = a.id",
    "widened": "SELECT b.id, c.label FROM bid b JOIN category c ON b.auction = c.id",
    "constant": "SELECT 1 AS one FROM (SELECT count(*) AS n FROM bid) t",
    "listed": "WITH t(p, q) AS (SELECT id, price FROM bid) SELECT p, q FROM t WHERE q > 20",
    "left_residual": "SELECT b.id, a.item FROM bid b LEFT JOIN auction a ON b.auction = a.id AND b.price > 50",
    "three_inner": (
        "SELECT b.id, c.label FROM bid b JOIN auction a ON b.auction = a.id AND b.price > 10 "
        "JOIN category c ON c.id = a.category AND c.label <> 'x'"
    ),
    "distinct_filtered": "SELECT d.auction FROM (SELECT DISTINCT auction, price FROM bid) d WHERE d.price > 20",
}


@pytest.mark.oracle
def test_moved_filters_and_reordered_joins_give_what_the_query_says(session: Session) -> None:
    chance = random.Random(5)
    create_tables(session)
    session.write("bid", random_bids(chance, list(range(30))))
    for name, query in VIEWS.items():
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    for epoch in range(3):
        random_epoch(session, chance)
        session.flush().raise_for_errors()
        assert_views_equal_duckdb(session, TABLES, VIEWS, f"epoch {epoch}")

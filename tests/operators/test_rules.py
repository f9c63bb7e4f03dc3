"""Joins of every kind, subqueries, set operations, first rows and ordered aggregates equal DuckDB after random epochs."""

from __future__ import annotations

import random

import pytest

from engine.session import Session
from tests.oracle.batch import assert_equal, by_duckdb, content
from tests.runtime.test_incremental_views import create_tables, random_bids, random_epoch

VIEWS = {
    "v_exists": "SELECT a.id, a.item FROM auction a WHERE EXISTS (SELECT 1 FROM bid b WHERE b.auction = a.id AND b.price > 30)",
    "v_not_exists": "SELECT a.id, a.item FROM auction a WHERE NOT EXISTS (SELECT 1 FROM bid b WHERE b.auction = a.id)",
    "v_in": "SELECT id, price FROM bid WHERE auction IN (SELECT id FROM auction WHERE category = 1)",
    "v_not_in": "SELECT id, price FROM bid WHERE auction NOT IN (SELECT category FROM auction)",
    "v_right": "SELECT b.id, b.price, a.id AS auction_id, a.item FROM bid b RIGHT JOIN auction a ON b.auction = a.id",
    "v_full": "SELECT b.id, b.price, a.id AS auction_id, a.item FROM bid b FULL JOIN auction a ON b.auction = a.id",
    "v_cross": "SELECT a.id AS x, c.id AS y FROM auction a CROSS JOIN category c",
    "v_theta": "SELECT a.id AS x, c.id AS y FROM auction a JOIN category c ON a.category > c.id",
    "v_theta_left": "SELECT a.id AS x, c.id AS y FROM auction a LEFT JOIN category c ON a.category > c.id",
    "v_null_safe": "SELECT b.id AS x, a.id AS y FROM bid b JOIN auction a ON b.auction IS NOT DISTINCT FROM a.category",
    "v_scalar": "SELECT id, price FROM bid WHERE price > (SELECT avg(price) FROM bid)",
    "v_correlated": "SELECT a.id, (SELECT count(*) FROM bid b WHERE b.auction = a.id) AS n FROM auction a",
    "v_correlated_max": "SELECT b.id FROM bid b WHERE b.price = (SELECT max(x.price) FROM bid x WHERE x.auction = b.auction)",
    "v_or_exists": "SELECT a.id FROM auction a WHERE a.category = 2 OR EXISTS (SELECT 1 FROM bid b WHERE b.auction = a.id AND b.note = 'a')",
    "v_union": "SELECT auction AS x FROM bid UNION SELECT id AS x FROM auction",
    "v_intersect": "SELECT auction AS x FROM bid INTERSECT SELECT id AS x FROM auction",
    "v_except": "SELECT id AS x FROM auction EXCEPT SELECT auction AS x FROM bid",
    "v_intersect_all": "SELECT auction AS x FROM bid INTERSECT ALL SELECT category AS x FROM auction",
    "v_except_all": "SELECT auction AS x FROM bid EXCEPT ALL SELECT category AS x FROM auction",
    "v_top": "SELECT id, price FROM bid ORDER BY price DESC NULLS LAST, id LIMIT 5",
    "v_nested_aggregates": (
        "SELECT a.id, m.top FROM auction a JOIN (SELECT max(n) AS top FROM "
        "(SELECT auction, count(*) AS n FROM bid GROUP BY auction) s) m ON a.id = m.top"
    ),
    "v_one_column_twice": "SELECT b.id, a.id AS x FROM bid b JOIN auction a ON b.auction = a.id AND b.auction = a.category",
    "v_semi_then_group": "SELECT note, count(*) AS n FROM bid b WHERE EXISTS (SELECT 1 FROM auction a WHERE a.id = b.auction) GROUP BY note",
    "v_join_of_semi": (
        "SELECT s.id, c.label FROM (SELECT * FROM auction a WHERE a.id IN (SELECT auction FROM bid)) s JOIN category c ON s.category = c.id"
    ),
    "v_values": "SELECT b.id, v.word FROM bid b JOIN (VALUES (1, 'one'), (2, 'two')) AS v(n, word) ON b.auction = v.n",
}


@pytest.mark.parametrize("seed", [3])
def test_views_equal_a_batch_run_after_random_epochs(session: Session, seed: int) -> None:
    chance = random.Random(seed)
    create_tables(session)
    session.write("bid", random_bids(chance, list(range(30))))
    for name, query in VIEWS.items():
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}", build=False)
    for epoch in range(2):
        random_epoch(session, chance)
        session.flush().raise_for_errors()
        tables = {name: content(session, name) for name in ("bid", "auction", "category")}
        for name, query in VIEWS.items():
            assert_equal(
                content(session, name), by_duckdb(tables, query), f"seed {seed}, epoch {epoch}, view {name}"
            )

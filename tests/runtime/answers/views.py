"""Small random tables, views of every kind over them, and the check that the rows behind a row of a view make it again."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from engine.runtime.answers.why import RowOrigin, are_equal
from engine.session import Session

TABLES = {
    "bid": "id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT, at TIMESTAMP, rate DOUBLE",
    "auction": "id BIGINT PRIMARY KEY, seller STRING, reserve BIGINT",
    "visit": "auction BIGINT, who STRING",
}
"""A key that bids refer to may be null, or of no auction; visits have no key."""
TUMBLE = "TUMBLE(bid, at, INTERVAL '10 minutes')"
VIEWS = {
    "cheap": "SELECT id, price FROM bid WHERE price < 40 OR price IS NULL",
    "pairs": "SELECT b.id, a.seller, b.price + a.reserve AS total FROM bid b JOIN auction a ON a.id = b.auction",
    "padded": "SELECT b.id, a.seller, a.reserve FROM bid b LEFT JOIN auction a ON a.id = b.auction",
    "both": "SELECT b.id, a.seller FROM bid b FULL JOIN auction a ON a.id = b.auction",
    "sold": "SELECT id, seller FROM auction a WHERE EXISTS (SELECT 1 FROM bid b WHERE b.auction = a.id)",
    "unsold": "SELECT id, seller FROM auction a WHERE NOT EXISTS (SELECT 1 FROM bid b WHERE b.auction = a.id)",
    "unseen": "SELECT id FROM auction WHERE id NOT IN (SELECT auction FROM visit WHERE who <> 'x')",
    "unmatched": "SELECT id FROM bid WHERE auction NOT IN (SELECT id FROM auction WHERE reserve > 20)",
    "best": "SELECT auction, max(price) AS best, count(*) AS n, avg(rate) AS r FROM bid GROUP BY auction",
    "totals": "SELECT count(*) AS n, sum(price) AS total FROM bid",
    "per_price": "SELECT price DIV 20 AS step, count(DISTINCT auction) AS n FROM bid GROUP BY price DIV 20 HAVING count(*) > 1",
    "sellers": "SELECT DISTINCT seller FROM auction",
    "running": "SELECT id, auction, sum(price) OVER (PARTITION BY auction ORDER BY id) AS t FROM bid",
    "places": "SELECT id, rank() OVER (ORDER BY price) AS place FROM bid",
    "first": "SELECT id, price FROM bid ORDER BY price DESC LIMIT 3",
    "next": "SELECT id, price FROM bid ORDER BY price LIMIT 2 OFFSET 2",
    "leaders": (
        "SELECT id, auction, price FROM (SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC) AS n "
        "FROM bid) t WHERE n <= 2"
    ),
    "numbers": "SELECT id AS n, 'bid' AS what FROM bid UNION ALL SELECT reserve, seller FROM auction",
    "above": "SELECT id, price FROM bid WHERE price > (SELECT avg(price) FROM bid)",
    "own_best": "SELECT id, (SELECT max(price) FROM bid b WHERE b.auction = a.id) AS best FROM auction a",
    "windows": f"SELECT window_start, count(*) AS n, sum(price) AS total FROM {TUMBLE} GROUP BY window_start",
    "visits": "SELECT auction, count(*) AS n FROM visit GROUP BY auction",
    "seen": "SELECT v.who, a.seller FROM visit v JOIN auction a ON a.id = v.auction",
    "by_seller": "SELECT seller, sum(best) AS total FROM best JOIN auction ON auction.id = best.auction GROUP BY seller",
    "rich": "SELECT s.seller, t.total, t.total * 100 DIV w.total AS share FROM by_seller t JOIN sellers s ON s.seller <=> t.seller "
    "CROSS JOIN totals w",
    "twice": "SELECT a.id, b.id AS other FROM bid a JOIN bid b ON a.auction = b.auction AND a.id < b.id",
    "lonely": (
        "SELECT b.id, b.price FROM bid b WHERE NOT EXISTS (SELECT 1 FROM bid c WHERE c.auction = b.auction AND c.id <> b.id)"
    ),
    "paired": "SELECT id, price FROM bid b WHERE NOT EXISTS (SELECT 1 FROM lonely l WHERE l.price = b.price)",
    "odd": "SELECT a.id, b.n FROM bid a LEFT JOIN (SELECT price, count(*) AS n FROM bid GROUP BY price) b ON b.n = a.id",
    "tops": "SELECT b.id, f.price FROM bid b LEFT JOIN first f ON f.id = b.auction",
    "parts": "SELECT id, part FROM auction LATERAL VIEW explode(split(seller, '')) x AS part",
    "least": "SELECT least(a.id, 3) AS k, max(b.price) AS p FROM auction a LEFT JOIN bid b ON a.id = b.auction GROUP BY least(a.id, 3)",
    "either": "SELECT auction FROM bid EXCEPT SELECT id FROM auction",
    "shared": "SELECT auction FROM bid INTERSECT SELECT id FROM auction",
    "cubes": "SELECT auction, price DIV 50 AS step, count(*) AS n FROM bid GROUP BY ROLLUP (auction, price DIV 50)",
    "strict": (
        "SELECT b.id, a.seller FROM bid b JOIN (SELECT * FROM auction WHERE reserve >= 0) a "
        "ON a.id = b.auction AND coalesce(b.price, 100) >= a.reserve WHERE coalesce(b.rate, 0) < 100"
    ),
    "repeated": "SELECT auction, count(*) AS n FROM bid GROUP BY auction HAVING count(*) > 1 AND max(id) < 1000",
    "wholly": "SELECT id, ntile(3) OVER (ORDER BY price, id) AS third FROM bid",
}
"""By name their queries; those that are read by others come before these."""
OPTIONS = {"wholly": " WITH (refresh_policy = 'full', key = 'id')"}


def make_rows(seed: int, bids: int = 25) -> dict[str, pa.Table]:
    """Return the rows of the tables."""
    draw = random.Random(seed)
    auctions = draw.sample(range(1, 12), 8)
    maybe = lambda value: None if draw.random() < 0.12 else value  # noqa: E731
    return {
        "bid": pa.table(
            {
                "id": pa.array(range(1, bids + 1), pa.int64()),
                "auction": pa.array([maybe(draw.randint(1, 11)) for _ in range(bids)], pa.int64()),
                "price": pa.array([maybe(draw.randint(0, 9) * 10) for _ in range(bids)], pa.int64()),
                "at": pa.array(
                    [draw.randint(0, 60) * 60_000_000 for _ in range(bids)], pa.timestamp("us", "UTC")
                ),
                "rate": pa.array(
                    [maybe(draw.choice([0.1, 0.25, 1.5, -0.0])) for _ in range(bids)], pa.float64()
                ),
            }
        ),
        "auction": pa.table(
            {
                "id": pa.array(auctions, pa.int64()),
                "seller": pa.array(
                    [maybe(draw.choice(["ann", "bob", "eve"])) for _ in auctions], pa.string()
                ),
                "reserve": pa.array([draw.randint(0, 4) * 10 for _ in auctions], pa.int64()),
            }
        ),
        "visit": pa.table(
            {
                "auction": pa.array(
                    [maybe(draw.randint(1, 11)) if seed % 2 else draw.randint(1, 11) for _ in range(6)],
                    pa.int64(),
                ),
                "who": pa.array([draw.choice(["x", "y"]) for _ in range(6)], pa.string()),
            }
        ),
    }


def create_tables(session: Session) -> None:
    """Create the tables."""
    for name, columns in TABLES.items():
        session.sql(f"CREATE TABLE {name} ({columns})")


def create_views(session: Session, names: Sequence[str]) -> None:
    """Create some of the views, with those that they read, in one build."""
    for name in list_with_inputs(names):
        if name not in session.catalog.relations:
            text = f"CREATE MATERIALIZED VIEW {name}{OPTIONS.get(name, '')} AS {VIEWS[name]}"
            session.sql(text, build=False)
    session.flush().raise_for_errors()


def list_with_inputs(names: Sequence[str]) -> list[str]:
    """Return views and the views that they read, these first."""
    found: dict[str, None] = {}
    for name in names:
        words = set(VIEWS[name].replace("(", " ").replace(".", " ").split())
        inputs = [other for other in list(VIEWS)[: list(VIEWS).index(name)] if other in words - set(TABLES)]
        found |= dict.fromkeys([*list_with_inputs(inputs), name])
    return list(found)


def load_rows(session: Session, rows: Mapping[str, pa.Table]) -> None:
    """Write rows to the tables."""
    for name, some in rows.items():
        if some.num_rows:
            session.write(name, some, mode="insert")


def has_row(session: Session, view: str, row: Mapping[str, Any]) -> bool:
    """Tell whether a view has a row with these shown columns."""
    found = session.sql(f"SELECT * FROM {view}")
    assert found is not None
    return any(are_equal(one, dict(row)) for one in found.to_pylist())


def replay(session: Session, origin: RowOrigin) -> bool:
    """Tell whether the rows behind a row make it again, alone in the tables of another store with the same views."""
    for name in TABLES:
        session.sql(f"DELETE FROM {name}")
    load_rows(session, origin.sources)
    session.flush([origin.view]).raise_for_errors()
    return has_row(session, origin.view, origin.row.to_pylist()[0])

"""refresh_policy = 'full': any deterministic query is a view, and only the difference of its recomputation is committed."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest

from engine.errors import SqlError
from engine.session import Session
from tests.runtime.writes.test_dml import rows


@pytest.fixture
def bids(session: Session) -> Session:
    session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT, tags ARRAY<STRING>)")
    session.sql(
        "INSERT INTO bid VALUES (1, 1, 10, array('x')), (2, 1, 20, NULL), (3, 2, 30, array('y', 'z'))"
    )
    return session


QUERIES = {
    "ranked": "SELECT id, auction, row_number() OVER (PARTITION BY auction ORDER BY price DESC, id) AS r FROM bid",
    "latest": "SELECT id, price FROM bid ORDER BY price DESC, id LIMIT 2",
    "doubled": "SELECT auction FROM bid UNION ALL SELECT auction FROM bid",
    "nested": "SELECT auction % 2 AS odd, sort_array(collect_list(price)) AS prices, map(auction % 2, 1) AS m FROM bid GROUP BY auction % 2",
    "apart": "WITH a AS (SELECT auction FROM bid WHERE price > 15) SELECT id FROM bid EXCEPT SELECT auction FROM a",
}


def test_a_recomputed_view_follows_every_kind_of_change(bids: Session) -> None:
    for name, query in QUERIES.items():
        bids.sql(f"CREATE MATERIALIZED VIEW {name} WITH (refresh_policy = 'full') AS {query}", build=False)
    dice = random.Random(7)
    for _ in range(3):
        bids.sql("FLUSH")
        for name, query in QUERIES.items():
            assert Counter(map(str, rows(bids, f"SELECT * FROM {name}"))) == Counter(
                map(str, rows(bids, query))
            ), name
        ids = [dice.randrange(8) for _ in range(3)]
        new = pa.table(
            {
                "id": pa.array(ids, pa.int64()),
                "auction": pa.array([i % 3 for i in ids], pa.int64()),
                "price": pa.array([dice.randrange(50) for _ in ids], pa.int64()),
            }
        )
        bids.write("bid", new)
        bids.write("bid", pa.table({"id": pa.array([dice.randrange(8)], pa.int64())}), mode="delete")


def test_only_the_difference_is_committed_and_views_below_stay_incremental(bids: Session) -> None:
    bids.sql(
        f"CREATE MATERIALIZED VIEW ranked WITH (refresh_policy = 'full', key = 'id') AS {QUERIES['ranked']}"
    )
    bids.sql("CREATE MATERIALIZED VIEW first AS SELECT r, count(*) AS n FROM ranked GROUP BY r")
    bids.sql("INSERT INTO bid VALUES (4, 2, 5, NULL)")
    report = bids.flush()
    assert (report["ranked"].inserted, report["ranked"].updated, report["ranked"].deleted) == (1, 0, 0)
    assert report["ranked"].rule == "full" and report["first"].rule == "aggregate"
    bids.sql("UPDATE bid SET price = 100 WHERE id = 4")
    report = bids.flush()
    assert (report["ranked"].inserted, report["ranked"].updated, report["ranked"].deleted) == (0, 2, 0)
    assert rows(bids, "SELECT r, n FROM first ORDER BY r") == [(1, 2), (2, 2)]


def test_a_key_that_is_not_unique_fails_the_view_and_leaves_no_trace(bids: Session) -> None:
    before = dict(bids.store.refresh().catalog)
    with pytest.raises(Exception, match="more than one row for the key") as raised:
        bids.sql(
            "CREATE MATERIALIZED VIEW v WITH (refresh_policy = 'full', key = 'auction') AS SELECT auction, price FROM bid"
        )
    assert "sink.py" not in str(raised.value)
    assert {k for k in bids.store.refresh().catalog if k.startswith(("relation/", "plan/"))} == set(before)


@pytest.mark.parametrize(
    ("options", "query", "says", "remedy"),
    [
        ("refresh_policy = 'full'", "SELECT id, rand() AS r FROM bid", "another value", "store the value"),
        ("refresh_policy = 'full'", "SELECT id FROM bid LIMIT 1", "which rows", "ORDER BY"),
        ("refresh_policy = 'full'", "SELECT first(price) AS p FROM bid", "order of rows", "min, max"),
        ("refresh_policy = 'full'", "SELECT 1 AS one", "no table", "at least one"),
        ("refresh_policy = 'full'", "SELECT prize FROM bid", "prize", "price"),
        ("refresh_policy = 'full', key = 'nr'", "SELECT id FROM bid", "no column", "columns are id"),
        (
            "refresh_policy = 'auto'",
            "SELECT id FROM bid SORT BY id",
            "SORT BY",
            "refresh_policy = 'full'",
        ),
    ],
)
def test_what_cannot_be_recomputed_is_refused(
    bids: Session, options: str, query: str, says: str, remedy: str
) -> None:
    before = dict(bids.store.refresh().catalog)
    with pytest.raises(SqlError, match=says) as caught:
        bids.sql(f"CREATE MATERIALIZED VIEW v WITH ({options}) AS {query}")
    assert remedy in str(caught.value) and caught.value.line == 1
    assert dict(bids.store.refresh().catalog) == before

"""CREATE TABLE AS, views, indexes and functions, and what reads them."""

from __future__ import annotations

import pytest

from engine.errors import SqlError
from engine.session import Session
from tests.runtime.writes.test_dml import rows


@pytest.fixture
def bids(session: Session) -> Session:
    session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT)")
    session.sql("INSERT INTO bid VALUES (1, 1, 10), (2, 1, 20), (3, 2, 30)")
    return session


def test_create_table_as_has_the_rows_and_types_of_its_query(bids: Session) -> None:
    bids.sql("CREATE TABLE kept (PRIMARY KEY (id)) AS SELECT id, price / 2 AS half FROM bid WHERE price > 10")
    assert rows(bids, "SELECT * FROM kept ORDER BY id") == [(2, 10.0), (3, 15.0)]
    bids.sql("INSERT INTO kept VALUES (9, 1.5)")
    bids.sql("CREATE TABLE loose AS SELECT auction, count(*) AS n FROM bid GROUP BY auction")
    bids.sql("DELETE FROM loose WHERE auction = 2")
    bids.sql("UPDATE loose SET n = n + 1")
    assert rows(bids, "SELECT * FROM loose") == [(1, 3)]


def test_create_table_as_refuses_a_key_that_is_not_unique(bids: Session) -> None:
    before = dict(bids.store.refresh().catalog)
    with pytest.raises(Exception, match="occurs twice"):
        bids.sql("CREATE TABLE k (PRIMARY KEY (auction)) AS SELECT auction, price FROM bid")
    with pytest.raises(SqlError, match="no column of k"):
        bids.sql("CREATE TABLE k (PRIMARY KEY (nr)) AS SELECT auction, price FROM bid")
    assert dict(bids.store.refresh().catalog) == before


def test_a_plain_view_is_expanded_where_it_is_read(bids: Session) -> None:
    bids.sql("CREATE VIEW high (key, amount) AS SELECT id, price FROM bid WHERE price > 10")
    bids.sql("CREATE VIEW higher AS SELECT key, amount FROM high WHERE amount > 20")
    bids.sql("CREATE MATERIALIZED VIEW total AS SELECT sum(amount) AS s FROM high")
    bids.sql("INSERT INTO bid VALUES (4, 2, 40)")
    bids.sql("FLUSH")
    assert rows(bids, "SELECT * FROM higher ORDER BY key") == [(3, 30), (4, 40)]
    assert rows(bids, "SELECT s FROM total") == [(90,)]
    with pytest.raises(SqlError, match=r"higher.*total|total.*higher"):
        bids.sql("DROP VIEW high RESTRICT")
    bids.sql("DROP VIEW high CASCADE")
    assert rows(bids, "SHOW ALL") == [("bid", "table")]


def test_an_index_of_a_user_is_shared_with_views_and_survives_them(bids: Session) -> None:
    bids.sql("CREATE TABLE auction (id BIGINT PRIMARY KEY, item STRING)")
    bids.sql("CREATE INDEX by_auction ON bid (auction)")
    assert "_index_bid__auction" in bids.store.refresh().tables
    bids.sql(
        "CREATE MATERIALIZED VIEW j AS SELECT b.id, a.item FROM bid b JOIN auction a ON b.auction = a.id"
    )
    bids.sql("DROP MATERIALIZED VIEW j")
    assert "_index_bid__auction" in bids.store.refresh().tables
    bids.sql("DROP INDEX by_auction")
    assert "_index_bid__auction" not in bids.store.refresh().tables
    with pytest.raises(SqlError, match="no column prize"):
        bids.sql("CREATE INDEX i ON bid (prize)")


@pytest.mark.parametrize(
    "text",
    [
        "CREATE FUNCTION net(price BIGINT, tax DOUBLE) RETURNS DOUBLE LANGUAGE SQL AS 'SELECT price * (1 - tax)'",
        "CREATE FUNCTION net(price BIGINT, tax DOUBLE) RETURNS DOUBLE RETURN price * (1 - tax)",
        "CREATE FUNCTION net(BIGINT, DOUBLE) RETURNS DOUBLE LANGUAGE SQL AS $$SELECT $1 * (1 - $2)$$",
    ],
)
def test_a_function_is_written_into_the_queries_that_call_it(bids: Session, text: str) -> None:
    bids.sql(text)
    bids.sql("CREATE FUNCTION half(x DOUBLE) RETURNS DOUBLE RETURN net(CAST(x AS BIGINT), 0.5)")
    bids.sql("CREATE MATERIALIZED VIEW v AS SELECT id, half(price) AS h FROM bid WHERE net(price, 0.1) > 10")
    assert rows(bids, "SELECT * FROM v ORDER BY id") == [(2, 10.0), (3, 15.0)]
    assert rows(bids, "SELECT net(price + 10, 0.5) AS n FROM bid WHERE id = 1") == [(10.0,)]
    with pytest.raises(SqlError, match=r"read by half, v|read by v, half"):
        bids.sql("DROP FUNCTION net")
    with pytest.raises(SqlError, match="takes 2 values, 1 are given") as caught:
        bids.sql("SELECT net(price) AS n FROM bid")
    assert caught.value.column == 8
    bids.sql("DROP FUNCTION net CASCADE")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("CREATE FUNCTION f(a INT) RETURNS INT RETURN b + 1", "reads b"),
        ("CREATE FUNCTION f(a INT) RETURNS INT LANGUAGE SQL AS 'SELECT max(id) FROM bid'", "is a query"),
        ("CREATE FUNCTION f(a INT) RETURNS INT RETURN f(a)", "f"),
        ("CREATE FUNCTION f(a STRING) RETURNS INT RETURN nothing(a)", "nothing"),
        ("CREATE FUNCTION f(a INT) RETURNS DATE RETURN a + 1", "CAST|cast"),
    ],
)
def test_a_wrong_function_leaves_no_trace(bids: Session, text: str, says: str) -> None:
    before = dict(bids.store.refresh().catalog)
    with pytest.raises(SqlError, match=says):
        bids.sql(text)
    assert dict(bids.store.refresh().catalog) == before

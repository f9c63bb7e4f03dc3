"""Aliases that later items of a SELECT list use: each query has the plan of the one in which they are written out."""

from __future__ import annotations

import pytest

from engine.errors import SqlError, UnsupportedSql
from tests.sql.test_plans import bound_plan

# (with aliases, written out)
QUERIES = [
    (
        "SELECT id, coalesce(price, 0) AS m, m + 1 AS n, m * n AS o FROM bid",
        "SELECT id, coalesce(price, 0) AS m, coalesce(price, 0) + 1 AS n, "
        "coalesce(price, 0) * (coalesce(price, 0) + 1) AS o FROM bid",
    ),
    (  # a column of FROM goes before
        "SELECT id, price + 1 AS auction, auction + 1 AS n FROM bid",
        "SELECT id, price + 1 AS auction, bid.auction + 1 AS n FROM bid",
    ),
    (
        "SELECT auction, sum(price) AS s, count(*) AS n, s / n AS a FROM bid GROUP BY auction HAVING a > 3",
        "SELECT auction, sum(price) AS s, count(*) AS n, sum(price) / count(*) AS a FROM bid GROUP BY auction "
        "HAVING sum(price) / count(*) > 3",
    ),
    (
        "SELECT id, price + 1 AS m, sum(M) OVER (PARTITION BY auction) AS s, s - m AS d FROM bid",
        "SELECT id, price + 1 AS m, sum(price + 1) OVER (PARTITION BY auction) AS s, "
        "sum(price + 1) OVER (PARTITION BY auction) - (price + 1) AS d FROM bid",
    ),
    (
        "SELECT auction % 2 AS m, m + 1 AS n, count(*) AS c FROM bid GROUP BY auction % 2",
        "SELECT auction % 2 AS m, auction % 2 + 1 AS n, count(*) AS c FROM bid GROUP BY auction % 2",
    ),
    (
        "SELECT id, named_struct('a', price) AS st, st.a + 1 AS n FROM bid",
        "SELECT id, named_struct('a', price) AS st, named_struct('a', price).a + 1 AS n FROM bid",
    ),
    (  # a variable of a lambda goes before as well
        "SELECT id, price AS p, transform(array(1), p -> p + 1) AS n, transform(array(1), x -> x + p) AS o FROM bid",
        "SELECT id, price AS p, transform(array(1), p -> p + 1) AS n, transform(array(1), x -> x + price) AS o FROM bid",
    ),
    (  # a whole number keeps its type in arithmetic: of a constant beside decimals digits count
        "SELECT id, -5 AS x, price * (x) AS y, x AS z, 1.5 AS p, p * price AS q FROM bid",
        "SELECT id, -5 AS x, price * CAST(-5 AS INT) AS y, -5 AS z, 1.5 AS p, 1.5 * price AS q FROM bid",
    ),
    (  # an alias goes before a column of the query around it
        "SELECT id FROM bid WHERE EXISTS (SELECT 1 AS price, price + 1 AS n FROM auction a WHERE a.id = bid.id)",
        "SELECT id FROM bid WHERE EXISTS (SELECT 1 AS price, CAST(1 AS INT) + 1 AS n FROM auction a WHERE a.id = bid.id)",
    ),
]


# In ORDER BY an alias goes before a column of FROM, but not in an aggregate or a window: there Spark takes none.
ORDERS = [
    (
        "SELECT id, -price AS price FROM bid ORDER BY price + 1, id LIMIT 2",
        "SELECT id, -price AS price FROM bid ORDER BY (-bid.price) + 1, id LIMIT 2",
    ),
    (
        "SELECT auction, sum(price) AS price FROM bid GROUP BY auction ORDER BY abs(price), sum(price) + 1 LIMIT 2",
        "SELECT auction, sum(price) AS price FROM bid GROUP BY auction "
        "ORDER BY abs(sum(bid.price)), sum(bid.price) + 1 LIMIT 2",
    ),
    (
        "SELECT auction, grouping(auction) AS level, count(*) AS n FROM bid GROUP BY ROLLUP(auction) "
        "ORDER BY CASE WHEN level = 0 THEN auction END, n LIMIT 2",
        "SELECT auction, grouping(auction) AS level, count(*) AS n FROM bid GROUP BY ROLLUP(auction) "
        "ORDER BY CASE WHEN (grouping(auction)) = 0 THEN auction END, n LIMIT 2",
    ),
    (
        "SELECT id, named_struct('a', price) AS st FROM bid ORDER BY st.a + 1 LIMIT 2",
        "SELECT id, named_struct('a', price) AS st FROM bid ORDER BY named_struct('a', price).a + 1 LIMIT 2",
    ),
]


@pytest.mark.parametrize(("query", "written_out"), ORDERS)
def test_an_alias_in_order_by_goes_before_a_column(query: str, written_out: str) -> None:
    assert bound_plan(query, "spark") == bound_plan(written_out, "spark")


@pytest.mark.parametrize(("query", "written_out"), QUERIES)
def test_an_alias_stands_for_what_it_names(query: str, written_out: str) -> None:
    assert bound_plan(query, "spark") == bound_plan(written_out, "spark")


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("SELECT n + 1 AS m, price AS n FROM bid", "there is no column n"),  # of an item after it
        ("SELECT price AS m, auction AS m, m + 1 AS n FROM bid", "the alias m stands for two items"),
        ("SELECT price + 1 AS m, (SELECT max(m) FROM auction a) AS n FROM bid", "there is no column m"),
        ("SELECT count(*), count + 1 AS n FROM bid", "there is no column count"),  # a name that nobody gave
        ("SELECT price + 1 AS m FROM bid WHERE m > 3", "there is no column m"),
    ],
)
def test_what_is_no_alias_here_is_told(query: str, says: str) -> None:
    with pytest.raises(SqlError) as caught:
        bound_plan(query, "spark")
    assert caught.value.message == says


@pytest.mark.parametrize("dialect", ["postgres", "risingwave"])
def test_other_dialects_have_none(dialect: str) -> None:
    with pytest.raises(SqlError, match="there is no column m"):
        bound_plan("SELECT price + 1 AS m, m + 1 AS n FROM bid", dialect)


def test_aliases_that_grow_are_refused_with_what_to_write() -> None:
    items = ", ".join(f"m{n} + m{n} AS m{n + 1}" for n in range(30))
    with pytest.raises(UnsupportedSql, match="an alias that comes to more than 1000 parts") as caught:
        bound_plan(f"SELECT id, price + 1 AS m0, {items} FROM bid", "spark")
    assert "WITH item" in caught.value.hint

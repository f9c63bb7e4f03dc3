"""A wrong statement is refused with its place and with what to write instead."""

from __future__ import annotations

import pytest

from engine.errors import SqlError
from engine.sql.binder import bind
from engine.sql.statements import CreateMaterializedView, parse
from tests.sql.catalog import small_catalog

# (query of a view, what the message says, the text that the caret stands under, a word of the remedy)
WRONG_QUERIES = [
    ("SELECT id FROM bids", "no table or view bids", "bids", "bid"),
    ("SELECT prize FROM bid", "no column prize", "prize", "price"),
    ("SELECT b.prize FROM bid b", "no column b.prize", "b.prize", "price"),
    ("SELECT x.id FROM bid b", "x is not in FROM", "x.id", "in scope are b"),
    (
        "SELECT id FROM bid b JOIN auction a ON b.auction = a.id",
        "column id is ambiguous",
        "id FROM",
        "b.id or a.id",
    ),
    ("SELECT id FROM bid ORDER BY id", "ORDER BY", "id", "SELECT that reads it"),
    ("SELECT id FROM bid LIMIT 3", "LIMIT", "3", "SELECT that reads"),
    ("SELECT id, row_number() OVER (ORDER BY id) AS r FROM bid", "window function", "row_number", "GROUP BY"),
    ("SELECT DISTINCT ON (auction) id FROM bid", "DISTINCT ON", "auction", "max"),
    ("SELECT id FROM bid UNION SELECT id FROM auction", "UNION", "id", "UNION ALL"),
    ("SELECT id FROM bid INTERSECT SELECT id FROM auction", "INTERSECT", "id", "joins"),
    ("SELECT id FROM bid EXCEPT SELECT id FROM auction", "EXCEPT", "id", "joins"),
    ("SELECT b.id FROM bid b FULL JOIN auction a ON b.auction = a.id", "FULL JOIN", "auction a", "LEFT JOIN"),
    ("SELECT b.id FROM bid b CROSS JOIN auction a", "without an equality", "auction a", "a.x = b.y"),
    ("SELECT b.id FROM bid b, auction a", "without an equality", "auction a", "a.x = b.y"),
    (
        "SELECT b.id FROM bid b JOIN auction a ON b.price > a.id",
        "without an equality",
        "auction a",
        "a.x = b.y",
    ),
    ("SELECT b.id FROM bid b NATURAL JOIN auction a", "NATURAL JOIN", "auction a", "JOIN … ON"),
    ("SELECT b.id FROM bid b SEMI JOIN auction a ON b.auction = a.id", "SEMI JOIN", "auction a", "LEFT JOIN"),
    ("SELECT id FROM bid WHERE EXISTS (SELECT 1 FROM auction)", "EXISTS", "1", "join the subquery"),
    (
        "SELECT id FROM bid WHERE auction IN (SELECT id FROM auction)",
        "IN (SELECT",
        "auction IN",
        "join the subquery",
    ),
    (
        "SELECT id, (SELECT max(id) FROM auction) AS m FROM bid",
        "subquery in an expression",
        "max",
        "join the subquery",
    ),
    ("SELECT auction, count(*) AS n FROM bid GROUP BY CUBE (auction)", "CUBE", "auction)", "UNION ALL"),
    ("SELECT auction, count(*) AS n FROM bid GROUP BY ROLLUP (auction)", "ROLLUP", "auction)", "UNION ALL"),
    ("WITH RECURSIVE r AS (SELECT id FROM bid) SELECT id FROM r", "WITH RECURSIVE", "r AS", "recursion"),
    ("SELECT id, rand() AS r FROM bid", "another value each time", "rand", "column"),
    ("SELECT id, now() AS t FROM bid", "another value each time", "now", "column"),
    ("SELECT id, uuid() AS u FROM bid", "another value each time", "uuid", "column"),
    ("SELECT id FROM bid WHERE sum(price) > 3", "aggregate SUM(price) in WHERE", "sum", "HAVING"),
    ("SELECT sum(max(price)) AS s FROM bid", "aggregate inside sum", "max", "subquery"),
    (
        "SELECT auction, price, count(*) AS n FROM bid GROUP BY auction",
        "neither grouped",
        "price",
        "GROUP BY",
    ),
    ("SELECT auction AS a, price AS a FROM bid", "two columns are named a", "price", "AS"),
    ("SELECT frobnicate(price) AS f FROM bid", "no function frobnicate", "frobnicate", "did you mean"),
    ("SELECT uper(note) AS f FROM bid", "no function uper", "uper", "upper"),
    ("SELECT first(price) AS f FROM bid", "order of rows", "first", "max"),
    ("SELECT auction, array_agg(price) AS f FROM bid GROUP BY auction", "order of rows", "array_agg", "max"),
    ("SELECT auction FROM bid GROUP BY 3", "GROUP BY 3", "3", "GROUP BY"),
    ("SELECT 1 AS one", "SELECT without FROM", "1", "table"),
    ("SELECT s.id FROM (SELECT id FROM bid)", "needs a name", "id FROM bid)", "AS name"),
    ("SELECT b.id FROM bid b JOIN bid b ON b.id = b.id", "b stands twice", "bid b ON", "alias"),
    (
        "SELECT b.id FROM bid b JOIN event e ON b.id = e.kind",
        "compares bigint with string",
        "b.id = ",
        "CAST",
    ),
    ("SELECT id AS _id FROM bid", "the system's own", "id AS", "another name"),
    ("SELECT id, price FROM bid UNION ALL SELECT id FROM auction", "2 and 1 columns", "id", "same number"),
    ("SELECT id FROM bid TABLESAMPLE (10 PERCENT)", "", "", ""),
]


@pytest.mark.parametrize(("query", "says", "under", "remedy"), WRONG_QUERIES)
def test_a_query_that_cannot_be_maintained_is_refused_with_place_and_remedy(
    query: str, says: str, under: str, remedy: str
) -> None:
    sql = f"CREATE MATERIALIZED VIEW v AS\n{query}"
    with pytest.raises(SqlError) as caught:
        statement = parse(sql, "spark")
        assert isinstance(statement, CreateMaterializedView)
        bind(statement.query, small_catalog(), dialect="spark", sql=sql)
    error = caught.value
    assert says in error.message
    assert remedy in str(error)
    if under:
        assert error.line == 2
        assert (
            query[error.column - 1 :].startswith(under.split()[0].rstrip(")"))
            or under in query[error.column - 1 :]
        )
        assert "^" in str(error)


WRONG_STATEMENTS = [
    ("SELEC 1", "", 1),
    ("CREATE TABLE t (id BIGINT)", "has no key", 1),
    ("CREATE TABLE t (id BIGINT PRIMARY KEY, id INT)", "stands twice", 1),
    ("CREATE TABLE t (id BIGINT, PRIMARY KEY (nr))", "no column of t", 1),
    ("CREATE TABLE _t (id BIGINT PRIMARY KEY)", "system's own", 1),
    ("CREATE TABLE `a b` (id BIGINT PRIMARY KEY)", "is no name", 1),
    ("CREATE TABLE t (id BIGINT PRIMARY KEY, x INTERVAL DAY)", "not offered", 1),
    ("CREATE TABLE s.t (id BIGINT PRIMARY KEY)", "has a schema", 1),
    ("CREATE OR REPLACE VIEW v AS SELECT id FROM bid", "OR REPLACE", 1),
    ("CREATE MATERIALIZED VIEW v (a) AS SELECT id FROM bid", "column list", 1),
    ("CREATE FUNCTION f() RETURNS INT RETURN 1", "not offered", 1),
    (
        "MERGE INTO bid USING auction ON bid.id = auction.id WHEN MATCHED THEN DELETE",
        "MERGE is not offered",
        1,
    ),
    ("GRANT SELECT ON bid TO me", "GRANT is not offered", 1),
    ("DROP SCHEMA s", "not offered", 1),
    ("UPDATE bid SET price = 1 FROM auction", "UPDATE … FROM", 1),
    ("SELECT 1; SELECT 2", "one statement is expected, 2", 0),
    ("EXPLAIN DROP TABLE bid", "EXPLAIN takes", 1),
    ("CREATE SINK s FROM bid", "not offered", 1),
]


@pytest.mark.parametrize(("text", "says", "line"), WRONG_STATEMENTS)
def test_a_wrong_statement_is_refused_where_it_is_wrong(text: str, says: str, line: int) -> None:
    with pytest.raises(SqlError) as caught:
        parse(text, "spark")
    assert says in caught.value.message
    assert caught.value.line == line

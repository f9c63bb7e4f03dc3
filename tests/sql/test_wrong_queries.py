"""A query that cannot be maintained is refused with its place and with what to write instead."""

from __future__ import annotations

import pytest

from engine.errors import SqlError
from engine.sql.bind.binder import bind
from engine.sql.statements.reader import CreateMaterializedView, parse_statement
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
    (
        "WITH RECURSIVE r AS (SELECT id FROM bid) SELECT id FROM r",
        "WITH RECURSIVE",
        "WITH",
        "join a fixed number",
    ),
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
    ("SELECT auction FROM bid GROUP BY 3", "GROUP BY 3", "3", "GROUP BY"),
    ("SELECT b.id FROM bid b JOIN bid b ON b.id = b.id", "b occurs twice", "bid b ON", "alias"),
    (
        "SELECT b.id FROM bid b JOIN event e ON b.id = e.kind",
        "compares bigint with string",
        "b.id = ",
        "CAST",
    ),
    ("SELECT id AS tideline__id FROM bid", "the system's own", "id AS", "another name"),
    (
        "SELECT id, price FROM bid UNION ALL SELECT id FROM auction",
        "2 and 1 columns",
        "UNION ALL",
        "same number",
    ),
    ("SELECT kll_sketch_agg_bigint(price) AS s FROM bid", "aggregate kll_sketch", "kll_", "count, sum"),
    ("SELECT sum(*) AS s FROM bid", "sum of *", "sum(*)", "name a column"),
    (
        "SELECT id, current_date AS d FROM bid",
        "another value each time",
        "current_date",
        "column",
    ),
    ("SELECT unix_timestamp() AS u FROM bid", "another value each time", "unix_timestamp", "column"),
    (
        "SELECT auction, max(price) AS m FROM bid GROUP BY auction HAVING id > 3",
        "neither grouped",
        "id > 3",
        "GROUP BY",
    ),
    ("SELECT * FROM bid GROUP BY auction", "id is neither grouped", "*", "GROUP BY"),
    ("SELECT price FROM bid GROUP BY sum(price)", "GROUP BY of an aggregate", "sum", "columns"),
    ("SELECT * EXCEPT (nr) FROM bid", "leaves out nr", "nr)", "id, auction"),
    ("SELECT * FROM bid b JOIN auction a ON b.auction = a.id", "two columns are named id", "*", "AS"),
    ("SELECT Price, PRICE FROM bid", "two columns are named price", "PRICE", "AS"),
    ("SELECT id FROM bid SORT BY id", "SORT BY", "id", "SELECT that reads it"),
    ("SELECT id FROM bid FOR SYSTEM_TIME AS OF '2026-01-01'", "FOR SYSTEM_TIME", "'2026", "newest"),
    ("SELECT id FROM other.bid", "no table or view other.bid", "other", "bid"),
    ("SELECT id FROM _state_v_1", "no table or view _state_v_1", "_state", "SHOW TABLES"),
    ("SELECT p FROM (SELECT id FROM bid) AS t(p, q)", "t names 2 columns of 1", "t(p", "each column"),
    (
        "WITH t(p) AS (SELECT id, price FROM bid) SELECT p FROM t",
        "t names 1 columns of 2",
        "t(p",
        "each column",
    ),
    ("SELECT bid.id FROM bid JOIN auction USING (price)", "USING (price)", "price", "ON"),
    (
        "SELECT b.id FROM bid b JOIN auction a ON a.id = c.id JOIN bid c ON c.id = b.id",
        "c is not in FROM",
        "c.id JOIN",
        "in scope",
    ),
    ("SELECT ? AS x FROM bid", "has no value", "?", "value itself"),
    ("SELECT id FROM bid TABLESAMPLE (10 PERCENT)", "TABLESAMPLE", "TABLESAMPLE", "WHERE"),
    ("SELECT id FROM bid ORDER BY prize", "no column prize", "prize", "price"),
    ("SELECT id FROM bid ORDER BY 2", "ORDER BY 2", "2", "number of one"),
    ("SELECT id FROM bid ORDER BY id LIMIT id", "as a number of rows", "LIMIT id", "whole number"),
    ("SELECT id FROM bid ORDER BY id LIMIT 10 PERCENT", "PERCENT", "", "LIMIT n"),
    (
        "SELECT DISTINCT auction FROM bid ORDER BY price LIMIT 3",
        "ordered by what it does not select",
        "price LIMIT",
        "SELECT list",
    ),
    (
        "SELECT DISTINCT ON (auction) id FROM bid ORDER BY price",
        "does not fit ORDER BY",
        "price",
        "start with",
    ),
    (
        "SELECT id FROM bid UNION SELECT id FROM auction ORDER BY item",
        "no output column",
        "item",
        "output columns are id",
    ),
    (
        "SELECT id FROM bid INTERSECT SELECT id, item FROM auction",
        "INTERSECT of 1 and 2 columns",
        "INTERSECT",
        "same number",
    ),
    (
        "SELECT id FROM bid EXCEPT ALL SELECT id, item FROM auction",
        "EXCEPT ALL of 1 and 2 columns",
        "EXCEPT",
        "same number",
    ),
    (
        "SELECT id FROM bid WHERE id IN (SELECT id, item FROM auction)",
        "1 values with 2 columns",
        "id IN",
        "same number",
    ),
    (
        "SELECT id FROM bid WHERE (id, price) IN (SELECT id, category FROM auction) OR id = 1",
        "IN with several columns",
        "id, price",
        "EXISTS",
    ),
    (
        "SELECT id, (SELECT id, item FROM auction) AS m FROM bid",
        "has 2 columns",
        "SELECT id, item",
        "just one",
    ),
    (
        "SELECT id, (SELECT item FROM auction a WHERE a.nr = bid.id) AS m FROM bid",
        "no column a.nr",
        "a.nr",
        "columns are",
    ),
    (
        "SELECT id FROM bid WHERE EXISTS (SELECT 1 FROM auction a WHERE a.id = c.id)",
        "c is not in FROM",
        "c.id",
        "in scope are a, bid",
    ),
    (
        "SELECT auction, (SELECT max(item) FROM auction a WHERE a.id = bid.id) AS m FROM bid GROUP BY auction",
        "which is not grouped",
        "SELECT max",
        "GROUP BY",
    ),
    (
        "SELECT b.id FROM bid b LEFT JOIN auction a ON b.id = (SELECT max(id) FROM event)",
        "subquery in ON",
        "b.id = (",
        "join it in FROM",
    ),
    ("SELECT price", "no column price", "price", "FROM"),
    (
        "SELECT explode(array(1)) AS x, explode(array(2)) AS y FROM bid",
        "second table function",
        "explode(array(2))",
        "FROM",
    ),
    ("SELECT explode(array(1)) AS x, count(*) AS n FROM bid", "beside aggregates", "explode", "FROM"),
    ("SELECT posexplode(array(1)) AS x FROM bid", "1 names for 2 columns", "posexplode", "name each column"),
    ("SELECT id FROM bid WHERE explode(array(1)) = 1", "table function", "explode", "FROM"),
    ("SELECT x FROM json_tuple('{}', 'a') AS t(x)", "JSON_TUPLE", "json_tuple", "UNNEST"),
    ("SELECT x FROM VALUES (1), (2, 3) AS t(x)", "rows of 1 and 2 values", "2, 3", "same number"),
    (
        "SELECT b.id FROM bid b, LATERAL (SELECT * FROM VALUES (b.id) AS v(x)) q",
        "a column in VALUES",
        "b.id) AS",
        "UNION ALL",
    ),
    (
        "SELECT b.id FROM bid b RIGHT JOIN LATERAL (SELECT id FROM auction a WHERE a.id = b.auction) q ON TRUE",
        "RIGHT JOIN LATERAL",
        "",
        "LEFT or INNER",
    ),
    ("SELECT b.id FROM bid b JOIN event e ON b.id = map('a', e.amount)", "type of a join", "map", "CAST"),
    (
        "SELECT auction, grouping(price) AS g FROM bid GROUP BY ROLLUP (auction)",
        "price is not grouped",
        "price",
        "GROUP BY",
    ),
    (
        "SELECT item, count(*) AS n FROM auction GROUP BY CUBE (category)",
        "neither grouped",
        "item",
        "GROUP BY",
    ),
    (
        "SELECT percentile_cont(2) WITHIN GROUP (ORDER BY price) AS s FROM bid",
        "2 is no fraction",
        "2)",
        "from 0 to 1",
    ),
    (
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY price, id) AS s FROM bid",
        "one expression of ORDER BY",
        "percentile",
        "WITHIN GROUP",
    ),
    (
        "SELECT sum(price) WITHIN GROUP (ORDER BY id) AS s FROM bid",
        "WITHIN GROUP of sum",
        "sum",
        "percentile_cont",
    ),
    ("SELECT max_by(price) AS s FROM bid", "max_by takes 2 arguments", "price", "max_by with 2"),
    ("SELECT string_agg(DISTINCT note, note) AS s FROM bid", "no constant", "note, note", "literal"),
    (
        "SELECT histogram_numeric(price, 3) AS s FROM bid",
        "aggregate histogram_numeric",
        "histogram",
        "count, sum",
    ),
    ("SELECT last_value(price) AS s FROM bid", "order of rows", "last_value", "min_by"),
    (
        "SELECT sum(b) AS s FROM (SELECT price > 1 AS b FROM bid) q",
        "sum takes numbers, not boolean",
        "sum(b)",
        "CAST",
    ),
    ("SELECT bool_and(price) AS s FROM bid", "bool_and takes conditions, not bigint", "bool_and", "CAST"),
    ("SELECT bit_or(amount) AS s FROM event", "whole numbers, not decimal", "bit_or", "CAST"),
    ("SELECT id + (price > 1) AS s FROM bid", "arithmetic with boolean", "id +", "CAST"),
    ("SELECT id FROM bid WHERE price = true", "comparison of bigint with boolean", "price", "CAST"),
    ("SELECT id FROM bid WHERE price = 'dear'", "'dear' is no bigint", "price", "CAST"),
    ("SELECT id FROM bid WHERE price IN (1, 'dear')", "'dear' is no bigint", "price", "CAST"),
    ("SELECT id FROM bid WHERE price BETWEEN 'low' AND 3", "'low' is no bigint", "price", "CAST"),
    ("SELECT id FROM bid WHERE price IN (true, false)", "comparison of bigint with boolean", "price", "CAST"),
    ("SELECT price + 'dear' AS s FROM bid", "'dear' is no bigint", "price", "CAST"),
    ("SELECT 'then' + INTERVAL '1' DAY AS t FROM bid", "'then' is no timestamp", "", "write a timestamp"),
    ("SELECT id FROM bid UNION ALL SELECT id > 1 FROM bid", "column 1 is bigint", "UNION", "CAST"),
    ("SELECT id FROM bid EXCEPT SELECT id > 1 FROM bid", "branch of EXCEPT and boolean", "EXCEPT", "CAST"),
    ("SELECT x FROM range(1, 9, 0) AS r(x)", "a step of 0", "0)", "another step"),
    (
        "SELECT id FROM bid WHERE price AND id > 1",
        "WHERE takes a condition, not bigint",
        "price",
        "compare it",
    ),
    ("SELECT id FROM bid WHERE NOT price", "negates a condition, not bigint", "price", "compare it"),
    ("SELECT id FROM bid WHERE price LIKE 'a%'", "compared with text, not bigint", "price", "CAST"),
    ("SELECT sqrt(id > 1) AS r FROM bid", "takes a number, not boolean", "sqrt", "CAST"),
    ("SELECT hour(id > 1) AS r FROM bid", "takes a date or a timestamp, not boolean", "hour", "CAST"),
    (
        "SELECT id FROM bid WHERE date '2026-01-01' + date '2026-01-02' > date '2026-01-03'",
        "can only be subtracted",
        "",
        "INTERVAL",
    ),
    ("SELECT date '2026-01-01' * 2 AS d FROM bid", "arithmetic with date", "", "INTERVAL"),
]


@pytest.mark.parametrize(("query", "says", "under", "remedy"), WRONG_QUERIES)
def test_a_query_that_cannot_be_maintained_is_refused_with_place_and_remedy(
    query: str, says: str, under: str, remedy: str
) -> None:
    sql = f"CREATE MATERIALIZED VIEW v AS\n{query}"
    with pytest.raises(SqlError) as caught:
        statement = parse_statement(sql, "spark")
        assert isinstance(statement, CreateMaterializedView)
        bind(statement.query, small_catalog(), dialect="spark", sql=sql)
    error = caught.value
    assert says in error.message
    assert remedy in str(error)
    assert error.line == 2
    assert query[error.column - 1 :].startswith(under), query[error.column - 1 :]
    assert "^" in str(error)

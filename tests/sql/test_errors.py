"""A wrong statement is refused with its place and with what to write instead."""

from __future__ import annotations

import pytest

from engine.errors import SqlError
from engine.sql.bind.binder import bind
from engine.sql.statements.reader import CreateMaterializedView, Explain, parse
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
    ("SELECT b.id FROM bid b JOIN bid b ON b.id = b.id", "b stands twice", "bid b ON", "alias"),
    (
        "SELECT b.id FROM bid b JOIN event e ON b.id = e.kind",
        "compares bigint with string",
        "b.id = ",
        "CAST",
    ),
    ("SELECT id AS _id FROM bid", "the system's own", "id AS", "another name"),
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
        statement = parse(sql, "spark")
        assert isinstance(statement, CreateMaterializedView)
        bind(statement.query, small_catalog(), dialect="spark", sql=sql)
    error = caught.value
    assert says in error.message
    assert remedy in str(error)
    assert error.line == 2
    assert query[error.column - 1 :].startswith(under), query[error.column - 1 :]
    assert "^" in str(error)


# (text, what the message says, the text that the caret stands under, a word of the remedy)
WRONG_STATEMENTS = [
    ("SELEC 1", "SELEC is no statement", "SELEC", "SELECT"),
    ("SELECT 1 FROM", "ends too early", "FROM", "before and after"),
    ("SELECT id FROM bid WHERE (id = 1", "ends too early", "1", "before and after"),
    ("SELECT id FRM bid", "not expected here", "bid", "did you mean FROM instead of FRM"),
    ("SELECT auction, count(*) FROM bid GROUP auction", "not expected here", "auction", "GROUP BY"),
    ("SELECT id FROM bid WHERE", "expression is missing", "WHERE", "before and after"),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT id FROM (SELECT id FROM bid",
        "ends too early",
        "bid",
        "before and",
    ),
    ("CREATE MATERIALIZED VIEW v AS SELECT id FRM bid", "not expected", "bid", "did you mean FROM"),
    ("CREATE MATERIALIZED VIEW v AS DELETE FROM bid", "AS DELETE is not offered", "DELETE", "AS SELECT"),
    (
        "CREATE TABLE t (id INT PRIMARY KEY, x INT DEFAULT 'many')",
        "'many' is no int",
        "'many'",
        "write a int",
    ),
    (
        "CREATE TABLE t (id INT PRIMARY KEY, x BOOLEAN DEFAULT 'perhaps')",
        "is no boolean",
        "'perhaps'",
        "write",
    ),
    ("SELECT 'abc", "string is not closed", "'abc", "close it"),
    ("SELECT 1 /* abc", "comment is not closed", "/*", "close it"),
    ("CREATE TABLE t (id BIGINT) ON CONFLICT IGNORE", "has no key", "t (", "leave ON CONFLICT out"),
    ("CREATE TABLE t", "needs columns", "t", "PRIMARY KEY"),
    ("CREATE TABLE t (id BIGINT PRIMARY KEY, ID INT)", "stands twice", "ID INT", "another name"),
    (
        "CREATE TABLE t (id INT PRIMARY KEY, b INT PRIMARY KEY)",
        "two primary keys",
        "b INT",
        "one PRIMARY KEY",
    ),
    ("CREATE TABLE t (id INT, PRIMARY KEY (id, id))", "id twice", "id, id", "once"),
    ("CREATE TABLE t (id BIGINT, PRIMARY KEY (nr))", "no column of t", "nr", "columns are id"),
    ("CREATE TABLE _t (id BIGINT PRIMARY KEY)", "system's own", "_t", "another name"),
    ("CREATE TABLE `a\tb` (id BIGINT PRIMARY KEY)", "is no name", "`a\tb`", "characters"),
    (
        "CREATE TABLE t (id BIGINT PRIMARY KEY, x INTERVAL YEAR TO MONTH)",
        "not offered",
        "x INTERVAL",
        "types are",
    ),
    ("CREATE TABLE t (id BIGINT PRIMARY KEY, x INT UNIQUE)", "UNIQUE is not offered", "x INT", "take it out"),
    (
        "CREATE TABLE t (id INT PRIMARY KEY, WATERMARK FOR id AS id)",
        "only be inserted",
        "WATERMARK",
        "APPEND ONLY",
    ),
    ("CREATE TEMPORARY TABLE t (id INT PRIMARY KEY)", "TEMPORARY", "TEMPORARY", "WITH"),
    ("CREATE TABLE a.s.t (id BIGINT PRIMARY KEY)", "in another database", "a.s.t", "schema.name"),
    ("CREATE OR REPLACE TABLE v AS SELECT id FROM bid", "OR REPLACE", "CREATE", "DROP it"),
    ("CREATE MATERIALIZED VIEW v (a, a) AS SELECT id, id FROM bid", "stands twice", "a)", "another name"),
    ("CREATE MATERIALIZED VIEW v (_a) AS SELECT id FROM bid", "system's own", "_a", "another name"),
    (
        "CREATE MATERIALIZED VIEW v REFRESH EVERY 1 HOUR AS SELECT id FROM bid",
        "form of CREATE",
        "CREATE",
        "[WITH (…)]",
    ),
    (
        "CREATE VIEW v AS SELECT id FROM bid EMIT ON WINDOW CLOSE",
        "of a plain view",
        "v AS",
        "MATERIALIZED",
    ),
    (
        "SELECT b.id FROM bid b BROADCAST JOIN auction AS a ON a.id = b.auction",
        "BROADCAST before a join",
        "BROADCAST",
        "leave it out",
    ),
    (
        "SELECT b.id FROM bid b BROADCAST LEFT JOIN auction a ON a.id = b.auction",
        "BROADCAST before a join",
        "BROADCAST",
        "leave it out",
    ),
    (
        "CREATE VIEW v EMIT ON WINDOW CLOSE AS SELECT id FROM bid",
        "of a plain view",
        "v EMIT",
        "MATERIALIZED",
    ),
    (
        "CREATE MATERIALIZED VIEW v EMIT ON WINDOW CLOSE AS SELECT id FROM bid EMIT ON WINDOW CLOSE",
        "stands twice",
        "EMIT ON WINDOW CLOSE",
        "write it once",
    ),
    (
        "CREATE TABLE v AS SELECT id FROM bid EMIT ON WINDOW CLOSE",
        "of a table is not offered",
        "v AS",
        "MATERIALIZED",
    ),
    (
        "CREATE VIEW v WITH (a = 'b') AS SELECT id FROM bid",
        "options of a plain view",
        "v WITH",
        "MATERIALIZED",
    ),
    ("CREATE FUNCTION f() RETURNS INT LANGUAGE PYTHON AS 'x'", "in PYTHON", "f()", "LANGUAGE SQL"),
    ("CREATE FUNCTION sqrt(a INT) RETURNS INT RETURN a", "built-in", "sqrt", "another name"),
    ("CREATE INDEX i ON bid (price + 1)", "index on price + 1", "price", "name columns"),
    ("CREATE INDEX i ON bid (price, price)", "stands twice", "price)", "once"),
    ("CREATE UNIQUE INDEX i ON bid (price)", "UNIQUE", "i ON", "PRIMARY KEY"),
    (
        "CREATE MATERIALIZED VIEW v WITH (refresh = 'full') AS SELECT id FROM bid",
        "option refresh cannot be 'full'",
        "refresh =",
        "refresh_policy = 'full'",
    ),
    (
        "CREATE MATERIALIZED VIEW v WITH (refresh_policy = 'daily') AS SELECT id FROM bid",
        "cannot be 'daily'",
        "refresh_policy",
        "auto, incremental or full",
    ),
    ("CREATE TABLE t (id INT PRIMARY KEY) ON CONFLICT FAIL", "ON CONFLICT", "ON CONFLICT", "OVERWRITE"),
    ("CREATE TABLE t (id INT PRIMARY KEY, x INT DEFAULT id)", "reads id", "id)", "GENERATED"),
    ("CREATE TABLE t (id INT PRIMARY KEY, x INT GENERATED ALWAYS AS (nr))", "reads nr", "nr)", "id"),
    (
        "CREATE TABLE t (id INT PRIMARY KEY, x INT GENERATED ALWAYS AS (rand()))",
        "another value",
        "rand",
        "DEFAULT",
    ),
    ("CREATE SINK s AS VALUES (1)", "AS VALUES is not offered", "VALUES", "AS SELECT"),
    ("ALTER SINK s SLEEP", "this ALTER SINK is not offered", "ALTER", "PAUSE"),
    (
        "CREATE SOURCE s (a INT)",
        "a source needs a connector",
        "SOURCE",
        "nexmark",
    ),
    (
        "MERGE INTO bid USING auction ON bid.id = auction.id WHEN MATCHED THEN DELETE",
        "MERGE",
        "MERGE",
        "upsert",
    ),
    ("GRANT SELECT ON bid TO me", "GRANT is not offered", "GRANT", "statements are"),
    ("ALTER TABLE bid CLUSTER BY (id)", "CLUSTER BY is not offered", "CLUSTER", "RENAME TO"),
    ("ALTER TABLE bid RENAME TO _x", "system's own", "_x", "another name"),
    (
        "ALTER TABLE bid ADD COLUMN x INT PRIMARY KEY",
        "key column cannot be added",
        "x INT",
        "INSERT … SELECT",
    ),
    ("ALTER TABLE bid DROP COLUMN note CASCADE", "CASCADE is not offered", "CASCADE", "drop what reads"),
    ("ALTER SCHEMA s RENAME TO t", "SCHEMA cannot be meant", "SCHEMA", "ALTER TABLE"),
    ("COMMENT ON TABLE bid", "IS and the text", "bid", "IS 'text'"),
    ("COMMENT ON COLUMN bid IS 'x'", "column is missing", "IS", "t.a"),
    ("TRUNCATE TABLE bid CASCADE", "CASCADE is not offered", "bid", "leave CASCADE out"),
    ("DROP SCHEMA s t", "t is not expected here", "t", "DROP SCHEMA"),
    ("INSERT INTO bid (id, id) VALUES (1, 2)", "id stands twice", "id) VALUES", "once"),
    ("UPDATE bid SET price = 1 FROM auction JOIN bid ON true", "JOIN in the sources", "bid ON", "WHERE"),
    ("UPDATE bid SET price = 1, price = 2", "set twice", "price = 2", "once"),
    ("SHOW GRANTS ON bid", "SHOW GRANTS ON bid is not offered", "SHOW", "SHOW TABLES"),
    ("SET dialect", "form of SET", "SET", "name = value"),
    ("EXPLAIN DROP TABLE bid", "EXPLAIN takes", "DROP", "EXPLAIN [INCREMENTAL]"),
    ("GRANT SELECT AS boss", "GRANT is not offered", "GRANT", "statements are"),
    ("EXPLAIN bid", "EXPLAIN takes", "bid", "EXPLAIN [INCREMENTAL]"),
    ("EXPLAIN INCREMENTAL SELECT 1 FROM", "ends too early", "FROM", "before and after"),
]


@pytest.mark.parametrize(("text", "says", "under", "remedy"), WRONG_STATEMENTS)
@pytest.mark.parametrize("before", ["", "-- why\n  "], ids=["alone", "on a second line"])
def test_a_wrong_statement_is_refused_where_it_is_wrong(
    text: str, says: str, under: str, remedy: str, before: str
) -> None:
    with pytest.raises(SqlError) as caught:
        parse(before + text, "spark")
    error = caught.value
    assert says in error.message
    assert remedy in error.hint
    assert error.line == (2 if before else 1)
    line = (before + text).splitlines()[error.line - 1]
    assert line[error.column - 1 :].startswith(under), line[error.column - 1 :]


@pytest.mark.parametrize(
    ("text", "says"), [("SELECT 1; SELECT 2", "one statement is expected, 2"), (" ; ", "no statement")]
)
def test_one_statement_is_taken_at_a_time(text: str, says: str) -> None:
    with pytest.raises(SqlError, match=says):
        parse(text, "spark")


def test_the_place_of_an_error_in_an_explained_query_is_that_in_the_text() -> None:
    text = "EXPLAIN INCREMENTAL\nSELECT prize FROM bid"
    statement = parse(text, "spark")
    assert isinstance(statement, Explain)
    with pytest.raises(SqlError) as caught:
        bind(statement.target, small_catalog(), dialect="spark", sql=statement.sql)  # type: ignore[arg-type]
    assert (caught.value.line, caught.value.column) == (2, 8)

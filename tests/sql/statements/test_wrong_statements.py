"""A wrong statement is refused with its place and with what to write instead."""

from __future__ import annotations

import pytest

from engine.errors import SqlError
from engine.sql.bind.binder import bind
from engine.sql.statements.reader import Explain, parse_statement
from tests.sql.catalog import small_catalog

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
    ("CREATE TABLE t (id BIGINT PRIMARY KEY, ID INT)", "occurs twice", "ID INT", "another name"),
    (
        "CREATE TABLE t (id INT PRIMARY KEY, b INT PRIMARY KEY)",
        "two primary keys",
        "b INT",
        "one PRIMARY KEY",
    ),
    ("CREATE TABLE t (id INT, PRIMARY KEY (id, id))", "id twice", "id, id", "once"),
    ("CREATE TABLE t (id BIGINT, PRIMARY KEY (nr))", "no column of t", "nr", "columns are id"),
    ("CREATE TABLE _t (id BIGINT PRIMARY KEY)", "system's own", "_t", "another name"),
    ("CREATE TABLE t (_row_id BIGINT PRIMARY KEY)", "system's own", "_row_id", "another name"),
    ("CREATE TABLE t (Tideline__x BIGINT PRIMARY KEY)", "system's own", "Tideline__x", "another name"),
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
    ("CREATE MATERIALIZED VIEW v (a, a) AS SELECT id, id FROM bid", "occurs twice", "a)", "another name"),
    (
        "CREATE MATERIALIZED VIEW v (tideline__a) AS SELECT id FROM bid",
        "system's own",
        "tideline__a",
        "another name",
    ),
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
        "occurs twice",
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
    ("CREATE FUNCTION f() RETURNS INT LANGUAGE JAVA AS 'x'", "in JAVA", "f()", "LANGUAGE SQL"),
    ("CREATE FUNCTION sqrt(a INT) RETURNS INT RETURN a", "built-in", "sqrt", "another name"),
    ("CREATE INDEX i ON bid (price + 1)", "index on price + 1", "price", "name columns"),
    ("CREATE INDEX i ON bid (price, price)", "occurs twice", "price)", "once"),
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
    ("INSERT INTO bid (id, id) VALUES (1, 2)", "id occurs twice", "id) VALUES", "once"),
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
        parse_statement(before + text, "spark")
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
        parse_statement(text, "spark")


def test_the_place_of_an_error_in_an_explained_query_is_that_in_the_text() -> None:
    text = "EXPLAIN INCREMENTAL\nSELECT prize FROM bid"
    statement = parse_statement(text, "spark")
    assert isinstance(statement, Explain)
    with pytest.raises(SqlError) as caught:
        bind(statement.target, small_catalog(), dialect="spark", sql=statement.sql)  # type: ignore[arg-type]
    assert (caught.value.line, caught.value.column) == (2, 8)

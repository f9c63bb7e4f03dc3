"""Wrong statements of every kind: each names place and remedy, and none leaves a trace in the catalog."""

from __future__ import annotations

import pytest

from engine.errors import SqlError, UnsupportedSql
from engine.session import Session

WRONG = [
    "SELEC 1",
    "SELECT prize FROM bid",
    "SELECT id FROM bids",
    "CREATE MATERIALIZED VIEW v AS SELECT id FROM bids",
    "CREATE MATERIALIZED VIEW v AS SELECT prize FROM bid",
    "CREATE MATERIALIZED VIEW v AS SELECT id FROM bid b JOIN auction a ON b.auction = a.id",
    "CREATE MATERIALIZED VIEW v AS SELECT rand() AS r FROM bid",
    "CREATE MATERIALIZED VIEW v AS SELECT now() AS r FROM bid",
    "CREATE MATERIALIZED VIEW v AS SELECT nofunc(id) AS r FROM bid",
    "CREATE MATERIALIZED VIEW v AS SELECT id + array(1) AS x FROM bid",
    "CREATE MATERIALIZED VIEW v AS WITH RECURSIVE r AS (SELECT id FROM bid UNION ALL SELECT id FROM r) SELECT id FROM r",
    "CREATE MATERIALIZED VIEW v AS SELECT id, id FROM bid",
    "CREATE MATERIALIZED VIEW v AS SELECT auction, price FROM bid GROUP BY auction",
    "CREATE MATERIALIZED VIEW v AS SELECT sum(sum(price)) AS s FROM bid",
    "CREATE MATERIALIZED VIEW v AS SELECT id FROM bid WHERE sum(price) > 1",
    "CREATE MATERIALIZED VIEW bid AS SELECT id FROM auction",
    "CREATE TABLE bid (id INT PRIMARY KEY)",
    "CREATE TABLE t (id INT PRIMARY KEY, id INT)",
    "CREATE TABLE t (id NUMBER9 PRIMARY KEY)",
    "CREATE TABLE t (id INT, PRIMARY KEY (nr))",
    "CREATE TABLE t (id INT PRIMARY KEY, x INT DEFAULT nofunc())",
    "CREATE TABLE t (id INT PRIMARY KEY, x INT GENERATED ALWAYS AS (y))",
    "CREATE TABLE t (id INT PRIMARY KEY) ON CONFLICT MAYBE",
    "CREATE TABLE t (PRIMARY KEY (x)) AS SELECT id FROM bid",
    "CREATE TABLE t AS SELECT prize FROM bid",
    "CREATE VIEW v AS SELECT prize FROM bid",
    "CREATE VIEW v (a, b) AS SELECT id FROM bid",
    "CREATE INDEX i ON bid (prize)",
    "CREATE INDEX i ON bids (id)",
    "CREATE FUNCTION f(a INT) RETURNS INT RETURN b",
    "CREATE FUNCTION f(a INT) RETURNS INT LANGUAGE JAVA AS 'x'",
    "DROP TABLE bids",
    "DROP VIEW bid",
    "DROP MATERIALIZED VIEW bid",
    "DROP TABLE auction",
    "ALTER TABLE bids RENAME TO x",
    "ALTER TABLE bid RENAME TO auction",
    "ALTER TABLE bid RENAME COLUMN prize TO p",
    "ALTER TABLE bid ADD COLUMN price INT",
    "ALTER TABLE bid DROP COLUMN id",
    "ALTER MATERIALIZED VIEW m SET nothing = 1",
    "COMMENT ON TABLE bids IS 'x'",
    "COMMENT ON COLUMN bid.prize IS 'x'",
    "INSERT INTO bids VALUES (1)",
    "INSERT INTO bid VALUES (1, 2)",
    "INSERT INTO bid (id, prize) VALUES (1, 2)",
    "INSERT INTO bid SELECT id FROM auction",
    "INSERT INTO bid SELECT prize, 1, 1 FROM bid",
    "INSERT INTO m VALUES (1, 1)",
    "INSERT INTO bid VALUES (1,1,1) ON CONFLICT (price) DO NOTHING",
    "UPDATE bid SET prize = 1",
    "SET LOCAL nothing = 1",
    "RESET nothing",
    "UPDATE bid SET price = 1 WHERE prize = 1",
    "UPDATE bids SET a = 1",
    "UPDATE m SET n = 1",
    "DELETE FROM bid WHERE prize = 1",
    "DELETE FROM bids",
    "DELETE FROM bid RETURNING prize",
    "SELECT * FROM bid FOR SYSTEM_TIME AS OF 'soon'",
    "SELECT * FROM bid FOR SYSTEM_TIME AS OF 99999999999999999",
    "SET nothing = 1",
    "SET dialect = oracle",
    "SET query_policy = sometimes",
    "SHOW nothing",
    "SHOW CREATE TABLE bids",
    "DESCRIBE bids",
    "EXPLAIN INSERT INTO bid VALUES (1,1,1)",
    "GRANT ALL ON bid TO x",
    "CREATE MATERIALIZED VIEW v WITH (refresh = 'full') AS SELECT id FROM bid",
    "CREATE MATERIALIZED VIEW v WITH (refresh_policy = 'full') AS SELECT rand() AS r FROM bid",
    "CREATE MATERIALIZED VIEW v WITH (refresh_policy='full', key='x') AS SELECT id FROM bid",
]


def test_every_wrong_statement_names_place_and_remedy_and_leaves_no_trace(session: Session) -> None:
    session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT)")
    session.sql("CREATE TABLE auction (id BIGINT PRIMARY KEY, item STRING)")
    session.sql("INSERT INTO bid VALUES (1, 1, 1)")
    session.sql(
        "CREATE MATERIALIZED VIEW m AS SELECT item, count(*) AS n FROM auction GROUP BY item", build=False
    )
    catalog, tables = dict(session.store.refresh().catalog), set(session.store.version.tables)
    assert len(WRONG) >= 60
    for text in WRONG:
        try:
            session.sql(text)
        except SqlError as error:
            assert error.line and error.column and error.hint, f"{text}: {error}"
        else:
            raise AssertionError(f"{text} was taken")
        assert (dict(session.store.refresh().catalog), set(session.store.version.tables)) == (
            catalog,
            tables,
        ), text


NESTED_KEYS = {
    "SELECT tags, count(*) AS n FROM doc GROUP BY /**/tags": ("tags", "an array"),
    "SELECT DISTINCT id, /**/part FROM doc": ("part", "a struct"),
    "SELECT count(*) AS n FROM doc GROUP BY id, /**/array(id, 1)": ("ARRAY(id, 1)", "an array"),
    "SELECT a.id, b.id AS other FROM doc a JOIN doc b ON /**/a.part = b.part": ("a.part", "a struct"),
    "SELECT props, count(*) AS n FROM doc GROUP BY /**/props": ("props", "a map"),
    "SELECT a.id FROM doc a JOIN doc b ON a.id = b.id AND /**/a.tags = b.tags": ("a.tags", "an array"),
    "SELECT id FROM doc WHERE /**/tags IN (SELECT tags FROM doc)": ("tags", "an array"),
    "SELECT part FROM doc /**/UNION SELECT part FROM doc": ("part", "a struct"),
}


def test_views_that_tell_rows_apart_by_nested_values_are_refused_where_they_do(session: Session) -> None:
    session.sql(
        "CREATE TABLE doc (id BIGINT PRIMARY KEY, tags ARRAY<INT>, part STRUCT<a: INT, b: STRING>, props MAP<STRING, INT>)"
    )
    catalog = dict(session.store.refresh().catalog)
    for query, (value, kind) in NESTED_KEYS.items():
        text = f"CREATE MATERIALIZED VIEW v AS {query}"
        with pytest.raises(UnsupportedSql, match="cannot be grouped, joined or distinguished") as refused:
            session.sql(text.replace("/**/", ""))
        error = refused.value
        assert error.message.startswith(f"{value} is {kind} ("), error
        assert (error.line, error.column) == (1, text.index("/**/") + 1), error
        assert f"to_json({value})" in (error.hint or "")
    for text in (
        "CREATE INDEX i ON doc (tags)",
        "CREATE TABLE t (x INT, tags ARRAY<INT>, PRIMARY KEY (tags))",
        "CREATE TABLE t (PRIMARY KEY (tags)) AS SELECT tags FROM doc",
    ):
        with pytest.raises(
            UnsupportedSql, match=r"tags is an array \(array<int>\), which cannot be"
        ) as refused:
            session.sql(text)
        assert refused.value.hint and text[(refused.value.column or 0) - 1 :].startswith("tags")
    assert dict(session.store.refresh().catalog) == catalog
    session.sql("CREATE MATERIALIZED VIEW v AS SELECT tags, part, props, id FROM doc", build=False)


def test_a_query_among_values_is_refused_by_an_error_of_ours(session: Session) -> None:
    session.sql("CREATE TABLE source (n INT PRIMARY KEY)")
    with pytest.raises(SqlError, match=r"[Ss]ubquer"):
        session.sql("INSERT INTO source VALUES ((SELECT max(n) FROM source))")

"""Names and texts: which relation a name means in each dialect, and what comments and quotes do not change."""

from __future__ import annotations

from typing import Any

import pytest

from engine.errors import SqlError
from engine.session import Session
from engine.sql.statements.reader import Select, parse_statement


def rows(session: Session, query: str) -> list[tuple[Any, ...]]:
    found = session.sql(query)
    assert found is not None
    return sorted(tuple(row.values()) for row in found.to_pylist())


@pytest.fixture
def two(session: Session) -> Session:
    """Two tables whose names differ in nothing but case."""
    session.dialect = "postgres"
    session.sql("CREATE TABLE orders (id INT PRIMARY KEY, n INT)")
    session.sql('CREATE TABLE "Orders" (id INT PRIMARY KEY, n INT)')
    session.sql("INSERT INTO ORDERS VALUES (1, 10)")
    session.sql('INSERT INTO "Orders" VALUES (1, 20)')
    return session


def test_tables_whose_names_differ_in_case_are_never_mixed_up(two: Session) -> None:
    assert rows(two, "SELECT n FROM Orders") == [(10,)]
    assert rows(two, 'SELECT n FROM "Orders"') == [(20,)]
    query = 'SELECT a.n AS low, b.n AS high FROM orders a JOIN "Orders" b ON a.id = b.id'
    assert rows(two, query) == [(10, 20)]
    two.sql(f"CREATE MATERIALIZED VIEW both_orders AS {query}")
    assert rows(two, "SELECT * FROM both_orders") == [(10, 20)]
    full = "CREATE MATERIALIZED VIEW whole WITH (refresh_policy = 'full') AS "
    two.sql(full + 'SELECT n FROM orders UNION ALL SELECT n + 1 FROM "Orders"')
    assert rows(two, "SELECT n FROM whole") == [(10,), (21,)]
    two.sql('DELETE FROM "Orders"')
    two.flush().raise_for_errors()
    assert rows(two, "SELECT n FROM whole") == [(10,)]


def test_a_with_item_of_another_case_hides_no_table(two: Session) -> None:
    query = 'WITH orders AS (SELECT 7 AS n) SELECT n FROM orders UNION ALL SELECT n FROM "Orders"'
    assert rows(two, query) == [(7,), (20,)]
    two.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert rows(two, "SELECT n FROM v") == [(7,), (20,)]


def test_a_quoted_name_means_no_other_table(session: Session) -> None:
    session.dialect = "postgres"
    session.sql("CREATE TABLE orders (id INT PRIMARY KEY)")
    statements = ['SELECT * FROM "Orders"', 'CREATE VIEW v AS SELECT id FROM "Orders"']
    statements += [
        'CREATE MATERIALIZED VIEW v AS SELECT id FROM "Orders"',
        'CREATE SINK s FROM "Orders" INTO orders',
    ]
    statements += [
        'INSERT INTO "Orders" VALUES (1)',
        'DELETE FROM "Orders"',
        'DROP TABLE "Orders"',
        'DESCRIBE "Orders"',
    ]
    for statement in statements:
        with pytest.raises(SqlError) as refused:
            session.sql(statement)
        assert statement[refused.value.column - 1 :].lstrip('"').startswith("Orders"), statement
        assert "did you mean orders?" in str(refused.value)


def test_spark_finds_names_whatever_their_case(session: Session) -> None:
    session.sql("CREATE TABLE `Orders` (id INT PRIMARY KEY, n INT)")
    session.sql("INSERT INTO `oRDERS` VALUES (1, 2)")
    for name in ("orders", "ORDERS", "`Orders`", "`orders`"):
        assert rows(session, f"SELECT n FROM {name}") == [(2,)]
    assert list(session.catalog.relations) == ["orders"]
    with pytest.raises(SqlError, match="exists"):
        session.sql("CREATE TABLE `ORDERS` (id INT PRIMARY KEY)")
    session.sql("ALTER TABLE `Orders` RENAME TO `Bought`")
    session.sql("DROP TABLE `BOUGHT`")
    assert not session.catalog.relations


def test_spark_reads_the_table_of_the_exact_name_first(two: Session) -> None:
    two.dialect = "spark"
    assert rows(two, "SELECT n FROM `Orders`") == [(20,)]
    assert rows(two, "SELECT n FROM orders") == [(10,)]


def test_a_quoted_column_that_is_there_is_dropped(session: Session) -> None:
    session.dialect = "postgres"
    session.sql('CREATE TABLE t (id INT PRIMARY KEY, "MyCol" INT)')
    with pytest.raises(SqlError, match="no column mycol"):
        session.sql("ALTER TABLE t DROP COLUMN IF EXISTS MyCol")
    session.sql('ALTER TABLE t DROP COLUMN IF EXISTS "Other"')
    session.sql('ALTER TABLE t DROP COLUMN IF EXISTS "MyCol"')
    assert [column.name for column in session.catalog.get("t").columns] == ["id"]


def test_a_sink_is_dropped_by_its_exact_name(session: Session) -> None:
    session.dialect = "postgres"
    session.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    session.sql("CREATE TABLE u (id INT PRIMARY KEY)")
    session.sql("CREATE SINK keeper FROM t INTO u")
    with pytest.raises(SqlError, match="Keeper"):
        session.sql('DROP SINK "Keeper"')
    assert "keeper" in session.catalog.relations


def test_a_rename_changes_the_name_and_no_comment(session: Session) -> None:
    session.sql("-- t is small\nCREATE TABLE /* t */ t (id INT PRIMARY KEY)")
    session.sql("CREATE VIEW view AS SELECT id FROM t")
    session.sql("ALTER VIEW view RENAME TO shown")
    session.sql("CREATE MATERIALIZED VIEW /* of the view */ m AS SELECT id FROM shown")
    session.sql("ALTER MATERIALIZED VIEW m RENAME TO n")
    assert session.catalog.get("shown").sql == "CREATE VIEW shown AS SELECT id FROM t"
    made = "CREATE MATERIALIZED VIEW /* of the view */ n AS SELECT id FROM shown"
    assert session.catalog.get("n").sql == made


TEXTS = [
    ("spark", r"'it\'s'", "it's"),
    ("spark", '"it\'s"', "it's"),
    ("spark", "'it''s'", "it's"),
    ("spark", "''''", "'"),
    ("spark", '"d""q"', 'd"q'),
    ("spark", """'d""q'""", 'd""q'),
    ("spark", "'a' 'b'", "ab"),
    ("spark", r"r'a\'", "a\\"),
    ("spark", "'a -- b' /* it's */", "a -- b"),
    ("spark", "'`x`'", "`x`"),
    ("postgres", "'it''s'", "it's"),
    ("postgres", r"'a\'", "a\\"),
    ("postgres", r"E'it\'s'", "it's"),
    ("postgres", "$$it's /* no comment */$$", "it's /* no comment */"),
    ("postgres", "$q$it's$q$", "it's"),
    ("postgres", r"U&'d\0061t\+000061'", "data"),
    ("risingwave", "'a'/* '' */", "a"),
]


def test_texts_and_comments_stay_what_they_are_through_subqueries(session: Session) -> None:
    session.sql("CREATE TABLE t (n INT PRIMARY KEY)")
    session.sql("INSERT INTO t VALUES (1), (5)")
    for number, (dialect, text, meant) in enumerate(TEXTS):
        session.dialect = dialect  # type: ignore[assignment]
        query = (
            f"SELECT CASE WHEN x > 3 -- it isn't low\n THEN concat(cast(x AS VARCHAR(9)), /* ' */ {text}) END AS y "
            "FROM (SELECT n + 1 AS x -- isn't it\nFROM t) q WHERE x > 3 /* ' */"
        )
        if dialect == "spark":
            query = query.replace("VARCHAR(9)", "STRING")
        assert rows(session, query) == [("6" + meant,)], text
        session.sql(f"CREATE MATERIALIZED VIEW v{number} AS {query}", build=False)
    session.flush().raise_for_errors()
    for number, (_, text, meant) in enumerate(TEXTS):
        assert rows(session, f"SELECT * FROM v{number}") == [("6" + meant,)], text


def test_comments_in_functions_defaults_and_plain_views_are_left_out(session: Session) -> None:
    session.sql(
        "CREATE TABLE t (n INT PRIMARY KEY, a STRING DEFAULT concat('x', /* it's */ 'y'), "
        "b INT GENERATED ALWAYS AS (n + 1 -- isn't it\n))"
    )
    session.sql("CREATE FUNCTION f(x INT) RETURNS INT LANGUAGE SQL AS 'SELECT x /* it\\'s */ + 1'")
    session.sql("CREATE VIEW w AS SELECT n -- it's the key\n, f(b) AS c, a FROM t -- isn't it")
    session.sql("INSERT INTO t (n) VALUES (1)")
    session.sql("CREATE MATERIALIZED VIEW v AS SELECT q.c + /* ' */ 1 AS d, q.a FROM (SELECT c, a FROM w) q")
    assert rows(session, "SELECT * FROM v") == [(4, "xy")]


@pytest.mark.parametrize(
    ("dialect", "schema"), [("spark", "default"), ("postgres", "public"), ("risingwave", "PUBLIC")]
)
def test_the_schema_that_a_client_is_in_may_be_named(dialect: str, schema: str) -> None:
    texts = {
        f"CREATE TABLE {schema}.t (id BIGINT PRIMARY KEY)": "name",
        f"DROP TABLE {schema}.t": "name",
        f"INSERT INTO {schema}.t VALUES (1)": "table",
        f"UPDATE {schema}.t SET a = 1": "table",
        f"DELETE FROM {schema}.t": "table",
        f"TRUNCATE TABLE {schema}.t": "table",
        f"DESCRIBE {schema}.t": "name",
        f"SHOW CREATE TABLE {schema}.t": "name",
        f"SHOW COLUMNS FROM {schema}.t": "name",
        f"ALTER TABLE {schema}.t DROP COLUMN a": "name",
    }
    for text, field in texts.items():
        assert getattr(parse_statement(text, dialect), field) == "t", text
    query = parse_statement(f"SELECT {schema}.t.a FROM {schema}.t", dialect)
    assert isinstance(query, Select)
    assert query.query.sql() == "SELECT t.a FROM t"

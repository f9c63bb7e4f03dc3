"""A name means what is nearest: a WITH item from the one after it on, the schema that is written before search_path."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.session import Session
from engine.sql.statements import reader as st
from engine.sql.statements.statement_types import Insert

OWN = {"spark": "default", "postgres": "public", "risingwave": "public"}


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (
            "WITH x AS (SELECT 1 AS a) INSERT INTO t WITH x AS (SELECT 2 AS a), y AS (SELECT a FROM x) SELECT a FROM y",
            "WITH x AS (SELECT 2 AS a), y AS (SELECT a FROM x) SELECT a FROM y",
        ),
        (
            "WITH x AS (SELECT 1 AS a) INSERT INTO t WITH x AS (SELECT a FROM x) SELECT a FROM x",
            "WITH x AS (SELECT a FROM (SELECT 1 AS a) AS x) SELECT a FROM x",
        ),
    ],
)
def test_an_inner_with_hides_an_outer_item_from_its_own_on(text: str, rows: str) -> None:
    found = st.parse_statement(text, "postgres")
    assert isinstance(found, Insert) and found.rows.sql() == rows


@pytest.fixture(params=OWN)
def two(request: pytest.FixtureRequest, tmp_path: Path) -> Session:
    """A session whose search_path is a schema that has a table t, as the store's own has one."""
    session = Session(tmp_path.as_uri(), dialect=request.param)
    for text in (
        "CREATE SCHEMA a",
        "CREATE TABLE t (id int PRIMARY KEY)",
        "CREATE TABLE a.t (id int PRIMARY KEY)",
        "INSERT INTO t VALUES (1)",
        "INSERT INTO a.t VALUES (2)",
        "SET search_path = a",
    ):
        session.sql(text)
    return session


def ids(session: Session, table: str) -> list[int]:
    found = session.sql(f"SELECT id FROM {table} ORDER BY id")
    assert found is not None
    return found["id"].to_pylist()


def test_the_own_schema_before_a_name_is_not_looked_up_in_search_path(two: Session) -> None:
    own = OWN[two.dialect]
    two.sql(f"INSERT INTO {own}.t VALUES (3)")
    two.sql(f"UPDATE {own}.t SET id = 4 WHERE id = 3")
    assert (ids(two, f"{own}.t"), ids(two, "t")) == ([1, 4], [2])
    two.sql(f"DELETE FROM {own}.t WHERE id = 4")
    two.sql(f"CREATE TABLE {own}.z (id int PRIMARY KEY)")
    two.sql(f"ALTER TABLE {own}.z RENAME TO y")
    two.sql(f"CREATE VIEW {own}.v AS SELECT id FROM t")
    two.sql(f"COMMENT ON TABLE {own}.t IS 'first'")
    assert set(two.catalog.relations) == {"_schema_a", "t", "a.t", "y", "v"}
    two.sql(f"DROP VIEW {own}.v")
    two.sql(f"DROP TABLE {own}.t")
    assert ids(two, "t") == [2]
    assert set(two.catalog.relations) == {"_schema_a", "a.t", "y"}


def test_an_item_may_read_the_table_of_its_own_name_in_search_path(two: Session) -> None:
    two.sql("CREATE VIEW v AS WITH t AS (SELECT id FROM t) SELECT id FROM t")
    two.sql("CREATE VIEW w AS WITH b AS (SELECT id FROM t), t AS (SELECT 5 AS id) SELECT b.id FROM b, t")
    for name in ("a.v", "a.w"):
        assert "FROM a.t" in two.catalog.get(name).sql
        assert two.catalog.get(name).sql.count("a.t") == 1

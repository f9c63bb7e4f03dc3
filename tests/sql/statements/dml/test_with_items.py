"""WITH before INSERT, UPDATE and DELETE means its items, whatever tables have their names."""

from __future__ import annotations

import pytest

from engine.errors import SqlError
from engine.session import Session
from engine.sql.statements import reader as st
from engine.sql.statements.statement_types import DeleteFrom, Insert, Update

DIALECTS = ("spark", "postgres", "risingwave")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_items_are_written_where_they_are_named(dialect: str) -> None:
    found = st.parse_statement(
        "WITH x AS (SELECT 1 AS a), y(b) AS (SELECT a FROM x) INSERT INTO t SELECT b FROM y AS z", dialect
    )
    assert isinstance(found, Insert)
    assert found.rows.sql() == "SELECT b FROM (SELECT a FROM (SELECT 1 AS a) AS x) AS z(b)"
    gone = st.parse_statement("WITH x AS (SELECT 1 AS a) DELETE FROM x WHERE a IN (SELECT a FROM x)", dialect)
    assert isinstance(gone, DeleteFrom)
    assert gone.table == "x"  # what is deleted from is a table
    assert gone.where is not None and gone.where.sql() == "a IN (SELECT a FROM (SELECT 1 AS a) AS x)"
    inner = st.parse_statement(
        "WITH x AS (SELECT 1 AS a) DELETE FROM t WHERE a IN (WITH x AS (SELECT 2 AS a) SELECT a FROM x)",
        dialect,
    )
    assert isinstance(inner, DeleteFrom)
    assert inner.where is not None and "SELECT 1" not in inner.where.sql()


def test_sources_of_an_update_may_be_items() -> None:
    found = st.parse_statement(
        "WITH x AS (SELECT 1 AS a) UPDATE t SET b = x.a FROM x WHERE t.a = x.a", "postgres"
    )
    assert isinstance(found, Update)
    assert [source.sql() for source in found.sources] == ["(SELECT 1 AS a) AS x"]
    gone = st.parse_statement("WITH x AS (SELECT 1 AS a) DELETE FROM t USING x WHERE t.a = x.a", "postgres")
    assert isinstance(gone, DeleteFrom)
    assert [source.sql() for source in gone.sources] == ["(SELECT 1 AS a) AS x"]


@pytest.mark.parametrize(
    ("text", "says", "place"),
    [
        ("WITH d AS (DELETE FROM t RETURNING *) SELECT * FROM d", "DELETE in WITH is not offered", (1, 6)),
        (
            "WITH RECURSIVE x AS (SELECT 1 AS a) DELETE FROM t WHERE a IN (SELECT a FROM x)",
            "WITH RECURSIVE before a statement that writes is not offered",
            (1, 1),
        ),
    ],
)
def test_what_cannot_be_written_out_is_told_with_its_place(
    text: str, says: str, place: tuple[int, int]
) -> None:
    with pytest.raises(SqlError) as caught:
        st.parse_statement(text, "postgres")
    assert caught.value.message == says
    assert (caught.value.line, caught.value.column) == place


def test_a_table_of_the_same_name_is_not_meant(session: Session) -> None:
    session.sql("CREATE TABLE t (a INT PRIMARY KEY); CREATE TABLE x (a INT PRIMARY KEY)")
    session.sql(
        "INSERT INTO x VALUES (1), (2); WITH x AS (SELECT 5 AS a) INSERT INTO t SELECT a FROM x; INSERT INTO t VALUES (1)"
    )
    session.sql("WITH x AS (SELECT 5 AS a) DELETE FROM t WHERE a IN (SELECT a FROM x)")
    found = session.sql("SELECT a FROM t")
    assert found is not None and found.to_pylist() == [{"a": 1}]

"""No part of an INSERT, UPDATE or DELETE is read over: what is not offered is refused, as rows would be lost by it."""

from __future__ import annotations

import pytest

from engine.errors import SqlError
from engine.sql.statements import reader as st
from engine.sql.statements.statement_types import DeleteFrom, Insert, Update


@pytest.mark.parametrize("dialect", ["spark", "postgres", "risingwave"])
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("DELETE FROM t JOIN u ON t.id = u.id", "DELETE … JOIN is not offered"),
        ("DELETE FROM t, u WHERE t.id = u.id", "DELETE … JOIN is not offered"),
        ("DELETE t FROM t JOIN u ON t.id = u.id", "DELETE … a list of tables is not offered"),
        ("DELETE FROM t TABLESAMPLE (1 ROWS)", "DELETE … TABLESAMPLE is not offered"),
        (
            "DELETE FROM t FOR SYSTEM_TIME AS OF '2024-01-01'",
            "DELETE … FOR SYSTEM_TIME AS OF is not offered",
        ),
        ("DELETE FROM t WHERE a = 1 LIMIT 1", "DELETE … LIMIT is not offered"),
        ("UPDATE t JOIN u ON t.id = u.id SET x = 1", "UPDATE … JOIN is not offered"),
        ("UPDATE t, u SET x = 1 WHERE t.id = u.id", "UPDATE … JOIN is not offered"),
        ("UPDATE t TABLESAMPLE (1 ROWS) SET x = 1", "UPDATE … TABLESAMPLE is not offered"),
        ("UPDATE t AS q (a, b) SET x = 1", "UPDATE … AS q(a, b) is not offered"),
        ("UPDATE t SET x = 1 ORDER BY x", "UPDATE … ORDER BY is not offered"),
        ("UPDATE t SET u.x = 1", "u.x is no column of t"),
        ("UPDATE t AS q SET t.x = 1", "t.x is no column of q"),
        ("INSERT INTO t VALUES (1) ON CONFLICT (a) DO UPDATE SET u.x = 1", "u.x is no column of t"),
        ("INSERT INTO t REPLACE WHERE a = 1 SELECT 1, 2", "INSERT … REPLACE WHERE is not offered"),
        ("INSERT INTO t PARTITION (a = 1) SELECT 2", "INSERT … PARTITION is not offered"),
        ("INSERT OR REPLACE INTO t VALUES (1, 2)", "INSERT … OR … is not offered"),
        ("INSERT INTO t IF EXISTS VALUES (1, 2)", "INSERT … IF EXISTS is not offered"),
        ("INSERT INTO t VALUES (1, 2) RETURNING a INTO z", "INSERT … RETURNING … INTO is not offered"),
        (
            "INSERT INTO t BY NAME SELECT * FROM u",
            "BY NAME takes a SELECT whose columns have names, and no list",
        ),
        ("INSERT INTO t BY NAME SELECT 1 AS a, 2 AS a", "column a occurs twice"),
    ],
)
def test_a_part_that_is_not_offered_is_refused(dialect: str, text: str, says: str) -> None:
    with pytest.raises(SqlError) as caught:
        st.parse_statement(text, dialect)
    assert caught.value.message == says
    assert caught.value.line is not None and caught.value.hint


def test_columns_of_the_table_itself_may_be_set_by_its_name_or_alias() -> None:
    for text in ("UPDATE T SET t.x = 1", "UPDATE t AS q SET Q.x = 1", "UPDATE s.t SET t.x = 1"):
        found = st.parse_statement(text, "spark")
        assert isinstance(found, Update) and found.assignments[0][0] == "x"


def test_insert_by_name_finds_its_columns_by_those_of_the_query() -> None:
    found = st.parse_statement(
        "INSERT INTO t BY NAME SELECT 1 AS b, u.a FROM u UNION ALL SELECT 2, 3", "spark"
    )
    assert isinstance(found, Insert) and found.columns == ("b", "a")


def test_only_and_aliases_are_read() -> None:
    found = st.parse_statement("DELETE FROM ONLY t AS q WHERE q.a = 1", "postgres")
    assert isinstance(found, DeleteFrom) and (found.table, found.alias) == ("t", "q")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ALTER TABLE t ADD COLUMN a int FIRST", "FIRST of a new column is not offered"),
        ("ALTER TABLE t ADD COLUMN a int AFTER b", "AFTER of a new column is not offered"),
        (
            "CREATE FUNCTION f(a int DEFAULT 1) RETURNS int LANGUAGE SQL AS 'SELECT a'",
            "DEFAULT 1 of a parameter is not offered",
        ),
        (
            "CREATE FUNCTION f(VARIADIC a int[]) RETURNS int LANGUAGE SQL AS 'SELECT 1'",
            "VARIADIC of a parameter is not offered",
        ),
        (
            "CREATE FUNCTION f(OUT a int) RETURNS int LANGUAGE SQL AS 'SELECT 1'",
            "OUT of a parameter is not offered",
        ),
    ],
)
def test_what_is_said_of_a_column_or_parameter_is_not_read_over(text: str, says: str) -> None:
    with pytest.raises(SqlError) as caught:
        st.parse_statement(text, "spark" if "ALTER" in text else "postgres")
    assert caught.value.message == says


def test_parameters_may_be_said_to_be_given() -> None:
    for text in (
        "CREATE FUNCTION f(IN a int) RETURNS int LANGUAGE SQL AS 'SELECT a'",
        "CREATE FUNCTION f(a int COMMENT 'one') RETURNS int RETURN a",
    ):
        st.parse_statement(text, "postgres" if "IN a" in text else "spark")

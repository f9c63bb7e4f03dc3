"""CREATE SINK … INTO t (columns), sinks that fill columns of one row, and sinks AS SELECT."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import SqlError
from engine.session import Session
from engine.sql.statements import reader as st
from engine.sql.statements.ddl.sink_statements import CreateSink


def _rows(session: Session, text: str) -> list[tuple]:
    found = session.sql(text)
    assert found is not None
    return sorted(tuple(row.values()) for row in found.to_pylist())


@pytest.mark.parametrize("dialect", ["spark", "postgres", "risingwave"])
def test_every_form_of_create_sink_is_read(dialect: str) -> None:
    found = st.parse_statement("CREATE SINK s INTO t (a, b) FROM v WITH (type = 'append-only')", dialect)
    assert isinstance(found, CreateSink)
    assert (found.into, found.columns, found.source, found.options) == (
        "t",
        ("a", "b"),
        "v",
        {"type": "append-only"},
    )
    found = st.parse_statement("CREATE SINK IF NOT EXISTS s FROM v INTO t(b)", dialect)
    assert isinstance(found, CreateSink)
    assert (found.into, found.columns, found.if_not_exists) == ("t", ("b",), True)
    text = "CREATE SINK s AS WITH w AS (SELECT 1 AS a) SELECT a FROM w WITH (connector = 'file', path = 'p')"
    found = st.parse_statement(text, dialect)
    assert isinstance(found, CreateSink)
    assert found.query_sql == "WITH w AS (SELECT 1 AS a) SELECT a FROM w"
    assert found.options == {"connector": "file", "path": "p"}
    assert (found.source, found.into) == ("_sink_s", None)


@pytest.mark.parametrize(
    ("text", "says", "place"),
    [
        ("CREATE SINK s INTO t (a, a) FROM v", "column a occurs twice", (1, 22)),
        ("CREATE SINK s INTO t (a, ) FROM v", "nothing is no name of a column", (1, 22)),
        ("CREATE SINK s INTO t AS VALUES (1)", "AS VALUES is not offered", (1, 25)),
        ("CREATE SINK s INTO t AS\nSELECT a FROM", "it ends too early", (2, 10)),
        (
            "CREATE SINK s AS SELECT 1 WITH (connector = 'file') FORMAT PLAIN",
            "this is not expected behind the options of a sink",
            (1, 53),
        ),
    ],
)
def test_a_wrong_form_is_told_with_its_place(text: str, says: str, place: tuple[int, int]) -> None:
    with pytest.raises(SqlError, match=says) as caught:
        st.parse_statement(text, "risingwave")
    assert (caught.value.line, caught.value.column) == place


@pytest.fixture
def wide(tmp_path: Path) -> Session:
    """A session without Spark: a wide table, and two narrow ones that fill it."""
    session = Session((tmp_path / "store").as_uri(), dialect="risingwave")
    session.sql(
        "CREATE TABLE wide (k INT PRIMARY KEY, a INT, b INT) ON CONFLICT DO UPDATE IF NOT NULL;"
        "CREATE TABLE one (id INT PRIMARY KEY, x INT); CREATE TABLE two (id INT PRIMARY KEY, y INT);"
        "CREATE SINK first INTO wide (k, a) FROM one; CREATE SINK second INTO wide (k, b) FROM two"
    )
    return session


def test_sinks_fill_columns_of_one_row(wide: Session) -> None:
    with wide:
        wide.sql("INSERT INTO one VALUES (1, 10), (2, 20); INSERT INTO two VALUES (1, 100); FLUSH")
        assert _rows(wide, "SELECT * FROM wide WHERE k = 1") == [(1, 10, 100)]
        assert _rows(wide, "SELECT * FROM wide WHERE k = 2") == [(2, 20, None)]
        wide.sql("UPDATE two SET y = 101 WHERE id = 1; FLUSH")
        assert _rows(wide, "SELECT * FROM wide WHERE k = 1") == [(1, 10, 101)]
        wide.sql("DELETE FROM two WHERE id = 1; FLUSH")
        assert _rows(wide, "SELECT * FROM wide WHERE k = 1") == []
        assert _rows(wide, "SELECT * FROM wide WHERE k = 2") == [(2, 20, None)]


def test_columns_of_another_number_or_name_are_told(wide: Session) -> None:
    with wide:
        for columns, says in (
            ("k", "1 columns for the 2 of the rows"),
            ("k, c", "table wide has no column c"),
        ):
            with pytest.raises(SqlError, match=says):
                wide.sql(f"CREATE SINK third INTO wide ({columns}) FROM one")


def test_a_sink_as_select_has_a_view_of_its_own_that_goes_with_it(session: Session) -> None:
    session.sql(
        "CREATE TABLE s (k INT, v INT); CREATE TABLE t (k INT PRIMARY KEY, n BIGINT); INSERT INTO s VALUES (1, 5), (1, 6)"
    )
    session.sql("CREATE SINK c INTO t AS SELECT k, count(*) AS n FROM s GROUP BY k")
    assert _rows(session, "SELECT * FROM t") == [(1, 2)]
    session.sql("INSERT INTO s VALUES (2, 7); FLUSH")
    assert _rows(session, "SELECT * FROM t") == [(1, 2), (2, 1)]
    assert _rows(session, "SHOW MATERIALIZED VIEWS") == []
    assert session.sql("SHOW SINKS").column("from").to_pylist() == ["(query)"]  # type: ignore[union-attr]
    with pytest.raises(SqlError, match="s is read by c: sink c"):
        session.sql("DROP TABLE s")
    session.sql("DROP SINK c")
    assert set(session.catalog.relations) == {"s", "t"}
    session.sql("CREATE SINK c INTO t AS SELECT k, count(*) AS n FROM s GROUP BY k; DROP TABLE t CASCADE")
    assert set(session.catalog.relations) == {"s"}


def test_the_one_row_of_a_total_may_move_to_another_key(session: Session) -> None:
    session.sql(
        "CREATE TABLE s (k INT); CREATE TABLE t (k INT PRIMARY KEY, n BIGINT); INSERT INTO s VALUES (1)"
    )
    session.sql("CREATE SINK c INTO t AS SELECT max(k) AS k, count(*) AS n FROM s")
    for value in (3, 2, 9):
        session.sql(f"INSERT INTO s VALUES ({value}); FLUSH")
    assert _rows(session, "SELECT * FROM t") == [(9, 4)]


def test_a_sink_that_cannot_be_made_leaves_no_view(session: Session) -> None:
    session.sql("CREATE TABLE s (k INT, v INT); CREATE TABLE t (k INT PRIMARY KEY, n BIGINT)")
    with pytest.raises(SqlError, match="table t has no column m"):
        session.sql("CREATE SINK c INTO t AS SELECT k, count(*) AS m FROM s GROUP BY k")
    with pytest.raises(SqlError, match="two rows of the query could become one row of t"):
        session.sql(
            "CREATE SINK c INTO t AS SELECT v AS k, k AS n FROM (SELECT k, max(v) AS v FROM s GROUP BY k)"
        )
    assert set(session.catalog.relations) == {"s", "t"}

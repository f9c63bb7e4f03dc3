"""Statements of elsewhere that mean nothing here, and those about several relations at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import SqlError
from engine.session import Session
from engine.sql.statements import reader as st
from engine.sql.statements.session.session_statements import IgnoredStatement, Refresh
from engine.sql.statements.statement_types import Alter, CreateIndex, CreateView, Select, Several

DIALECTS = ("spark", "postgres", "risingwave")


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Session]:
    """A session that starts no Spark, over two tables with a row each."""

    def no_spark() -> None:
        raise AssertionError("Spark was started")

    with Session(tmp_path.as_uri(), no_spark, dialect="postgres") as session:
        session.sql("CREATE TABLE a (id INT PRIMARY KEY); CREATE TABLE b (id INT PRIMARY KEY)")
        session.sql("INSERT INTO a VALUES (1); INSERT INTO b VALUES (2)")
        yield session


def _rows(session: Session, text: str) -> list[tuple]:
    found = session.sql(text)
    assert found is not None
    return sorted(tuple(row.values()) for row in found.to_pylist())


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "text",
    [
        "BEGIN",
        "BEGIN READ ONLY",
        "START TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "COMMIT",
        "END TRANSACTION",
        "ANALYZE t",
        "ANALYZE TABLE t COMPUTE STATISTICS",
        "VACUUM (FULL) t",
        "REFRESH TABLE t",
        "CACHE TABLE t",
    ],
)
def test_what_means_nothing_here_is_taken(dialect: str, text: str) -> None:
    assert isinstance(st.parse_statement(text, dialect), IgnoredStatement)


@pytest.mark.parametrize("text", ["ROLLBACK", "GRANT SELECT ON t TO u", "LOCK TABLE t", "SAVEPOINT s"])
def test_what_would_promise_something_is_refused(text: str) -> None:
    for dialect in DIALECTS:
        with pytest.raises(SqlError, match=r"is not offered|is no statement"):
            st.parse_statement(text, dialect)


def test_a_notice_says_that_a_transaction_takes_nothing_back(alone: Session) -> None:
    alone.sql("BEGIN; INSERT INTO a VALUES (5); COMMIT")
    assert len(alone.notices) == 2
    assert "BEGIN has no meaning here: each statement is its own transaction" in alone.notices[0]
    assert _rows(alone, "SELECT * FROM a") == [(1,), (5,)]


def test_several_relations_are_dropped_or_emptied_by_one_statement(alone: Session) -> None:
    with pytest.raises(SqlError, match="there is no table nothing"):
        alone.sql("TRUNCATE a, nothing")
    with pytest.raises(SqlError, match="there is no table nothing"):
        alone.sql("DROP TABLE a, nothing")
    assert _rows(alone, "SELECT * FROM a") == [(1,)]
    alone.sql("TRUNCATE TABLE a, b")
    assert _rows(alone, "SELECT * FROM a") == _rows(alone, "SELECT * FROM b") == []
    alone.sql("DROP TABLE IF EXISTS a, nothing, b")
    assert not alone.catalog.relations


def test_several_names_are_found_along_the_search_path_and_in_sparks_case(alone: Session) -> None:
    alone.sql(
        "CREATE SCHEMA s; CREATE TABLE s.a (id INT PRIMARY KEY); SET search_path TO s, public; DROP TABLE a, b"
    )
    assert set(alone.catalog.relations) == {"a", "_schema_s"}
    alone.sql(
        "RESET search_path; SET dialect = 'spark'; CREATE TABLE c (id INT PRIMARY KEY); DROP TABLE A, C"
    )
    assert set(alone.catalog.relations) == {"_schema_s"}


def test_discard_all_brings_settings_back(alone: Session) -> None:
    alone.sql("SET implicit_flush = true; DISCARD ALL")
    assert not alone.settings.is_on("rw_implicit_flush")


def test_a_view_that_nothing_reads_can_be_replaced(alone: Session) -> None:
    found = st.parse_statement("CREATE OR REPLACE VIEW v AS SELECT id FROM a", "postgres")
    assert isinstance(found, CreateView) and found.replaces
    alone.sql(
        "CREATE OR REPLACE VIEW v AS SELECT id FROM a; CREATE OR REPLACE VIEW v AS SELECT id AS n FROM b"
    )
    assert alone.catalog.get("v").depends_on == ("b",)
    assert [column.name for column in alone.catalog.get("v").columns] == ["n"]
    for text, says in (
        ("CREATE OR REPLACE VIEW a AS SELECT 1 AS x", "a is a table, not a view"),
        ("CREATE OR REPLACE VIEW v AS SELECT n FROM v", "v would read itself"),
    ):
        with pytest.raises(SqlError, match=says):
            alone.sql(text)
    alone.sql("CREATE VIEW w AS SELECT n FROM v")
    with pytest.raises(SqlError, match="v is read by w, which would keep its old text"):
        alone.sql("CREATE OR REPLACE VIEW v AS SELECT id AS n FROM a")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_short_forms_mean_their_long_ones(dialect: str) -> None:
    found = st.parse_statement("CREATE INDEX ON s.t USING btree (a, b)", dialect)
    assert isinstance(found, CreateIndex)
    assert (found.name, found.table, found.columns) == ("s.t_a_b_idx", "s.t", ("a", "b"))
    assert isinstance(st.parse_statement("TABLE t", dialect), Select)
    assert isinstance(st.parse_statement("DROP TABLE a, b", dialect), Several)
    refreshed = st.parse_statement("REFRESH MATERIALIZED VIEW CONCURRENTLY s.v", dialect)
    assert isinstance(refreshed, Refresh) and refreshed.name == "s.v"
    altered = st.parse_statement("ALTER TABLE ONLY t ADD COLUMN b INT", dialect)
    assert isinstance(altered, Alter) and (altered.kind, altered.name) == ("table", "t")
    only = st.parse_statement("ALTER TABLE only RENAME TO t", dialect)
    assert isinstance(only, Alter) and only.name == "only"


def test_refresh_returns_when_a_view_reflects_what_was_written(session: Session) -> None:
    session.sql("CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW v AS SELECT sum(a) AS s FROM t")
    session.sql("INSERT INTO t VALUES (3), (4)")
    session.sql("REFRESH MATERIALIZED VIEW v")
    assert _rows(session, "SELECT * FROM v") == [(7,)]
    with pytest.raises(SqlError, match="t is a table, not a materialized view"):
        session.sql("REFRESH MATERIALIZED VIEW t")

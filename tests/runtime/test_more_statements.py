"""INSERT of defaults, ALTER COLUMN, SET SCHEMA and jobs, as a session runs them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import SqlError
from engine.session import Session


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Session]:
    """A session that starts no Spark, with a table that has defaults."""

    def no_spark() -> None:
        raise AssertionError("Spark was started")

    with Session(tmp_path.as_uri(), no_spark, dialect="postgres") as session:
        session.sql("CREATE TABLE t (a INT, b TEXT DEFAULT 'x', c INT DEFAULT 7)")
        yield session


def _rows(session: Session, text: str = "SELECT * FROM t") -> list[tuple]:
    found = session.sql(text)
    assert found is not None
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)


def test_rows_that_are_shorter_than_the_table_get_its_defaults(alone: Session) -> None:
    alone.sql("INSERT INTO t VALUES (1), (2, 'y'), (3, DEFAULT, 9)")
    assert _rows(alone) == [(1, "x", 7), (2, "y", 7), (3, "x", 9)]
    with pytest.raises(SqlError, match="1 values for 2 columns"):
        alone.sql("INSERT INTO t (a, b) VALUES (1)")
    with pytest.raises(SqlError, match="4 values for 3 columns"):
        alone.sql("INSERT INTO t VALUES (1, 'x', 2, 3)")
    alone.dialect = "spark"
    with pytest.raises(SqlError, match="1 values for 3 columns"):
        alone.sql("INSERT INTO t VALUES (1)")


def test_a_row_of_nothing_but_defaults_is_a_row(alone: Session) -> None:
    alone.sql("INSERT INTO t DEFAULT VALUES; INSERT INTO t VALUES (DEFAULT, DEFAULT, DEFAULT)")
    assert _rows(alone) == [(None, "x", 7), (None, "x", 7)]
    alone.sql("CREATE TABLE u (n INT DEFAULT 5); INSERT INTO u DEFAULT VALUES")
    assert _rows(alone, "SELECT * FROM u") == [(5,)]


def test_overriding_changes_nothing(alone: Session) -> None:
    alone.sql("INSERT INTO t (a) OVERRIDING SYSTEM VALUE VALUES (1)")
    assert _rows(alone) == [(1, "x", 7)]


def test_another_default_is_that_of_rows_to_come(alone: Session) -> None:
    alone.sql(
        "INSERT INTO t (a) VALUES (1); ALTER TABLE t ALTER COLUMN b SET DEFAULT 'z'; ALTER TABLE t ALTER c DROP DEFAULT"
    )
    alone.sql("INSERT INTO t (a) VALUES (2)")
    assert _rows(alone) == [(1, "x", 7), (2, "z", None)]
    with pytest.raises(SqlError, match="the DEFAULT does not fit") as caught:
        alone.sql("ALTER TABLE t ALTER c SET DEFAULT 99999999999")
    assert (caught.value.line, caught.value.column) == (1, 21)


def test_not_null_is_asked_of_the_rows_that_are_there(alone: Session) -> None:
    alone.sql("INSERT INTO t (a) VALUES (NULL)")
    with pytest.raises(SqlError, match="rows of t have no value in a"):
        alone.sql("ALTER TABLE t ALTER a SET NOT NULL")
    alone.sql("DELETE FROM t WHERE c = 7; ALTER TABLE t ALTER a SET NOT NULL")
    with pytest.raises(Exception, match="column a of t is NOT NULL"):
        alone.sql("INSERT INTO t (a) VALUES (NULL)")
    alone.sql("ALTER TABLE t ALTER a DROP NOT NULL; INSERT INTO t (a) VALUES (NULL)")
    assert _rows(alone) == [(None, "x", 7)]


def test_a_key_column_never_becomes_nullable(alone: Session) -> None:
    alone.sql("CREATE TABLE k (id INT PRIMARY KEY)")
    with pytest.raises(SqlError, match="column id is part of the primary key of k"):
        alone.sql("ALTER TABLE k ALTER id DROP NOT NULL")


def test_a_relation_moves_to_another_schema(alone: Session) -> None:
    alone.sql("CREATE SCHEMA s; INSERT INTO t (a) VALUES (1); ALTER TABLE t SET SCHEMA s")
    assert _rows(alone, "SELECT * FROM s.t") == [(1, "x", 7)]
    with pytest.raises(SqlError, match="there is no schema nowhere"):
        alone.sql("ALTER TABLE s.t SET SCHEMA nowhere")
    alone.sql("ALTER TABLE s.t SET SCHEMA public")
    assert "t" in alone.catalog.relations


def test_what_means_nothing_is_noticed(alone: Session) -> None:
    alone.sql("ALTER TABLE t OWNER TO someone")
    assert alone.notices == ("there are no roles: whose a relation is means nothing here",)
    with pytest.raises(SqlError, match="there is no table u"):
        alone.sql("ALTER TABLE u OWNER TO someone")


def test_a_view_that_is_being_created_is_a_job_that_can_be_cancelled(session: Session) -> None:
    session.sql("CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW done AS SELECT a FROM t")
    session.sql("CREATE MATERIALIZED VIEW later WITH (background = 'true') AS SELECT count(*) AS n FROM t")
    jobs = session.sql("SHOW JOBS")
    assert jobs is not None
    (job,) = jobs.to_pylist()
    assert job["name"] == "later"
    with pytest.raises(SqlError, match="there is no job 1"):
        session.sql("CANCEL JOBS 1")
    session.sql(f"CANCEL JOBS {job['id']}")
    assert "later" not in session.catalog.relations
    assert session.sql("SHOW JOBS").num_rows == 0  # type: ignore[union-attr]
    session.sql("CREATE TABLE u (a INT, b INT DEFAULT 3)")
    session.dialect = "postgres"
    session.sql("INSERT INTO t VALUES (1), (2); INSERT INTO u SELECT max(a) FROM t")
    assert _rows(session, "SELECT * FROM u") == [(2, 3)]

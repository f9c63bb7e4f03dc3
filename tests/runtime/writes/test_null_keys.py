"""In RisingWave a null is a value of a PRIMARY KEY like others; in PostgreSQL and in Spark's dialect a key has none."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from engine.errors import SqlError
from engine.session import Session


def _no_spark() -> NoReturn:
    raise AssertionError("Spark is not needed")


def _rows(session: Session, text: str) -> list[tuple[object, ...]]:
    found = session.sql(text)
    assert found is not None
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)


@pytest.mark.parametrize("key", ["k INT PRIMARY KEY, v INT", "k INT, v INT, PRIMARY KEY (k)"])
def test_a_null_key_is_written_overwritten_and_read(tmp_path: Path, key: str) -> None:
    with Session((tmp_path / "store").as_uri(), _no_spark, "risingwave") as session:
        session.sql(f"CREATE TABLE t ({key})")
        session.sql("INSERT INTO t VALUES (NULL, 1), (1, 2)")
        session.sql("INSERT INTO t VALUES (NULL, 3)")
        session.sql("INSERT INTO t (v) VALUES (4)")
        assert _rows(session, "SELECT * FROM t") == [(1, 2), (None, 4)]
        assert _rows(session, "SELECT v FROM t WHERE k IS NULL") == [(4,)]


@pytest.mark.parametrize("dialect", ["postgres", "spark"])
def test_elsewhere_a_key_has_a_value(tmp_path: Path, dialect: str) -> None:
    with Session((tmp_path / "store").as_uri(), _no_spark, dialect) as session:  # type: ignore[arg-type]
        session.sql("CREATE TABLE t (k INT PRIMARY KEY, v INT)")
        with pytest.raises(SqlError, match="part of the primary key"):
            session.sql("INSERT INTO t VALUES (NULL, 1)")


def test_a_key_may_be_not_null(tmp_path: Path) -> None:
    with Session((tmp_path / "store").as_uri(), _no_spark, "risingwave") as session:
        session.sql("CREATE TABLE t (k INT NOT NULL PRIMARY KEY, v INT)")
        with pytest.raises(SqlError, match="part of the primary key"):
            session.sql("INSERT INTO t VALUES (NULL, 1)")


def test_views_and_sinks_know_null_keys(session: Session) -> None:
    session.dialect = "risingwave"
    session.sql("CREATE TABLE t (k INT PRIMARY KEY, v INT); CREATE TABLE s (k INT)")
    session.sql("CREATE TABLE u (k INT PRIMARY KEY)")
    session.sql("CREATE SINK sk INTO t AS SELECT max(k) AS k, 114514 AS v FROM s")
    session.sql("CREATE MATERIALIZED VIEW inner_ AS SELECT a.k, b.v FROM t a JOIN t b ON a.k = b.k")
    session.sql("CREATE MATERIALIZED VIEW none_ AS SELECT s.k FROM s WHERE s.k NOT IN (SELECT k FROM u)")
    session.sql("CREATE MATERIALIZED VIEW full_ AS SELECT a.k FROM u a FULL JOIN u b ON a.k = b.k")
    session.sql("FLUSH")
    assert _rows(session, "SELECT * FROM t") == [(None, 114514)]
    assert _rows(session, "SELECT * FROM inner_") == []
    session.sql("INSERT INTO s VALUES (1); INSERT INTO u VALUES (5); FLUSH")
    assert _rows(session, "SELECT * FROM t") == [(1, 114514)]
    assert _rows(session, "SELECT * FROM inner_") == [(1, 114514)]
    assert _rows(session, "SELECT * FROM none_") == [(1,)]
    session.sql("INSERT INTO u VALUES (NULL); FLUSH")
    assert _rows(session, "SELECT * FROM none_") == []
    assert _rows(session, "SELECT * FROM full_") == [(5,), (None,), (None,)]
    session.sql("DELETE FROM u WHERE k IS NULL; FLUSH")
    assert _rows(session, "SELECT * FROM none_") == [(1,)]
    assert _rows(session, "SELECT * FROM full_") == [(5,)]

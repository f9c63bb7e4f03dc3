"""Sinks into a table that leaves older rows out: an update that is older than what the table has changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.session import Session

TARGET = "ON CONFLICT DO UPDATE FULL WITH VERSION COLUMN (v)"


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Session]:
    """A session that starts no Spark."""

    def no_spark() -> None:
        raise AssertionError("Spark was started")

    with Session(tmp_path.as_uri(), no_spark, dialect="risingwave") as session:
        session.sql("CREATE TABLE source (k INT PRIMARY KEY, d INT, v INT)")
        yield session


def _flushed(session: Session) -> list[tuple[int, ...]]:
    session.flush().raise_for_errors()
    rows = session.sql("SELECT * FROM t")
    assert rows is not None
    return sorted(tuple(row.values()) for row in rows.to_pylist())


def test_an_update_that_is_older_leaves_the_row_that_is_there(alone: Session) -> None:
    alone.sql(f"CREATE TABLE t (k INT PRIMARY KEY, d INT, v INT) {TARGET}")
    alone.sql("CREATE SINK i INTO t FROM source WITH (type = 'upsert')")
    alone.sql("INSERT INTO source VALUES (1, 0, 5), (2, 0, 5)")
    assert _flushed(alone) == [(1, 0, 5), (2, 0, 5)]
    alone.sql("UPDATE source SET v = 3, d = 1 WHERE k = 1")
    assert _flushed(alone) == [(1, 0, 5), (2, 0, 5)]
    alone.sql("UPDATE source SET v = 6, d = 2 WHERE k = 1")
    alone.sql("DELETE FROM source WHERE k = 2")
    assert _flushed(alone) == [(1, 2, 6)]


def test_a_row_that_moves_to_another_key_leaves_its_place(alone: Session) -> None:
    alone.sql(f"CREATE TABLE t (k INT, d INT, v INT, PRIMARY KEY (k, d)) {TARGET}")
    alone.sql("CREATE SINK i INTO t FROM source WITH (type = 'upsert')")
    alone.sql("INSERT INTO source VALUES (1, 0, 5)")
    assert _flushed(alone) == [(1, 0, 5)]
    alone.sql("UPDATE source SET v = 3, d = 1 WHERE k = 1")
    assert _flushed(alone) == [(1, 1, 3)]

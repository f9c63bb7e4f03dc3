"""Keys of a sink's table that have another type than the view's: no row is left behind, and none takes another's place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from engine.session import Session


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Session]:
    """A session that starts no Spark."""

    def no_spark() -> None:
        raise AssertionError("Spark was started")

    with Session(tmp_path.as_uri(), no_spark, dialect="risingwave") as session:
        yield session


def _read(session: Session, table: str) -> list[tuple]:
    found = session.sql(f"SELECT * FROM {table}")
    assert found is not None
    return sorted(tuple(row.values()) for row in found.to_pylist())


@pytest.mark.parametrize("kind", ["DOUBLE PRECISION", "REAL"])
def test_a_zero_that_changes_its_sign_leaves_the_text_that_it_was(alone: Session, kind: str) -> None:
    alone.sql(f"CREATE TABLE src (id INT PRIMARY KEY, x {kind}, n INT)")
    alone.sql("CREATE TABLE t (id INT, x VARCHAR, n INT, PRIMARY KEY (id, x))")
    alone.sql("CREATE SINK i INTO t FROM src WITH (type = 'upsert')")
    for n, zero in enumerate((-0.0, 0.0, -0.0)):
        row = {"id": pa.array([1], pa.int32()), "x": [zero], "n": pa.array([n], pa.int32())}
        alone.write("src", pa.table(row), mode="upsert")
        alone.flush().raise_for_errors()
        assert _read(alone, "t") == [(1, str(zero), n)]


@pytest.mark.parametrize(("kind", "text"), [("CHAR(4)", "a "), ("VARCHAR(2)", "ab ")])
def test_a_key_whose_blanks_are_not_kept_stops_the_sink(alone: Session, kind: str, text: str) -> None:
    alone.sql("CREATE TABLE src (k VARCHAR PRIMARY KEY, n INT)")
    alone.sql(f"CREATE TABLE t (k {kind} PRIMARY KEY, n INT)")
    alone.sql("CREATE SINK i INTO t FROM src WITH (type = 'upsert')")
    alone.sql("INSERT INTO src VALUES ($1, 1)", [text.rstrip()])
    alone.flush().raise_for_errors()
    alone.sql("INSERT INTO src VALUES ($1, 2)", [text])
    alone.flush()
    shown = alone.sql("SHOW SINKS")
    assert shown is not None and "ends in blanks" in str(shown.to_pylist())
    assert _read(alone, "t") == [(text.rstrip(), 1)]
    alone.sql("DELETE FROM src WHERE n = 2")
    alone.flush()
    assert _read(alone, "t") == [(text.rstrip(), 1)]


def test_texts_of_char_columns_are_keys_as_they_are_kept(alone: Session) -> None:
    alone.sql("CREATE TABLE src (k CHAR(4) PRIMARY KEY, n INT)")
    alone.sql("CREATE TABLE t (k CHAR(4) PRIMARY KEY, n INT)")
    alone.sql("CREATE SINK i INTO t FROM src WITH (type = 'upsert')")
    alone.sql("INSERT INTO src VALUES ('a ', 1)")
    alone.flush().raise_for_errors()
    assert _read(alone, "t") == [("a", 1)]

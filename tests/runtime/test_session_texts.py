"""Texts of several statements, and statements with values: what `Session.sql` makes of them."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import SqlError
from engine.session import Session


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Session]:
    """A session that starts no Spark."""

    def no_spark() -> None:
        raise AssertionError("Spark was started")

    with Session(tmp_path.as_uri(), no_spark, dialect="postgres") as session:
        yield session


def _rows(session: Session, text: str, *values: object) -> list[dict[str, object]]:
    found = session.sql(text, values)
    assert found is not None
    return found.to_pylist()


def test_a_text_of_several_statements_gives_the_last_ones_rows(alone: Session) -> None:
    found = alone.sql(
        """
        CREATE TABLE t (id BIGINT PRIMARY KEY, v TEXT); -- a comment; with a semicolon
        INSERT INTO t VALUES (1, 'a;b');
        SELECT v FROM t;
        """
    )
    assert found is not None and found.to_pylist() == [{"v": "a;b"}]
    assert alone.sql("SELECT v FROM t; DELETE FROM t") is None
    assert _rows(alone, "SELECT v FROM t") == []


def test_nothing_of_a_text_runs_if_one_statement_cannot_be_read(alone: Session) -> None:
    with pytest.raises(SqlError, match="SELEC is no statement"):
        alone.sql("CREATE TABLE t (id BIGINT PRIMARY KEY); SELEC 1")
    assert not alone.catalog.relations


def test_a_statement_that_fails_ends_a_text_and_what_ran_before_it_stays(alone: Session) -> None:
    with pytest.raises(SqlError, match="there is no table or view u"):
        alone.sql(
            "CREATE TABLE t (id BIGINT PRIMARY KEY); SELECT * FROM u; CREATE TABLE w (id BIGINT PRIMARY KEY)"
        )
    assert set(alone.catalog.relations) == {"t"}


def test_a_text_may_change_the_dialect_in_which_the_rest_is_read(alone: Session) -> None:
    alone.sql("SET dialect = 'spark'; CREATE TABLE t (`a` STRING, id BIGINT PRIMARY KEY)")
    assert alone.dialect == "spark"
    assert [column.name for column in alone.catalog.get("t").columns] == ["a", "id"]


def test_values_go_with_one_statement(alone: Session) -> None:
    with pytest.raises(SqlError, match="values go with one statement"):
        alone.sql("SELECT $1; SELECT $1", [1])


def test_a_text_without_a_statement_is_told(alone: Session) -> None:
    with pytest.raises(SqlError, match="there is no statement"):
        alone.sql(" ; ")


def test_values_are_written_and_found_without_spark(alone: Session) -> None:
    alone.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v TEXT, at TIMESTAMPTZ, f DOUBLE PRECISION, b BOOLEAN)")
    at = datetime.datetime(2024, 5, 6, 7, tzinfo=datetime.UTC)
    alone.sql("INSERT INTO t VALUES ($1, $2, $3, $4, $5)", [1, "it's", at, 2.5, True])
    alone.sql("INSERT INTO t (id, v) VALUES (?, ?), (?, ?)", [2, None, 3, "'; DROP TABLE t"])
    found = _rows(alone, "SELECT v, at, f, b FROM t WHERE id = ?", 1)
    assert found == [{"v": "it's", "at": at, "f": 2.5, "b": True}]
    assert _rows(alone, "SELECT id FROM t WHERE v = $1", "'; DROP TABLE t") == [{"id": 3}]
    alone.sql("DELETE FROM t WHERE id = $1", [3])
    assert sorted(row["id"] for row in _rows(alone, "SELECT id FROM t")) == [1, 2]


def test_values_mean_the_same_to_spark(session: Session) -> None:
    values = [7, -2, 2.5, "a\\b'c", datetime.date(2024, 2, 29), None, b"\x01", [1, 2]]
    for dialect in ("spark", "postgres", "risingwave"):
        session.dialect = dialect  # type: ignore[assignment]
        marks = ", ".join(f"? AS c{n}" for n in range(len(values)))
        found = session.sql(f"SELECT {marks}, count(*) AS n", values)
        assert found is not None
        assert list(found.to_pylist()[0].values())[:-1] == values

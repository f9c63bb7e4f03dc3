"""PREPARE, EXECUTE and DEALLOCATE as PostgreSQL's documentation has them; few of them need Spark."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import NoReturn

import pytest
from pyspark.sql import SparkSession

from engine.errors import SqlError
from engine.session import Session


def _no_spark() -> NoReturn:
    raise AssertionError("Spark is not needed")


@pytest.fixture
def prepared(tmp_path: Path) -> Iterator[Session]:
    with Session((tmp_path / "store").as_uri(), _no_spark, "postgres") as session:
        session.sql("CREATE TABLE foo (id INT PRIMARY KEY, name TEXT, ok BOOLEAN)")
        session.sql("PREPARE fooplan (int, text, bool) AS INSERT INTO foo VALUES ($1, $2, $3)")
        yield session


def _rows(session: Session, text: str) -> list[tuple[object, ...]]:
    found = session.sql(text)
    assert found is not None
    return sorted(tuple(row.values()) for row in found.to_pylist())


def test_values_take_the_places_of_parameters(prepared: Session) -> None:
    prepared.sql("EXECUTE fooplan(1, 'Hunter Valley', 't'); EXECUTE fooplan(2, 'it''s', NULL);")
    assert _rows(prepared, "SELECT * FROM foo WHERE id = 1") == [(1, "Hunter Valley", True)]
    prepared.sql('PREPARE "By Id" AS SELECT name FROM foo WHERE id = $1')
    assert _rows(prepared, 'EXECUTE "By Id" (2)') == [("it's",)]


def test_a_name_is_prepared_once_and_forgotten_by_deallocate(prepared: Session) -> None:
    with pytest.raises(SqlError, match="fooplan is prepared already") as raised:
        prepared.sql("PREPARE fooplan AS SELECT 1")
    assert (raised.value.line, raised.value.column) == (1, 9)
    prepared.sql("DEALLOCATE PREPARE fooplan")
    with pytest.raises(SqlError, match="fooplan is not prepared"):
        prepared.sql("EXECUTE fooplan (1, 'a', true)")
    prepared.sql("PREPARE a AS SELECT 1; PREPARE b AS SELECT 2; DEALLOCATE ALL")
    assert prepared.prepared == {}


@pytest.mark.parametrize(
    ("text", "said", "column"),
    [
        ("EXECUTE fooplan (1, 'a')", r"\$3 has no value", 34),
        ("EXECUTE fooplan (1, name, true)", "name is no value", 17),
        ("EXECUTE fooplan (1, (SELECT 1), true)", "is no value", 17),
        ("PREPARE p AS CREATE TABLE u (id INT)", "CREATE cannot be prepared", 14),
        ("PREPARE p SELECT 1", "this form of PREPARE is not offered", 1),
        ("PREPARE p (int, nonsense) AS SELECT $1", "the type nonsense of a parameter cannot be read", 11),
        ("PREPARE p () AS SELECT 1", "cannot be read", 11),
        ("DEALLOCATE nothing", "nothing is not prepared", 12),
    ],
)
def test_what_is_wrong_is_told_with_its_place(prepared: Session, text: str, said: str, column: int) -> None:
    with pytest.raises(SqlError, match=said) as raised:
        prepared.sql(text)
    assert raised.value.column == column


def test_values_are_of_the_types_that_are_written(spark: SparkSession, tmp_path: Path) -> None:
    with Session((tmp_path / "store").as_uri(), spark, "postgres") as session:
        session.sql(
            "PREPARE half (numeric(10, 2), unknown, int) AS SELECT $1 / 2 AS a, $2 / 2 AS b, $3 / 2 AS c"
        )
        assert _rows(session, "EXECUTE half (3, 3, 3)") == [(Decimal("1.5"), 1, 1)]
        session.sql(
            "CREATE TABLE u (id INT PRIMARY KEY, name TEXT); INSERT INTO u VALUES (1, '05'), (2, '5')"
        )
        session.sql("PREPARE named (text) AS SELECT id FROM u WHERE name = $1")
        assert _rows(session, "EXECUTE named (5)") == [(2,)]
        session.sql("INSERT INTO u VALUES (3, 'abcdef'::varchar(3))")
        assert _rows(session, "SELECT name FROM u WHERE id = 3") == [("abc",)]
        session.sql("PREPARE on_day (date) AS SELECT $1 + 1 AS day")
        assert _rows(session, "EXECUTE on_day ('2024-02-28')") == [(datetime.date(2024, 2, 29),)]


def test_typed_values_need_no_spark_where_the_columns_have_their_types(prepared: Session) -> None:
    prepared.sql("CREATE TABLE bar (id BIGINT PRIMARY KEY, n NUMERIC(8, 2), d DATE, f FLOAT8)")
    prepared.sql("PREPARE b (bigint, numeric, date, float8) AS INSERT INTO bar VALUES ($1, $2, $3, $4)")
    prepared.sql("EXECUTE b (1, 2.5, '2024-02-29', 1.5); EXECUTE b (2, -1, NULL, NULL)")
    prepared.sql("PREPARE first (bigint) AS SELECT id, n, f FROM bar ORDER BY id LIMIT $1")
    assert _rows(prepared, "EXECUTE first (1)") == [(1, Decimal("2.50"), 1.5)]
    prepared.sql("PREPARE at (date) AS SELECT id FROM bar WHERE d = $1")
    assert _rows(prepared, "EXECUTE at ('2024-02-29')") == [(1,)]


def test_sparks_dialect_knows_no_prepare(prepared: Session) -> None:
    prepared.dialect = "spark"
    with pytest.raises(SqlError):
        prepared.sql("PREPARE p AS SELECT 1")

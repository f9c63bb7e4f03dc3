"""PREPARE, EXECUTE and DEALLOCATE as PostgreSQL's documentation has them; nothing here needs Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

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
        ("DEALLOCATE nothing", "nothing is not prepared", 12),
    ],
)
def test_what_is_wrong_is_told_with_its_place(prepared: Session, text: str, said: str, column: int) -> None:
    with pytest.raises(SqlError, match=said) as raised:
        prepared.sql(text)
    assert raised.value.column == column


def test_sparks_dialect_knows_no_prepare(prepared: Session) -> None:
    prepared.dialect = "spark"
    with pytest.raises(SqlError):
        prepared.sql("PREPARE p AS SELECT 1")

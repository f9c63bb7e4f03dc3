"""Casts between all pairs of types answer what PostgreSQL has answered, or are refused where it refuses them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.errors import TidelineError
from engine.session import Session
from tests.oracle.postgres.casts import FAILS, INSERT, REFUSED, TABLE, cast, pairs, recorded
from tests.transcripts.values import comparable, equal, read_as

OTHERS: dict[tuple[str, str], str] = {
    ("int[]", "text"): "an array is no text: its items are joined by array_to_string"
}
"""Pairs that mean something else here, and why; docs/sql.md tells of each."""
ANSWERS = recorded()
ALIKE = [pair for pair in pairs() if pair not in OTHERS]


def _cells(pair: tuple[str, str]) -> list[str | None]:
    cells = ANSWERS[f"{pair[0]} -> {pair[1]}"]
    if pair[1].startswith("numeric"):  # a decimal is never NaN
        return [FAILS if cell == "NaN" else cell for cell in cells]
    return [
        FAILS if pair == ("text", "time") and cell is not None and row == 2 else cell
        for row, cell in enumerate(cells)
    ]


@pytest.fixture
def given(tmp_path: Path, spark: SparkSession) -> Iterator[Session]:
    with Session(tmp_path.as_uri(), spark, dialect="postgres") as session:
        session.sql(TABLE)
        session.sql(INSERT)
        yield session


def test_what_postgres_casts_is_cast_to_the_same_value(given: Session) -> None:
    answered = [pair for pair in ALIKE if any(cell not in (REFUSED, FAILS) for cell in _cells(pair))]
    items = []
    for place, pair in enumerate(answered):
        known = [str(row) for row, cell in enumerate(_cells(pair)) if cell != FAILS]
        items.append(f"CASE WHEN id IN ({', '.join(known)}) THEN {cast(*pair)} END AS c{place}")
    found = given.sql(f"SELECT {', '.join(items)} FROM given ORDER BY id")
    assert found is not None
    wrong = []
    for (one, other), column in zip(answered, found.columns, strict=True):
        for row, (value, cell) in enumerate(zip(column.to_pylist(), _cells((one, other)), strict=True)):
            mine, kind = comparable(value, column.type), column.type
            if cell != FAILS and not equal(mine, read_as(cell, kind, other)):
                wrong.append(f"{one} -> {other}, row {row}: {mine!r} ({kind}), expected {cell}")
    assert not wrong, "\n".join(wrong)


FAILING = [(pair, row) for pair in ALIKE for row, cell in enumerate(_cells(pair)) if cell == FAILS]
REFUSALS = [pair for pair in ALIKE if REFUSED in _cells(pair)]


def _refused(session: Session, pair: tuple[str, str], row: int) -> bool:
    try:
        session.sql(f"SELECT {cast(*pair)} FROM given WHERE id = {row}")
    except TidelineError:
        return True
    return False


def _none_is_answered(session: Session, asked: list[tuple[tuple[str, str], int]]) -> None:
    answered = [f"{pair}, row {row}" for pair, row in asked if not _refused(session, pair, row)]
    assert not answered, "\n".join(answered)


@pytest.mark.long
def test_what_postgres_fails_on_or_refuses_is_an_error_here(given: Session) -> None:
    _none_is_answered(given, [*FAILING[::12], *((pair, 0) for pair in REFUSALS[::25])])


@pytest.mark.oracle
def test_all_that_postgres_fails_on_or_refuses_is_an_error_here(given: Session) -> None:
    _none_is_answered(given, [*FAILING, *((pair, 0) for pair in REFUSALS)])

"""Dates, timestamps and intervals answer what PostgreSQL answers, over random rows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.session import Session
from tests.oracle.postgres import moments
from tests.transcripts.script import Row
from tests.transcripts.values import comparable, equal, fits, read_as


def _differences(
    folder: Path, spark: SparkSession, seed: int, types: list[str], rows: list[Row]
) -> list[str]:
    with Session(folder.as_uri(), spark, dialect="postgres") as session:
        session.sql(moments.TABLE)
        given = moments.rows(seed)
        for start in range(0, len(given), 50):
            session.sql(moments.insert(given[start : start + 50]))
        found = session.sql(moments.QUERY)
    assert found is not None and found.num_rows == len(rows)
    wrong = []
    for column, text, wanted, place in zip(
        found.columns, moments.EXPRESSIONS, types, range(len(types)), strict=True
    ):
        kind = column.type
        if not fits(wanted, kind):
            wrong.append(f"{text}: {kind}, expected {wanted}")
            continue
        for row, value, answers in zip(given, column.to_pylist(), rows, strict=True):
            mine, theirs = comparable(value, kind), read_as(answers[place], kind, wanted)
            if not equal(mine, theirs):
                wrong.append(f"{text} of {[str(part) for part in row]}: {mine}, expected {theirs}")
                break
    return wrong


@pytest.mark.long
def test_operations_on_moments_answer_what_postgres_has_answered(tmp_path: Path, spark: SparkSession) -> None:
    types, rows = moments.recorded()
    wrong = _differences(tmp_path, spark, moments.SEED, types, rows)
    assert not wrong, "\n".join(wrong)


@pytest.mark.oracle
@pytest.mark.skipif("PGHOST" not in os.environ, reason="PGHOST names no PostgreSQL")
@pytest.mark.parametrize("seed", range(100, 106))
def test_operations_on_moments_answer_what_postgres_answers_now(
    seed: int, tmp_path: Path, spark: SparkSession
) -> None:
    types, rows = moments.asked(moments.rows(seed))
    wrong = _differences(tmp_path, spark, seed, types, rows)
    assert not wrong, "\n".join(wrong)

"""Every statement of the recorded sessions answers what the judge answered, value by value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.errors import TidelineError
from engine.session import Session
from tests.transcripts.script import FOLDER, Row, Step, read
from tests.transcripts.values import comparable, equal, fits, read_as

ALWAYS = ("bank",)
"""One of each dialect; the others take as long and are in `make long`."""
FILES = [
    pytest.param(path, id=path.stem, marks=() if path.stem in ALWAYS else pytest.mark.long)
    for path in sorted(FOLDER.glob("*.sql"))
]


@pytest.mark.parametrize("path", FILES)
def test_a_session_answers_what_the_judge_answered(path: Path, tmp_path: Path, spark: SparkSession) -> None:
    script = read(path)
    wrong = []
    with Session(f"file://{tmp_path}", spark, dialect=script.dialect) as session:
        for step in script.steps:
            if (difference := _difference(session, step)) is not None:
                wrong.append(f"{path.name}:{step.place}: {difference}\n{step.text}")
    assert not wrong, "\n\n".join([f"{len(wrong)} statements differ", *wrong])


def _difference(session: Session, step: Step) -> str | None:
    try:
        found = session.sql(step.text)
    except TidelineError as error:
        said = f"{type(error).__name__}: {error}"
        if step.error is None:
            return f"refused: {said[:600]}"
        return None if step.error in said else f"another error: {said[:400]} (expected: {step.error})"
    if step.error is not None:
        return f"no error, but {step.error} was expected"
    if step.types is None or found is None:
        return "no rows" if step.types is not None else None
    return _of_rows(found, step)


def _of_rows(found: pa.Table, step: Step) -> str | None:
    assert step.types is not None
    if len(step.types) != found.num_columns:
        return f"{found.num_columns} columns ({', '.join(found.column_names)}), expected {len(step.types)}"
    kinds = [part.type for part in found.schema]
    for name, wanted, kind in zip(found.column_names, step.types, kinds, strict=True):
        if not fits(wanted, kind):
            return f"column {name} is {kind}, expected {wanted}"
    given = [
        [comparable(row[n].as_py(), kind) for n, kind in enumerate(kinds)]
        for row in zip(*found.columns, strict=True)
    ]
    wanted_rows = [
        [read_as(text, kind, name) for text, kind, name in zip(row, kinds, step.types, strict=True)]
        for row in step.rows
    ]
    if not step.ordered:
        given, wanted_rows = sorted(given, key=_key), sorted(wanted_rows, key=_key)
    if len(given) == len(wanted_rows) and all(map(equal, given, wanted_rows)):
        return None
    return f"\n  given    {_shown(given)}\n  expected {_shown(wanted_rows)}"


def _key(row: Row) -> list[tuple[bool, str]]:
    return [(value is None, f"{value:.6g}" if isinstance(value, float) else str(value)) for value in row]


def _shown(rows: list[list[Any]]) -> str:
    return (
        "\n           ".join(str([str(v) if v is not None else None for v in row]) for row in rows)
        or "nothing"
    )

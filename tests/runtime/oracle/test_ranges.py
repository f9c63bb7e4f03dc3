"""Values in the order of their hashes: each comes once in a pass, and a part of it reads a table once."""

from __future__ import annotations

import pyarrow as pa
import pytest

from engine.hummock.reads.merge import LOWEST
from engine.runtime.answers.question import Question
from engine.runtime.oracle.ranges import read_next, read_next_values
from engine.session import Session
from tests.runtime.oracle.conftest import create_views


@pytest.mark.parametrize("columns", [["g"], ["s", "i"]])
def test_each_value_comes_once_and_each_part_reads_the_table_once(
    project: Session, monkeypatch: pytest.MonkeyPatch, columns: list[str]
) -> None:
    create_views(project, "by_group")
    tables = Question.open(project.store, lambda: project.computing, "by_group", None).tables
    scan, scans = tables.store.reader.scan, [0]

    def count(*given: object, **named: object) -> object:
        scans[0] += 1
        return scan(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(tables.store.reader, "scan", count)
    whole, after = read_next(tables, "t", columns, LOWEST, 8_000)
    assert after is None and scans == [1]
    parts: list[pa.Table] = []
    start: int | None = LOWEST
    while start is not None:
        rows, start = read_next_values(tables, "t", columns, start, 10)
        parts.append(rows)
    assert scans == [1 + len(parts)] and all(part.num_rows <= 10 for part in parts)
    assert len(parts) <= whole.num_rows // 10 + 2
    order = [(column, "ascending") for column in columns]
    assert pa.concat_tables(parts).sort_by(order) == whole.sort_by(order)

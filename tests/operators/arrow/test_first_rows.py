"""Of rows that come batch by batch the first of each partition are kept, whatever is left out on the way."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from engine.operators.arrow import first_rows
from engine.operators.arrow.first_rows import KeepFirstRows
from engine.operators.arrow.ordered_rows import Sorting
from engine.sql.window_calls import SortKey

ROWS = 300


@pytest.mark.parametrize(("offset", "limit"), [(0, 3), (2, 4), (0, 0), (5, None), (0, 1000)])
@pytest.mark.parametrize("partition", [(), ("g",)], ids=["all", "groups"])
def test_first_rows_are_those_of_a_sort(
    offset: int, limit: int | None, partition: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_rows, "TRIMMED_ROWS", 16)
    chance = random.Random(3)
    rows = [(chance.choice("abc"), chance.choice([None, 1, 2, 3]), n) for n in range(ROWS)]
    table = pa.table(dict(zip("gni", zip(*rows, strict=True), strict=True)))
    sorting = Sorting((SortKey("n", descending=True, nulls_first=True),), (SortKey("i"),))
    body = KeepFirstRows(partition, sorting, offset, limit)
    found = [tuple(row.values()) for batch in body(iter(table.to_batches(7))) for row in batch.to_pylist()]
    groups: dict[str, list[tuple[str, int | None, int]]] = {}
    for row in sorted(rows, key=lambda row: (row[1] is not None, -(row[1] or 0), row[2])):
        groups.setdefault(row[0] if partition else "", []).append(row)
    end = None if limit is None else offset + limit
    assert sorted(found, key=str) == sorted(
        (row for some in groups.values() for row in some[offset:end]), key=str
    )


def test_no_rows_give_none() -> None:
    assert list(KeepFirstRows((), Sorting(()), 0, 3)(iter([]))) == []

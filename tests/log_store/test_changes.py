"""Changes as rows: an update is two, the row before and then the new one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from engine.log_store.changes import DELETE, INSERT, UPDATE, Changes


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([], []),
        ([INSERT, INSERT], [("Insert", "n0"), ("Insert", "n1")]),
        ([UPDATE], [("UpdateDelete", "o0"), ("UpdateInsert", "n0")]),
        (
            [UPDATE, DELETE, INSERT, UPDATE],
            [
                *(("UpdateDelete", "o0"), ("UpdateInsert", "n0"), ("Delete", "n1"), ("Insert", "n2")),
                *(("UpdateDelete", "o3"), ("UpdateInsert", "n3")),
            ],
        ),
    ],
)
def test_updates_are_split_in_the_order_of_the_changes(
    operations: list[int], expected: list[tuple[str, str]]
) -> None:
    rows = pa.table({"v": pa.array([f"n{n}" for n in range(len(operations))], pa.string())})
    old = pa.table({"v": pa.array([f"o{n}" for n in range(len(operations))], pa.string())})
    words, split = Changes(np.array(operations, np.int8), rows, old).split_updates()
    assert list(zip(words.to_pylist(), split.column("v").to_pylist(), strict=True)) == expected


def test_rows_that_begin_a_table_are_insertions() -> None:
    words, rows = Changes.from_inserts(pa.table({"v": [1, None]})).split_updates()
    assert words.to_pylist() == ["Insert", "Insert"] and rows.column("v").to_pylist() == [1, None]

"""Rows in their order, some of which go: keys are equal where the store says so, whatever their bytes are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.connectors.contract.signed_rows import select_newest_rows
from engine.connectors.landing.source import LandingSource
from engine.session import Session

NAN = float("nan")


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
@pytest.mark.parametrize(
    ("keys", "deletes", "put", "gone"),
    [
        ([-0.0, 0.0], [True, False], [1], []),
        ([0.0, -0.0], [True, False], [1], []),
        ([0.0, -0.0], [False, True], [], [-0.0]),
        ([NAN, NAN, 1.0], [True, False, True], [1], [1.0]),
        ([2.0, -0.0, 2.0, 0.0, 1.0], [False, False, True, False, False], [3, 4], [2.0]),
    ],
)
def test_of_a_key_the_last_row_counts(
    kind: pa.DataType, keys: list[float], deletes: list[bool], put: list[int], gone: list[float]
) -> None:
    rows = pa.table({"k": pa.array(keys, kind), "at": range(len(keys))})
    puts, deleted = select_newest_rows(rows, np.array(deletes), ("k",))
    assert puts.column("at").to_pylist() == put
    assert deleted.column("k").to_pylist() == gone


def test_keys_of_several_columns_are_told_apart_by_all_of_them() -> None:
    rows = pa.table({"a": [1, 1, None, 1], "b": ["x", "y", "x", "x"], "at": range(4)})
    puts, deleted = select_newest_rows(rows, np.array([True, False, False, False]), ("a", "b"))
    assert (puts.column("at").to_pylist(), deleted.num_rows) == ([1, 2, 3], 0)


@pytest.mark.parametrize("first", [0.0, -0.0])
def test_an_append_only_table_takes_one_of_two_zeros(lake: Session, folder: Path, first: float) -> None:
    lake.sql(
        f"CREATE TABLE t (k DOUBLE PRIMARY KEY, v INT) APPEND ONLY WITH (connector = 'landing', path = '{folder}')"
    )
    pq.write_table(pa.table({"k": [first, -first, 1.0], "v": [1, 2, 3]}), folder / "a.parquet")
    report = LandingSource.of_relation(lake.store, lake.catalog.get("t")).poll()
    assert (report.rows, report.dead_rows) == (2, 1)
    held = [row for batch in lake.store.iter("t") for row in batch.to_pylist()]
    assert sorted(row["v"] for row in held) == [1, 3]


def test_a_row_that_comes_after_the_deletion_of_the_other_zero_stays(lake: Session, folder: Path) -> None:
    lake.sql(f"CREATE TABLE t (k DOUBLE PRIMARY KEY) WITH (connector = 'landing', path = '{folder}')")
    pq.write_table(pa.table({"k": [-0.0, 0.0], "_op": ["delete", "upsert"]}), folder / "a.parquet")
    LandingSource.of_relation(lake.store, lake.catalog.get("t")).poll()
    assert [row for batch in lake.store.iter("t") for row in batch.to_pylist()] == [{"k": 0.0}]

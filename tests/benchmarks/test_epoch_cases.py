"""The cases of the epoch benchmark know what their tables hold after each epoch of changes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from benchmarks.epoch_cases import BenchmarkCase
from benchmarks.epochs import SMALLER_BASE, CaseResult, list_requirements
from benchmarks.window_cases import CASES


def content(case: BenchmarkCase, table: str) -> dict[int, dict[str, Any]]:
    """Return a table's rows by id."""
    return {row["id"]: row for row in pa.concat_tables(case.generate_content(table)).to_pylist()}


@pytest.mark.parametrize("name", CASES)
def test_the_content_after_an_epoch_is_that_before_with_the_changes(name: str) -> None:
    case = CASES[name][0](1_000)
    held = {table: content(case, table) for table in case.ddl}
    for _ in range(3):
        changes = case.generate_changes(100)
        assert sum(change.rows.num_rows for change in changes) == 100
        for change in changes:
            rows = held[change.table]
            for row in change.rows.to_pylist():
                assert (row["id"] in rows) != (change.mode == "insert") or change.mode == "upsert"
                if change.mode == "delete":
                    del rows[row["id"]]
                else:
                    rows[row["id"]] = row
    assert {table: content(case, table) for table in case.ddl} == held


def test_each_bound_compares_the_medians_of_one_run() -> None:
    measured = CaseResult([0.1, 0.2, 0.9], {"recompute": [1.0], "merge": [2.0], SMALLER_BASE: [0.1]})
    bounds = list(list_requirements("wide", {1_000: measured}, 1_000))
    assert [(round(bound.value, 2), bound.is_met) for bound in bounds] == [
        (5.0, True),
        (10.0, True),
        (2.0, False),
    ]

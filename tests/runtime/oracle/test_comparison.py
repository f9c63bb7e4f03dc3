"""Rows that are held against each other: floating numbers may differ in their digits, and many rows are no more work each."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from engine.runtime.oracle import comparison
from engine.runtime.oracle.comparison import compare_rows


def test_many_rows_that_differ_in_digits_alone_are_compared_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared, are_equal = [0], comparison.are_equal

    def count(one: object, other: object) -> bool:
        compared[0] += 1
        return are_equal(one, other)

    monkeypatch.setattr(comparison, "are_equal", count)
    values = [n / 7 for n in range(2_000)]
    stored = pa.table({"zero": [0.0] * 2_000, "x": values})
    computed = pa.table({"zero": [0.0] * 2_000, "x": [x * (1 + 4e-16) for x in reversed(values)]})
    assert compare_rows(stored, computed, ()) == []
    assert compared[0] <= 4_000


def test_what_has_no_like_is_left() -> None:
    stored = pa.table({"x": [1.0, math.nan, math.inf, 5.0, None], "s": ["a", "a", "a", "a", "b"]})
    computed = pa.table({"x": [None, math.inf, math.nan, 1.0 + 1e-13, 6.0], "s": ["b", "a", "a", "a", "a"]})
    (one,) = compare_rows(stored, computed, ())
    assert (one.stored, one.computed) == ({"x": 5.0, "s": "a"}, {"x": 6.0, "s": "a"})
    nested = pa.table({"a": [[{"x": 0.1 + 0.2, "n": 1}]]})
    assert compare_rows(nested, pa.table({"a": [[{"x": 0.3, "n": 1}]]}), ()) == []
    assert len(compare_rows(nested, pa.table({"a": [[{"x": 0.3, "n": 2}]]}), ())) == 1

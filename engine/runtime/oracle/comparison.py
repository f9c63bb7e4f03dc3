"""Stored rows held against computed ones: which of either side have no like in the other, each as often as it comes."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from engine.arrow import as_rows, to_positions
from engine.hummock.rows.key_numbers import number_keys
from engine.runtime.answers.row_texts import shorten_text
from engine.runtime.answers.tables_read import as_plain
from engine.runtime.answers.why import are_equal

Row = dict[str, Any]
LONGEST = 500


@dataclass(frozen=True)
class RowDifference:
    """A row that is stored and another one that its query gives in its place; None where one of them is not there."""

    stored: Row | None
    computed: Row | None


def compare_rows(stored: pa.Table, computed: pa.Table, by: Sequence[str]) -> list[RowDifference]:
    """Return where two tables with the same columns differ, those with equal values in `by` side by side.

    Floating numbers may differ in their last digits; 0.0 and -0.0 are equal, and so are two NaN.
    """
    mine, theirs = find_unlike_rows(stored, computed)
    if not mine.num_rows and not theirs.num_rows:
        return []
    keys = [rows.select(list(by)) for rows in (mine, theirs)]
    numbers = number_keys(pa.concat_tables(keys)) if by else np.zeros(mine.num_rows + theirs.num_rows, int)
    found: list[RowDifference] = []
    left, right = as_rows(mine), as_rows(theirs)
    groups: dict[int, tuple[list[Row], list[Row]]] = {}
    for row, number in zip(left, numbers[: len(left)].tolist(), strict=True):
        groups.setdefault(number, ([], []))[0].append(row)
    for row, number in zip(right, numbers[len(left) :].tolist(), strict=True):
        groups.setdefault(number, ([], []))[1].append(row)
    for ours, others in groups.values():
        found += _pair_rows(ours, others)
    return found


def find_unlike_rows(stored: pa.Table, computed: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the rows of either side that the other has not, as often as it has them more often; digits of floats count."""
    names = stored.column_names
    return _leave_out_common(_take_columns(stored, names), _take_columns(computed, names))


def describe_difference(difference: RowDifference, key: Sequence[str], names: Mapping[str, str]) -> str:
    """Return a difference in words: the cells that differ, or the whole row that is too many or missing; LONGEST characters.

    `names` are the columns as users see them, by those of the rows.
    """
    text = _describe_cells(difference, key, names)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 2]} …"


def _describe_cells(difference: RowDifference, key: Sequence[str], names: Mapping[str, str]) -> str:
    stored, computed = difference.stored, difference.computed
    if stored is None or computed is None:
        row = stored or computed or {}
        return f"{'too many' if computed is None else 'missing'}: {_describe_row(row, names)}"
    own = {name: value for name, value in stored.items() if name in key}
    other = (name for name in stored if not are_equal(stored[name], computed[name]))
    cells = (
        f"{names[name]} is {shorten_text(str(stored[name]))}, not {shorten_text(str(computed[name]))}"
        for name in other
    )
    return f"{_describe_row(own, names) or 'the only row'}: {', '.join(cells)}"


def _describe_row(row: Row, names: Mapping[str, str]) -> str:
    return ", ".join(f"{names[name]} = {shorten_text(str(value))}" for name, value in row.items())


def _take_columns(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    return pa.Table.from_arrays([as_plain(rows.column(name)) for name in names], names=list(names))


def _leave_out_common(one: pa.Table, other: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the rows of two tables without those that both have, each as often as the other has it."""
    other = other.cast(one.schema)
    numbers = number_keys(pa.concat_tables([one, other]))
    mine, theirs = numbers[: one.num_rows], numbers[one.num_rows :]
    size = int(numbers.max(initial=-1)) + 1
    common = np.minimum(np.bincount(mine, minlength=size), np.bincount(theirs, minlength=size))
    return _drop_first(one, mine, common), _drop_first(other, theirs, common)


def _drop_first(rows: pa.Table, numbers: np.ndarray, counts: np.ndarray) -> pa.Table:
    """Return rows without the first so many of each number."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    nth = np.arange(len(ordered)) - np.searchsorted(ordered, ordered, side="left")
    left = np.sort(order[nth >= counts[ordered]])
    return rows.take(to_positions(left))


def _pair_rows(ours: list[Row], others: list[Row]) -> list[RowDifference]:
    """Return what is left of two lists of rows without pairs of equal ones, side by side."""
    alone, left = _leave_out_alike(ours, others)
    pairs = max(len(alone), len(left))
    return [
        RowDifference(alone[at] if at < len(alone) else None, left[at] if at < len(left) else None)
        for at in range(pairs)
    ]


def _leave_out_alike(ours: list[Row], others: list[Row]) -> tuple[list[Row], list[Row]]:
    """Return two lists of rows without pairs of equal ones; a row is held against those alone that have its exact values."""
    numbers = [_list_floats(row) for row in others]
    groups: dict[str, list[int]] = {}
    for at, row in enumerate(others):
        groups.setdefault(_name_exact_values(row), []).append(at)
    found = {name: _NearRows.build(group, numbers) for name, group in groups.items()}
    alone: list[Row] = []
    met: set[int] = set()
    for row in ours:
        near = found.get(_name_exact_values(row))
        like = None if near is None else near.take(row, others, _list_floats(row))
        if like is None:
            alone.append(row)
        else:
            met.add(like)
    return alone, [row for at, row in enumerate(others) if at not in met]


@dataclass(frozen=True)
class _NearRows:
    """Rows that differ in floating numbers alone, in the order of the one that tells most of them apart."""

    by: int
    values: list[float]
    places: list[int]

    @classmethod
    def build(cls, places: list[int], numbers: list[list[float]]) -> _NearRows:
        """Return those at some places, of which all have as many numbers."""
        width = range(len(numbers[places[0]]))
        by = max(width, key=lambda n: len({numbers[at][n] for at in places}), default=-1)
        order = places if by < 0 else sorted(places, key=lambda at: numbers[at][by])
        return cls(by, [0.0 if by < 0 else numbers[at][by] for at in order], list(order))

    def take(self, row: Row, others: list[Row], numbers: list[float]) -> int | None:
        """Return the place of a row that equals one, which is taken by that; None if there is none."""
        own = 0.0 if self.by < 0 else numbers[self.by]
        low = high = own
        if not math.isinf(own):
            low, high = own - 1e-8 * abs(own) - 1e-11, own + 1e-8 * abs(own) + 1e-11
        for at in range(bisect_left(self.values, low), bisect_right(self.values, high)):
            if are_equal(row, others[self.places[at]]):
                self.values.pop(at)
                return self.places.pop(at)
        return None


def _list_floats(value: Any) -> list[float]:
    """Return the floating numbers in a value, NaN as the largest."""
    if isinstance(value, float):
        return [math.inf if math.isnan(value) else value]
    if isinstance(value, dict):
        return [number for part in value.values() for number in _list_floats(part)]
    if isinstance(value, list | tuple):
        return [number for part in value for number in _list_floats(part)]
    return []


def _name_exact_values(value: Any) -> str:
    """Return a text that equal values share, whatever the digits of floating numbers in them."""
    if isinstance(value, float):
        return "~"
    if isinstance(value, dict):
        return "{" + ",".join(f"{name!r}:{_name_exact_values(part)}" for name, part in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_name_exact_values, value)) + "]"
    return repr(value)

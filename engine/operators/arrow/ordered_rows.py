"""Rows of partitions in an order, as NumPy: which rows a frame holds, and what is computed of them.

>>> rows = pa.RecordBatch.from_pydict({"g": [1, 2, 1, 1], "n": [5, 7, 3, 5]})
>>> ordered = OrderedRows.of(rows, ("g",), Sorting((SortKey("n"),)))
>>> ordered.number_rows("rank").to_pylist()
[2, 1, 1, 2]
>>> ordered.aggregate_frames("sum", rows.column("n"), FrameBounds(None, 0)).to_pylist()
[13, 7, 3, 13]
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DecimalType

from engine.arrow import to_mask, to_positions
from engine.hummock.rows.ordering import argsort_stable, as_numbers, pack_codes
from engine.operators.arrow.decimals import build_decimals, derive_mean_type, derive_sum_type, read_units
from engine.operators.arrow.expressions import Inexact
from engine.sql.window_calls import SortKey

_EXACT_IN_DOUBLE, _EXACT_IN_LONG = 2**53, 2**63 - 2**12


@dataclass(frozen=True)
class Sorting:
    """An order: its own columns, by which rows can be level, and the columns that tell level rows apart."""

    by: tuple[SortKey, ...]
    last: tuple[SortKey, ...] = ()


@dataclass(frozen=True)
class FrameBounds:
    """The rows of a frame: from `start` to `end` rows behind the current one (negative: before it); None: those of the partition.

    Without `by_rows` the current row is all rows that are level with it, and other distances are those of the order's one column,
    in the unit of its type.
    """

    start: int | None = None
    end: int | None = None
    by_rows: bool = False

    @property
    def by_value(self) -> bool:
        """Whether it ends at a distance in the order's unit."""
        return not self.by_rows and any(end not in (None, 0) for end in (self.start, self.end))


@dataclass(frozen=True)
class OrderedRows:
    """Rows by partition and order: `order` are their places in what was given; the others hold one number a row, in that order.

    A partition and the rows that are level go from a first row to the one after the last. `by` is the order's first column, as it
    was given, and whether it descends.
    """

    order: np.ndarray
    partition: tuple[np.ndarray, np.ndarray]
    peers: tuple[np.ndarray, np.ndarray]
    by: tuple[pa.Array[Any], bool] | None = None

    @staticmethod
    def of(rows: pa.RecordBatch, partition: tuple[str, ...], sorting: Sorting) -> OrderedRows:
        """Return the rows in an order; the columns are of types that Arrow orders as Spark does."""
        groups = [code for name in partition for code in _encode_order(rows.column(name), SortKey(name))]
        levels = [code for key in sorting.by for code in _encode_order(rows.column(key.column), key)]
        rest = [code for key in sorting.last for code in _encode_order(rows.column(key.column), key)]
        order = _sort_codes([*groups, *levels], rest)
        begins = _mark_changes(groups, order)
        peers = _compute_spans(begins | _mark_changes(levels, order))
        by = (rows.column(sorting.by[0].column), sorting.by[0].descending) if sorting.by else None
        return OrderedRows(order, _compute_spans(begins), peers, by)

    @cached_property
    def _back(self) -> np.ndarray:
        """Where each row that was given stands in the order."""
        back = np.empty_like(self.order)
        back[self.order] = np.arange(len(self.order))
        return back

    def _as_given(self, results: np.ndarray, absent: np.ndarray | None = None) -> pa.Array[Any]:
        mask = None if absent is None else absent[self._back]
        made: pa.Array[Any] = pa.array(results[self._back], mask=mask)
        return made

    def number_rows(self, function: str) -> pa.Array[Any]:
        """Return row_number, rank or dense_rank of each row as it was given."""
        first, places = self.partition[0], np.arange(len(self.order))
        match function:
            case "row_number":
                numbers = places - first
            case "rank":
                numbers = self.peers[0] - first
            case _:
                groups = np.cumsum(self.peers[0] == places)
                numbers = groups - groups[first] if len(first) else first
        return self._as_given((numbers + 1).astype(np.int32))

    def shift_values(self, values: pa.Array[Any], offset: int) -> pa.Array[Any]:
        """Return the value of the row so many rows behind each (negative: before it), null beyond the partition."""
        places = np.arange(len(self.order)) + offset
        return self._take_values(values, places, (places >= self.partition[0]) & (places < self.partition[1]))

    def pick_frame_end(self, values: pa.Array[Any], bounds: FrameBounds, *, last: bool) -> pa.Array[Any]:
        """Return the value of the first or the last row of each frame, null of one without rows."""
        low, high = self._compute_frames(bounds)
        return self._take_values(values, high - 1 if last else low, low < high)

    def _take_values(self, values: pa.Array[Any], places: np.ndarray, there: np.ndarray) -> pa.Array[Any]:
        found = self.order[np.where(there, places, 0)][self._back]
        return values.take(to_positions(found, ~there[self._back]))

    def aggregate_frames(
        self, function: str, values: pa.Array[Any] | None, bounds: FrameBounds
    ) -> pa.Array[Any]:
        """Return count, sum, avg, min or max of the frame of each row; without values rows are counted. Raises Inexact."""
        low, high = self._compute_frames(bounds)
        if values is None:
            return self._as_given(high - low)
        known = values.is_valid().to_numpy(zero_copy_only=False)[self.order]
        count = _sum_frames(known.astype(np.int64), low, high)
        if function == "count":
            return self._as_given(count)
        if function in ("min", "max"):
            return self._compute_extremes(values, (low, high), bounds, greatest=function == "max")
        if pa.types.is_decimal(values.type):
            return self._aggregate_decimals(function, values, count, (low, high))
        numbers = values.cast(pa.int64()).fill_null(0).to_numpy()[self.order]
        _refuse_large(numbers, low, high, _EXACT_IN_LONG if function == "sum" else _EXACT_IN_DOUBLE)
        total = _sum_frames(numbers, low, high)
        if function == "sum":
            return self._as_given(total, count == 0)
        return self._as_given(total / np.maximum(count, 1), count == 0)

    def _aggregate_decimals(
        self, function: str, values: pa.Array[Any], count: np.ndarray, frames: tuple[np.ndarray, np.ndarray]
    ) -> pa.Array[Any]:
        """Return sums of decimals, or their quotients by the counts, which are rounded half up."""
        assert isinstance(values.type, pa.Decimal128Type)
        given = DecimalType(values.type.precision, values.type.scale)
        kind = derive_sum_type(given) if function == "sum" else derive_mean_type(given)
        more = 10 ** (kind.scale - given.scale)
        numbers = _read_decimals(values)[self.order]
        _refuse_large(numbers, *frames, _EXACT_IN_LONG // more)
        total = _sum_frames(numbers, *frames)
        if function == "avg":
            whole, rest = np.divmod(np.abs(total) * more, np.maximum(count, 1))
            total = np.sign(total) * (whole + (2 * rest >= np.maximum(count, 1)))
        return build_decimals(total[self._back], (count > 0)[self._back], kind)

    def _compute_frames(self, bounds: FrameBounds) -> tuple[np.ndarray, np.ndarray]:
        """Return the first row of each frame and the one after the last. Raises Inexact."""
        (first, last), places = self.partition, np.arange(len(self.order))
        low, high = first, last
        if bounds.start is not None and bounds.by_rows:
            low = np.clip(places + bounds.start, first, last)
        elif bounds.start is not None:
            low = self._search_order(bounds.start, after=False) if bounds.start else self.peers[0]
        if bounds.end is not None and bounds.by_rows:
            high = np.clip(places + bounds.end + 1, first, last)
        elif bounds.end is not None:
            high = self._search_order(bounds.end, after=True) if bounds.end else self.peers[1]
        return low, np.maximum(low, high)

    def _search_order(self, distance: int, *, after: bool) -> np.ndarray:
        """Return of each row the first one of its partition that is not before what lies so far away (`after`: is behind).

        A row whose order is null has just those that are level with it around itself.
        """
        assert self.by is not None
        column, descending = self.by
        known = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False)[self.order])
        numbers = _read_order(column)[self.order][known]
        numbers = -numbers if descending else numbers
        if max(abs(int(numbers.min(initial=0))), abs(int(numbers.max(initial=0)))) + abs(
            distance
        ) > _find_limit(column.type):
            raise Inexact("a distance that leaves the type of its order")
        partition = self.partition[0][known]
        sides = np.repeat([1, 2 if after else 0], len(known))
        merged = np.lexsort(
            (sides, np.concatenate([numbers, numbers + distance]), np.concatenate([partition, partition]))
        )
        rows = merged < len(known)
        before = np.empty(len(known), dtype=np.int64)
        before[merged[~rows] - len(known)] = np.cumsum(rows)[~rows]
        found = self.peers[1 if after else 0].copy()
        # of a partition the rows with a value follow each other, so their places are as far apart as their numbers
        found[known] = known + before - np.arange(len(known)) if len(known) else known
        return found

    def _compute_extremes(
        self,
        values: pa.Array[Any],
        frames: tuple[np.ndarray, np.ndarray],
        bounds: FrameBounds,
        *,
        greatest: bool,
    ) -> pa.Array[Any]:
        """Return the greatest or least values: of numbers that rise with what is wanted, 0 being none, the greatest ones."""
        low, high = frames
        ranks = _rank_values(values, descending=not greatest)
        row_of = np.zeros(int(ranks.max(initial=0)) + 1, dtype=np.int64)
        row_of[ranks] = np.arange(len(ranks))
        ranks = ranks[self.order]
        if bounds.start is None:
            best = np.where(low < high, _accumulate_max(ranks, self.partition[0])[np.maximum(high - 1, 0)], 0)
        elif bounds.end is None:
            backwards = _accumulate_max(ranks[::-1], len(ranks) - self.partition[1][::-1])[::-1]
            best = np.where(low < high, backwards[np.minimum(low, len(ranks) - 1)], 0)
        else:
            best = np.zeros(len(ranks), dtype=np.int64)
            for step in range(int((high - low).max(initial=0))):
                place = low + step
                found = np.where(place < high, ranks[np.minimum(place, len(ranks) - 1)], 0)
                best = np.maximum(best, found)
        absent = (best == 0)[self._back]
        return values.take(to_positions(row_of[best][self._back], absent))


def _read_decimals(column: pa.Array[Any]) -> np.ndarray:
    """Return the unscaled numbers of decimals, 0 for null. Raises Inexact for more than 64 bits."""
    units = read_units(column, to_mask(column.is_valid()))
    if units.dtype == object:
        raise Inexact("a decimal of more than 64 bits")
    return units


def _read_order(column: pa.Array[Any]) -> np.ndarray:
    """Return the numbers of an order whose distances are known, 0 for null."""
    if pa.types.is_decimal(column.type):
        return _read_decimals(column)
    width = pa.int32() if pa.types.is_date32(column.type) else pa.int64()
    numbers: np.ndarray = column.cast(width).fill_null(0).to_numpy().astype(np.int64)
    return numbers


def _find_limit(kind: pa.DataType) -> int:
    """Return how far from zero the numbers of a type go."""
    return 2**31 - 1 if pa.types.is_date32(kind) else 2**63 - 1


def _encode_order(column: pa.Array[Any], key: SortKey) -> list[np.ndarray]:
    """Return numbers that rise as a column does in an order, nulls in their place; two numbers a row where that is cheaper."""
    numbers = as_numbers(column)
    if numbers is not None:
        return [~numbers if key.descending else numbers]
    ranks = _rank_values(column, descending=key.descending)  # nulls are 0: before all others
    return [ranks if key.nulls_first else np.where(ranks == 0, len(ranks) + 1, ranks)]


def _rank_values(column: pa.Array[Any], *, descending: bool) -> np.ndarray:
    """Return the dense rank of each value from 1 on, 0 for a null."""
    known = column.is_valid().to_numpy(zero_copy_only=False)
    values = column.drop_null()
    if pa.types.is_floating(values.type):
        values = _encode_floats(values)
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    found = pc.rank(values, sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    ranks = np.zeros(len(column), dtype=np.int64)
    ranks[known] = int(found.max(initial=0)) + 1 - found if descending else found
    return ranks


def _encode_floats(values: pa.Array[Any]) -> pa.Array[Any]:
    """Return whole numbers in the order of floating point: both zeros are one, and NaN is the greatest."""
    numbers = values.cast(pa.float64()).to_numpy() + 0.0
    bits = np.where(np.isnan(numbers), np.nan, numbers).view(np.int64)
    made: pa.Array[Any] = pa.array(np.where(bits < 0, bits ^ (2**63 - 1), bits))
    return made


def _sort_codes(codes: list[np.ndarray], last: list[np.ndarray]) -> np.ndarray:
    """Return the order by all codes: by the first of them alone, if that tells all rows apart."""
    keys = pack_codes([*codes, *last])
    order = argsort_stable(keys[0])
    arranged = keys[0][order]
    if len(keys) == 1 or (arranged[1:] != arranged[:-1]).all():
        return order
    return np.lexsort(keys[::-1])


def _mark_changes(codes: list[np.ndarray], order: np.ndarray) -> np.ndarray:
    """Return which rows differ from the row before them; the first does."""
    begins = np.zeros(len(order), dtype=bool)
    begins[:1] = True
    for code in codes:
        arranged = code[order]
        begins[1:] |= arranged[1:] != arranged[:-1]
    return begins


def _compute_spans(begins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return for each row the first row of its group and the one after the last."""
    starts = np.flatnonzero(begins)
    lengths = np.diff(np.append(starts, len(begins)))
    return np.repeat(starts, lengths), np.repeat(starts + lengths, lengths)


def _sum_frames(numbers: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the sum of each frame; the sums up to a row may wrap, differences of them do not."""
    upto = np.concatenate([[0], np.cumsum(numbers)])
    total: np.ndarray = upto[high] - upto[low]
    return total


def _refuse_large(numbers: np.ndarray, low: np.ndarray, high: np.ndarray, limit: int) -> None:
    """Raise Inexact where a sum might not be a number of the type in which Spark adds up."""
    largest = max(abs(int(numbers.min(initial=0))), abs(int(numbers.max(initial=0))))
    longest = int((high - low).max(initial=0))
    if largest * longest > limit:
        raise Inexact(f"a sum of {longest} numbers up to {largest}")


def _accumulate_max(ranks: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Return the greatest rank of each partition's rows up to each row; `first` is the partition's first row."""
    offset = first * (int(ranks.max(initial=0)) + 1)
    found: np.ndarray = np.maximum.accumulate(ranks + offset) - offset
    return found

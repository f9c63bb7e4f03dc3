"""The order of rows and the equality of keys: by hash, then by primary key; nulls first, then NaN; null
equals null.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.arrow import (
    Column,
    add_scalar,
    as_values,
    compute_sort_indices,
    intersect_masks,
    make_nulls,
    to_mask,
    to_positions,
)

_POSITION = "\0position"


def one_chunk(column: Column) -> pa.Array[Any]:
    """Return a column as a single array, without a copy where it is one already."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunks[0]
    return pa.concat_arrays(column.chunks) if column.num_chunks else make_nulls(0, column.type)


def order_by_key(
    hashes: np.ndarray, keys: pa.Table, sources: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return (order, first): the rows by hash and key, ties in their given order, and which of them begins a
    new key.

    With `sources` (a number per row) the rows of each source are known to be in order, which saves most of
    the work.
    """
    n = len(hashes)
    first = np.ones(n, dtype=bool)
    if n < 2:
        return np.arange(n), first
    lead = extract_number_key(keys) if hashes[0] == hashes[-1] and (hashes == hashes[0]).all() else None
    if lead is not None:
        order, ordered = _sort_runs(lead, in_runs=sources is not None)
        first[1:] = ordered[1:] != ordered[:-1]
        return order, first
    order, ordered = _sort_runs(hashes, in_runs=sources is not None)
    tied = ordered[1:] == ordered[:-1]
    pairs = np.flatnonzero(tied) + 1
    if sources is not None and len(pairs):
        source = sources[order]
        across = source[pairs] != source[pairs - 1]
        if not across.all():  # rows of one hash from one source are in order and differ
            group = np.concatenate([[0], np.cumsum(~tied)])
            mixed = np.zeros(group[-1] + 1, dtype=bool)
            mixed[group[pairs[across]]] = True
            pairs = pairs[mixed[group[pairs]]]
    if not len(pairs):
        return order, first
    equal = _compare_keys(keys, order[pairs], order[pairs - 1])
    first[pairs[equal]] = False
    if not equal.all():
        _sort_ties(keys, order, first, tied, pairs[~equal])
    return order, first


def _compare_keys(keys: pa.Table, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    mine, theirs = keys.take(pa.array(left)), keys.take(pa.array(right))
    equal = np.ones(len(left), dtype=bool)
    for a, b in zip(mine.columns, theirs.columns, strict=True):
        equal &= equal_values(one_chunk(a), one_chunk(b))
    return equal


def _sort_ties(
    keys: pa.Table, order: np.ndarray, first: np.ndarray, tied: np.ndarray, differ: np.ndarray
) -> None:
    """Sort by key, in place, the rows of each hash at which rows with different keys meet (`differ`)."""
    group = np.concatenate([[0], np.cumsum(~tied)])
    several = np.zeros(group[-1] + 1, dtype=bool)
    several[group[differ]] = True
    at = np.flatnonzero(several[group])
    rows = order[at]
    some = keys.take(pa.array(rows))
    arranged = sort_indices(some, leading=group[at])
    order[at] = rows[arranged]
    equal = equal_to_previous(some.take(pa.array(arranged))) & (group[at][1:] == group[at][:-1])
    first[at] = True
    first[at[1:][equal]] = False


def _sort_runs(values: np.ndarray, *, in_runs: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return (stable order, values in it). What is no sequence of sorted runs is sorted by the faster unstable way
    first, which is the stable order too if no value occurs twice.
    """
    if not in_runs:
        order = np.argsort(values)
        ordered = values[order]
        if (ordered[1:] != ordered[:-1]).all():
            return order, ordered
    order = np.argsort(values, kind="stable")
    return order, values[order]


def sort_indices(keys: pa.Table, leading: np.ndarray | None = None) -> np.ndarray:
    """Return the stable order of rows by `leading` numbers and then by all columns."""
    numbers = (
        [leading, *map(as_numbers, keys.columns)]
        if leading is not None
        else list(map(as_numbers, keys.columns))
    )
    known = [number for number in numbers if number is not None]
    one = pack_codes(known) if known and len(known) == len(numbers) else []
    if len(one) == 1:
        return argsort_stable(one[0])
    names = keys.column_names
    arrays: list[Column] = list(keys.columns)
    if leading is not None:
        arrays, names = [pa.array(leading), *arrays], ["\0leading", *names]
    arrays.append(pa.array(np.arange(keys.num_rows)))
    names = [*names, _POSITION]
    table = pa.Table.from_arrays(arrays, names=names)
    return compute_sort_indices(table, [(name, "ascending", "at_start") for name in names]).to_numpy()


def identical_to_previous(rows: pa.Table) -> np.ndarray:
    """For rows 1..n-1: whether all columns are identical to those of the row before."""
    n = max(rows.num_rows - 1, 0)
    equal = np.ones(n, dtype=bool)
    for column in rows.columns:
        array = one_chunk(column)
        equal &= identical_values(array.slice(0, n), array.slice(1, n))
    return equal


def equal_to_previous(rows: pa.Table) -> np.ndarray:
    """For rows 1..n-1: whether all columns equal those of the row before."""
    n = max(rows.num_rows - 1, 0)
    equal = np.ones(n, dtype=bool)
    for column in rows.columns:
        array = one_chunk(column)
        equal &= equal_values(array.slice(0, n), array.slice(1, n))
    return equal


def equal_values(left: pa.Array[Any], right: pa.Array[Any]) -> np.ndarray:
    """Whether each pair of values is the same: null equals null, NaN equals NaN, -0.0 equals 0.0."""
    kind = left.type
    plain = not left.null_count and not right.null_count
    if plain and (pa.types.is_integer(kind) or pa.types.is_temporal(kind)):
        bits = pa.int64() if kind.bit_width == 64 else pa.int32() if kind.bit_width == 32 else kind
        equal: np.ndarray = (
            left.view(bits).to_numpy() == right.view(bits).to_numpy()
        )  # the least time is no time to NumPy
        return equal
    if pa.types.is_null(kind):
        return np.ones(len(left), dtype=bool)
    if isinstance(left, pa.StructArray) and isinstance(right, pa.StructArray):
        equal = left.is_null().to_numpy(zero_copy_only=False) == right.is_null().to_numpy(
            zero_copy_only=False
        )
        for mine, theirs in zip(left.flatten(), right.flatten(), strict=True):
            equal &= equal_values(mine, theirs)
        return equal
    if pa.types.is_nested(kind):
        pairs = zip(as_values(left), as_values(right), strict=True)
        return np.fromiter((_is_same(a, b) for a, b in pairs), dtype=bool, count=len(left))
    equal = to_mask(pc.equal(left, right))
    if not plain:
        equal |= intersect_masks(left.is_null(), right.is_null())
    if pa.types.is_floating(kind):
        equal |= intersect_masks(pc.is_nan(left), pc.is_nan(right))
    return equal


def identical_values(left: pa.Array[Any], right: pa.Array[Any]) -> np.ndarray:
    """Whether each pair of values is the same, as `equal_values` says, and zeros have one sign: views show it as texts.

    >>> identical_values(pa.array([0.0, -0.0, None]), pa.array([0.0, 0.0, None])).tolist()
    [True, False, True]
    """
    equal = equal_values(left, right)
    if not holds_floats(left.type):
        return equal
    signs = mark_zero_signs(pa.concat_arrays([left, right]))
    return equal if signs is None else equal & (signs[: len(left)] == signs[len(left) :])


def mark_zero_signs(values: pa.Array[Any]) -> np.ndarray | None:
    """Return a mark for each value, which differs between equal values that have zeros of other signs.

    None where no zero has a minus, so that there is nothing to tell apart.
    """
    if not _has_negative_zero(values):
        return None
    if pa.types.is_floating(values.type):
        return _find_negative_zeros(values)
    return np.array([repr(value) for value in as_values(values)])


def _find_negative_zeros(values: pa.Array[Any]) -> np.ndarray:
    numbers = values.fill_null(1).to_numpy(zero_copy_only=False)
    found: np.ndarray = np.signbit(numbers) & (numbers == 0)
    return found


def _has_negative_zero(values: pa.Array[Any]) -> bool:
    """Tell whether a value, or a part of one, is -0.0; of a slice of nested values it may be one beside the slice."""
    kind = values.type
    if not holds_floats(kind):
        return False
    if pa.types.is_floating(kind):
        return bool(_find_negative_zeros(values).any())
    if isinstance(values, pa.StructArray):
        return any(map(_has_negative_zero, values.flatten()))
    if isinstance(values, pa.MapArray):
        return _has_negative_zero(values.keys) or _has_negative_zero(values.items)
    return _has_negative_zero(cast("pa.ListArray[Any]", values).flatten())


def holds_floats(kind: pa.DataType) -> bool:
    """Tell whether a type is of floating numbers, or has such parts."""
    return pa.types.is_floating(kind) or any(
        holds_floats(kind.field(place).type) for place in range(kind.num_fields)
    )


def _is_same(a: Any, b: Any) -> bool:
    """Tell whether two nested values are the same, as `equal_values` does for their parts."""
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (a != a and b != b)
    if isinstance(a, dict) and isinstance(b, dict):
        return _is_same(list(a.items()), list(b.items()))
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_is_same, a, b))
    return bool(a == b)


def extract_number_key(keys: pa.Table) -> np.ndarray | None:
    """Return a key of one integer, date or time column without nulls as an array that NumPy can search, else
    None.
    """
    if keys.num_columns != 1:
        return None
    return as_numbers(keys.column(0))


def as_numbers(column: Column) -> np.ndarray | None:
    """Return a column of integers, dates or times without nulls as a NumPy view, else None."""
    kind = column.type
    if column.null_count:
        return None
    array = one_chunk(column)
    if pa.types.is_signed_integer(kind):
        return array.to_numpy()
    if pa.types.is_date32(kind):
        return array.view(pa.int32()).to_numpy()
    if pa.types.is_timestamp(kind):
        return array.view(pa.int64()).to_numpy()
    return None


def argsort_stable(numbers: np.ndarray) -> np.ndarray:
    """Return the stable order of numbers: sorted with their places, where both fit into 64 bits, by an unstable sort.

    >>> argsort_stable(np.array([2, 0, 2, 1])).tolist()
    [1, 3, 0, 2]
    """
    bits = len(numbers).bit_length()
    if not len(numbers) or int(numbers.min()) < 0 or int(numbers.max()) >= 1 << (63 - bits):
        return np.argsort(numbers, kind="stable")
    places: np.ndarray = np.sort((numbers.astype(np.int64) << bits) | np.arange(len(numbers)))
    return places & ((1 << bits) - 1)


def pack_codes(codes: list[np.ndarray]) -> list[np.ndarray]:
    """Return fewer numbers that order rows as `codes` do: those that follow each other as one where it fits into 64 bits.

    >>> [code.tolist() for code in pack_codes([np.array([1, 0, 1]), np.array([7, 9, 8])])]
    [[3, 2, 4]]
    """
    packed: list[np.ndarray] = []
    room = 1
    for code in codes:
        if not len(code):
            return [code]
        least, greatest = int(code.min()), int(code.max())
        width = greatest - least + 1
        if packed and room * width < 1 << 63:
            packed[-1] = packed[-1] * width + (code.astype(np.int64) - least)
            room *= width
        elif width < 1 << 63:
            packed.append(code.astype(np.int64) - least)
            room = width
        else:
            packed.append(code)
            room = 1 << 63
    return packed


def bisect_keys(
    rows: pa.Table, sought: pa.Table, low: np.ndarray, high: np.ndarray, *, right: bool
) -> np.ndarray:
    """Return, for each row of `wanted`, where it would stand in sorted `rows` between `low` and `high`;
    vectorised.

    Both tables have the same columns. `right`: after equal rows, else before them.
    """
    low, high = low.copy(), high.copy()
    for column in range(sought.num_columns):  # numbers in one range of rows are searched by NumPy
        mine, theirs = as_numbers(rows.column(column)), as_numbers(sought.column(column))
        if mine is None or theirs is None or not len(low) or not ((low == low[0]) & (high == high[0])).all():
            rows, sought = _skip_columns(rows, column), _skip_columns(sought, column)
            break
        some = mine[low[0] : high[0]]
        low, high = (low[0] + np.searchsorted(some, theirs, side=side) for side in ("left", "right"))
    else:
        return high if right else low
    compare = _choose_comparison(rows, sought)
    while True:
        open_ = np.flatnonzero(low < high)
        if not len(open_):
            return low
        middle = (low[open_] + high[open_]) // 2
        order = compare(middle, open_)
        after = order <= 0 if right else order < 0
        low[open_[after]] = middle[after] + 1
        high[open_[~after]] = middle[~after]


def match_rows(rows: pa.Table, sought: pa.Table, places: np.ndarray) -> np.ndarray:
    """Return whether the row at each place equals the one that is sought there; both have the same columns."""
    equal: np.ndarray = _choose_comparison(rows, sought)(places, np.arange(len(places))) == 0
    return equal


def _skip_columns(rows: pa.Table, count: int) -> pa.Table:
    return rows.select(range(count, rows.num_columns)) if count else rows


def _choose_comparison(rows: pa.Table, sought: pa.Table) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Return what compares rows at places with sought ones at others, giving -1, 0 or 1: by NumPy where all are numbers."""
    stored, wanted = (list(map(_read_at_places, each.columns)) for each in (rows, sought))
    pairs = [
        (mine, theirs)
        for mine, theirs in zip(stored, wanted, strict=True)
        if mine is not None and theirs is not None
    ]

    def compare_numbers(places: np.ndarray, others: np.ndarray) -> np.ndarray:
        order = np.zeros(len(places), dtype=np.int8)
        for mine, theirs in pairs:
            left, right = mine(places), theirs(others)
            order = np.where(order == 0, (left > right).view(np.int8) - (left < right).view(np.int8), order)
        return order

    def compare_values(places: np.ndarray, others: np.ndarray) -> np.ndarray:
        return _compare_rows(
            rows.take(to_positions(places)).columns, sought.take(to_positions(others)).columns
        )

    return compare_numbers if len(pairs) == rows.num_columns else compare_values


def _read_at_places(column: Column) -> Callable[[np.ndarray], np.ndarray] | None:
    """Return what gives a column's values at places as numbers; None if they are no numbers, or some are null."""
    numbers = as_numbers(column)
    if numbers is not None:
        return numbers.__getitem__
    if not pa.types.is_boolean(column.type) or column.null_count:
        return None
    array = one_chunk(column)
    buffer, offset = array.buffers()[1], array.offset
    bits = np.frombuffer(memoryview(buffer), np.uint8) if buffer is not None else np.zeros(1, np.uint8)

    def read_bits(places: np.ndarray) -> np.ndarray:
        at = places + offset
        found: np.ndarray = bits[at >> 3] >> (at & 7) & 1
        return found

    return read_bits


def _compare_rows(left: Sequence[pa.ChunkedArray[Any]], right: Sequence[pa.ChunkedArray[Any]]) -> np.ndarray:
    """-1, 0 or 1 for each pair of rows, column by column."""
    order = np.zeros(len(left[0]), dtype=np.int8)
    for mine, theirs in zip(left, right, strict=True):
        column = _compare(one_chunk(mine), one_chunk(theirs))
        order = np.where(order == 0, column, order)
    return order


def _compare(left: pa.Array[Any], right: pa.Array[Any]) -> np.ndarray:
    mine, theirs = _classify(left), _classify(right)
    order: np.ndarray = np.sign(mine - theirs)
    valued = (mine == 2) & (theirs == 2) & (order == 0)
    if valued.any():
        less, more = to_mask(pc.less(left, right)), to_mask(pc.greater(left, right))
        order = np.where(valued, more.astype(np.int8) - less.astype(np.int8), order)
    return order


def _classify(array: pa.Array[Any]) -> np.ndarray:
    """0 for null, 1 for NaN, 2 for any other value: the order in which Arrow sorts them when nulls come
    first.
    """
    found = np.full(len(array), 2, dtype=np.int8)
    if pa.types.is_floating(array.type):
        found[to_mask(pc.is_nan(array))] = 1
    if array.null_count:
        found[to_mask(array.is_null())] = 0
    return found


def normalize_key(column: Column) -> Column:
    """Return a key column with -0.0 as 0.0, so that equal keys are stored, hashed and sorted as one."""
    if pa.types.is_floating(column.type):
        return add_scalar(column, pa.scalar(0.0, column.type))
    return column

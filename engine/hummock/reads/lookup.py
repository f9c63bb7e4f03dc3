"""Finding rows by key: binary search of the keys' hashes in each sorted file, newest first; equality is
always verified.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from engine.arrow import to_positions
from engine.errors import InvalidRow
from engine.hummock.reads.key_range import KeyRange
from engine.hummock.reads.look_ahead import FETCHES, FIRST_FILES, LookAhead
from engine.hummock.reads.merge import list_newest_first
from engine.hummock.rows.expiry import RowExpiry
from engine.hummock.rows.ordering import (
    argsort_stable,
    as_numbers,
    bisect_keys,
    equal_to_previous,
    equal_values,
    match_rows,
    normalize_key,
    one_chunk,
    sort_indices,
)
from engine.hummock.sorted_files.file_set import FileSet, SearchValues, SortedFile, with_columns
from engine.hummock.sorted_files.sst import SortedValues, compute_hashes
from engine.hummock.version import HASH, Run, SstInfo, Table

Opened = tuple[SstInfo, SortedFile]
WIDE = 32
MOST_MATCHES = 1 << 20
TOGETHER_BYTES = 1 << 18
"""Files up to this size are put together before rows are taken out of them."""


@dataclass(frozen=True)
class LookupKeys:
    """The keys that are asked for: `rows` of them in `table`, their `hashes`, and which may match at all."""

    table: pa.Table
    hashes: np.ndarray
    asking: np.ndarray
    searched: tuple[str, ...]
    verified: tuple[str, ...]
    filtered: tuple[str, ...]
    whole_key: bool
    leading: tuple[str, ...] = ()
    key_range: KeyRange | None = None
    most: int | None = None
    """So many matches are looked for at once; more raise TooManyMatches, unless one key alone has them."""
    _numbers: dict[str, np.ndarray | None] = field(default_factory=dict, repr=False, compare=False)

    def read_numbers(self, name: str) -> np.ndarray | None:
        """Return a column of the keys as a NumPy view, None if its values are no numbers or some are null."""
        if name not in self._numbers:
            self._numbers[name] = as_numbers(self.table.column(name))
        return self._numbers[name]


@dataclass
class Candidates:
    """Rows that were found: per row the key it answers, the file it is in, and its place there."""

    key: np.ndarray
    source: np.ndarray
    place: np.ndarray
    deleted: np.ndarray


@dataclass(frozen=True)
class FoundRows:
    """Rows that a search has found and nobody has read yet: the newest version of each, ordered by key and primary key."""

    opened: Sequence[Opened]
    rows: Candidates | None
    """None if there are none."""

    @property
    def held_bytes(self) -> int:
        """The bytes of this process's memory that the files take which the rows stand in."""
        return sum(file.held_bytes for _, file in self.opened)


class TooManyMatches(Exception):
    """The keys that are asked for have more matches than are looked for at once: ask for fewer."""


def find_in_parts(
    lookup_keys: LookupKeys, find: Callable[[LookupKeys], tuple[np.ndarray, pa.Table]]
) -> Iterator[tuple[np.ndarray, pa.Table]]:
    """Yield what `find_rows` returns in parts of MOST_MATCHES rows or so, each of other keys: memory does not follow matches."""
    left = [replace(lookup_keys, most=MOST_MATCHES)]
    while left:
        some = left.pop()
        try:
            yield find(some)
        except TooManyMatches:
            half = len(some.asking) // 2
            left += [replace(some, asking=some.asking[half:]), replace(some, asking=some.asking[:half])]


def find_rows(
    files: FileSet,
    table: Table,
    runs: Sequence[Run],
    lookup_keys: LookupKeys,
    columns: Sequence[str],
    expiry: RowExpiry | None = None,
) -> tuple[np.ndarray, pa.Table]:
    """Return (index of the wanted key per matched row, ascending; the rows' `columns`) over `runs`, newest first, without
    what `expiry` hides.

    Rows of one key come in primary-key order.
    """
    return read_found(table, lookup_keys, search_rows(files, table, runs, lookup_keys), columns, expiry)


def search_rows(files: FileSet, table: Table, runs: Sequence[Run], lookup_keys: LookupKeys) -> FoundRows:
    """Return where the rows of keys stand in `runs`, newest first; none of their other columns is read."""
    opened: list[Opened] = []
    found: list[Candidates] = []
    order, searched, matches = _choose_search_order(lookup_keys), 0, 0
    ssts, ahead = list_newest_first(runs), LookAhead(files, FIRST_FILES if lookup_keys.whole_key else FETCHES)
    for at, sst in enumerate(ssts):
        if not len(order):
            break
        file = open_for_keys(ahead, ssts, at, lookup_keys, order)
        if file is None:
            continue
        searched += 1
        key, place = search_file(file, lookup_keys, order)
        matches += len(key)
        if lookup_keys.most is not None and matches > lookup_keys.most and len(lookup_keys.asking) > 1:
            raise TooManyMatches
        if not len(key):
            continue
        opened.append((sst, file))
        found.append(Candidates(key, np.full(len(key), len(opened) - 1), place, file.operations[place] != 0))
        if lookup_keys.whole_key:
            settled = np.zeros(len(lookup_keys.hashes), dtype=bool)
            settled[key] = True
            order = order[~settled[order]]
    files.counters.add("lookups")
    files.counters.add("files_searched", searched)
    return FoundRows(opened, _keep_newest(table, lookup_keys, opened, found) if found else None)


def open_for_keys(
    ahead: LookAhead, ssts: Sequence[SstInfo], at: int, lookup_keys: LookupKeys, order: np.ndarray
) -> SortedFile | None:
    """Return one of the files of a search, with those that follow on their way; None where no key of `order` can stand in it."""
    first, last = lookup_keys.hashes[order[0]], lookup_keys.hashes[order[-1]]

    def is_reached(sst: SstInfo) -> bool:
        return bool(sst.min_hash <= last and sst.max_hash >= first)

    if not is_reached(ssts[at]):
        return None
    found = ahead.find(ssts[at])
    if found is not None:
        return found
    following = filter(is_reached, itertools.islice(ssts, at + 1, None))
    values = functools.partial(_list_search_values, lookup_keys, order)
    return ahead.fetch(
        ssts[at], following, SearchValues(lookup_keys.searched[0] if lookup_keys.searched else HASH, values)
    )


def _choose_search_order(lookup_keys: LookupKeys) -> np.ndarray:
    """The keys in the order in which files hold them, as far as that is cheap: a sorted search stays in the cache."""
    asking = lookup_keys.asking
    lead = (
        as_numbers(lookup_keys.table.column(lookup_keys.searched[0]))
        if lookup_keys.searched
        else lookup_keys.hashes
    )
    return asking if lead is None else asking[np.argsort(lead[asking])]


def _list_search_values(lookup_keys: LookupKeys, order: np.ndarray) -> SortedValues | None:
    """The sorted values that row groups are found by; None if they have no order that Python and Parquet share."""
    if not lookup_keys.searched:
        hashes: np.ndarray = lookup_keys.hashes[order]
        return hashes
    column = lookup_keys.table.column(lookup_keys.searched[0])
    if pa.types.is_integer(column.type) and not column.null_count:
        return np.sort(column.to_numpy()[order])
    if (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)) and not column.null_count:
        return sorted(set(column.take(to_positions(order)).to_pylist()))
    return None


def prepare_keys(
    table: Table,
    keys: pa.Table,
    null_safe: bool,
    key_range: KeyRange | None = None,
    hashes: np.ndarray | None = None,
) -> LookupKeys:
    """Return `keys` typed, hashed unless their `hashes` are given, and split into columns to search, to verify in the file, and
    to filter by at the end.

    Raises InvalidRow for other columns, and for bounds of a column that does not follow them in the key.
    """
    arrays: dict[str, pa.Array[Any]] = {}
    asking = np.ones(keys.num_rows, dtype=bool)
    for name in keys.column_names:
        if name not in table.schema.names:
            raise InvalidRow(f"table {table.name} has no column {name}; it has {table.schema.names}")
        column, kind = keys.column(name), table.schema.field(name).type
        if column.type != kind:
            column = column.cast(kind)
        arrays[name] = one_chunk(normalize_key(column))
        if not null_safe and column.null_count:
            asking &= column.is_valid().to_numpy()
    missing = [name for name in table.distribution_key if name not in arrays]
    searched: tuple[str, ...] = ()
    if not table.distribution_key:
        for name in table.primary_key:
            if name not in arrays:
                break
            searched = (*searched, name)
        missing = [] if searched else [table.primary_key[0]]
    if missing:
        by = ", ".join(table.distribution_key or table.primary_key)
        raise InvalidRow(f"table {table.name} is searched by {by}: the keys lack {', '.join(missing)}")
    verified = tuple(name for name in table.primary_key if name in arrays)
    leads = set(arrays) == set(table.primary_key[: len(arrays)])
    if key_range is not None and not (leads and key_range.column in table.primary_key[len(arrays) :][:1]):
        by = ", ".join(table.primary_key)
        raise InvalidRow(f"table {table.name}: rows between bounds are found by leading columns of {by}")
    return LookupKeys(
        pa.table(arrays),
        compute_hashes(table, arrays, keys.num_rows) if hashes is None else hashes,
        np.flatnonzero(asking),
        searched,
        tuple(name for name in verified if name not in searched),
        tuple(name for name in arrays if name not in table.primary_key),
        len(verified) == len(table.primary_key),
        tuple(itertools.takewhile(lambda name: name in arrays, table.primary_key)),
        key_range,
    )


def search_file(
    file: SortedFile, lookup_keys: LookupKeys, order: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return (key, place in the file) of every row that equals a key of `order` in the searched and verified
    columns.
    """
    key, low, high = locate_keys(file, lookup_keys, order)
    count = high - low
    total = int(count.sum())
    if total == 0:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    if lookup_keys.most is not None and total > lookup_keys.most and len(lookup_keys.asking) > 1:
        raise TooManyMatches
    if total != len(key) or (count != 1).any():
        starts = np.cumsum(count) - count
        place = np.arange(total) - np.repeat(starts - low, count)
        key = np.repeat(key, count)
    else:
        place = low
    for name in lookup_keys.verified:
        equal = _compare_places(file, name, place, lookup_keys, key)
        if not equal.all():
            key, place = key[equal], place[equal]
    return key, place


def _compare_places(
    file: SortedFile, name: str, place: np.ndarray, lookup_keys: LookupKeys, key: np.ndarray
) -> np.ndarray:
    """Return whether the values of a column at places of a file are the ones that are requested for keys."""
    mine, theirs = file.read_numbers(name), lookup_keys.read_numbers(name)
    if mine is not None and theirs is not None:
        equal: np.ndarray = mine[place] == theirs[key]
        return equal
    stored, requested = one_chunk(file.rows.column(name)), one_chunk(lookup_keys.table.column(name))
    return equal_values(stored.take(pa.array(place)), requested.take(pa.array(key)))


def locate_keys(
    file: SortedFile, lookup_keys: LookupKeys, order: np.ndarray, *, wide: int = WIDE
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (key, first place, place after the last) in the file of the rows that may equal each key of `order`."""
    if lookup_keys.key_range is None:
        return _locate_all(file, lookup_keys, order, wide)
    key, low, high = _locate_all(file, lookup_keys, order, 0)
    return key, *lookup_keys.key_range.narrow(file.rows, key, low, high)


def _locate_all(
    file: SortedFile, lookup_keys: LookupKeys, order: np.ndarray, wide: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the places of all rows of each key.

    Rows of one hash are in the order of the primary key, so more than `wide` of them are searched by the leading key columns
    that are given: a row of a large group costs what a row of a small one does.
    """
    if lookup_keys.searched:
        return order, *_bisect_file(
            file,
            lookup_keys,
            lookup_keys.searched,
            order,
            np.zeros(len(order), dtype=np.int64),
            np.full(len(order), len(file.hashes), dtype=np.int64),
        )
    stored, hashes = file.hashes, lookup_keys.hashes[order]
    if not len(stored):
        return order[:0], order[:0], order[:0]
    last = len(stored) - 1
    low = np.minimum(stored.searchsorted(hashes), last)
    hit = np.flatnonzero(stored[low] == hashes)
    if not len(hit):
        return order[:0], order[:0], order[:0]
    key, low, hashes = order[hit], low[hit], hashes[hit]
    high = low + 1
    again = (high <= last) & (stored[np.minimum(high, last)] == hashes)
    if wide and not again.any():  # each hash is one row's, as of most tables
        return key, low, high
    high = stored.searchsorted(hashes, side="right")
    large = np.flatnonzero(high - low > wide)
    if len(large) and lookup_keys.leading:
        low[large], high[large] = _bisect_file(
            file, lookup_keys, lookup_keys.leading, key[large], low[large], high[large]
        )
    return key, low, high


def _bisect_file(
    file: SortedFile,
    lookup_keys: LookupKeys,
    by: tuple[str, ...],
    key: np.ndarray,
    start: np.ndarray,
    end: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first places and those after the last of rows that equal keys in leading columns, searched between places."""
    columns = list(by)
    some, rows = lookup_keys.table.select(columns).take(pa.array(key)), file.rows.select(columns)
    low = bisect_keys(rows, some, start, end, right=False)
    if not lookup_keys.whole_key or len(by) < len(lookup_keys.searched) + len(lookup_keys.verified):
        return low, bisect_keys(rows, some, low if len(columns) > 1 else start, end, right=True)
    inside = np.flatnonzero(low < end)  # of a whole key a file has one row
    high = low.copy()
    high[inside] += match_rows(rows, some.take(to_positions(inside)), low[inside])
    return low, high


def _keep_newest(
    table: Table, lookup_keys: LookupKeys, opened: list[Opened], found: list[Candidates]
) -> Candidates:
    """Return the newest version of each row, deletions left out, ordered by key and primary key."""
    key = np.concatenate([part.key for part in found])
    source = np.concatenate([part.source for part in found])
    place = np.concatenate([part.place for part in found])
    deleted = np.concatenate([part.deleted for part in found])
    order = argsort_stable(key)
    keep = np.ones(len(key), dtype=bool)
    if not lookup_keys.whole_key and len(found) > 1:
        grouped = key[order]
        starts = np.flatnonzero(np.concatenate([[True], grouped[1:] != grouped[:-1]]))
        ends = np.append(starts[1:], len(key))
        ranks = source[order]  # of each key from the newest file on
        at = np.flatnonzero(np.repeat(ranks[starts] != ranks[ends - 1], ends - starts))
        if len(at):
            known = set(lookup_keys.table.column_names)
            rest = [name for name in table.primary_key if name not in known]
            some = order[at]
            rows = take_rows(opened, source[some], place[some], rest, table.schema)
            arranged = sort_indices(rows, leading=key[some])
            ordered = some[arranged]
            again = equal_to_previous(rows.take(pa.array(arranged))) & (key[ordered][1:] == key[ordered][:-1])
            order[at] = ordered
            keep[at[1:][again]] = False
    order = order[keep & ~deleted[order]]
    return Candidates(key[order], source[order], place[order], deleted[order])


def read_found(
    table: Table,
    lookup_keys: LookupKeys,
    found: FoundRows,
    columns: Sequence[str],
    expiry: RowExpiry | None,
) -> tuple[np.ndarray, pa.Table]:
    """Return what `find_rows` does of rows that were found for these keys."""
    if found.rows is None:
        return np.empty(0, dtype=np.int64), build_answer_schema(table, columns).empty_table()
    hiding = [] if expiry is None else expiry.columns
    needed = list(dict.fromkeys([*columns, *lookup_keys.filtered, *hiding]))
    rows = take_rows(found.opened, found.rows.source, found.rows.place, needed, table.schema)
    key = found.rows.key
    if expiry is not None and rows.num_rows:
        visible = ~expiry.mark_hidden(rows)
        if not visible.all():
            key, rows = key[visible], rows.filter(pa.array(visible))
    if lookup_keys.filtered:
        equal = np.ones(len(key), dtype=bool)
        for name in lookup_keys.filtered:
            requested = one_chunk(lookup_keys.table.column(name)).take(pa.array(key))
            equal &= equal_values(one_chunk(rows.column(name)), requested)
        if not equal.all():
            key, rows = key[equal], rows.filter(pa.array(equal))
    schema = build_answer_schema(table, columns)
    return key, pa.Table.from_arrays([rows.column(name) for name in columns], schema=schema)


def take_rows(
    opened: Sequence[Opened], source: np.ndarray, place: np.ndarray, columns: list[str], schema: pa.Schema
) -> pa.Table:
    """Return rows of several files in the given order; small files are put together first: one step for all of them."""
    count = np.bincount(source, minlength=len(opened))
    used = np.flatnonzero(count)
    if not len(used):
        return _read_columns(opened[0], columns, schema).slice(0, 0)
    if len(used) == 1:
        return _read_columns(opened[used[0]], columns, schema).take(pa.array(place))
    group, first = np.arange(len(opened)), np.zeros(len(opened), dtype=np.int64)
    files = {file: _read_columns(opened[file], columns, schema) for file in used.tolist()}
    small = [file for file in files if opened[file][0].size <= TOGETHER_BYTES]
    if len(small) > 1:
        together = [files.pop(file) for file in small]
        group[small] = small[0]
        first[small] = np.cumsum([0, *(part.num_rows for part in together[:-1])])
        files[small[0]] = pa.concat_tables(together)
    if len(files) == 1:
        return next(iter(files.values())).take(pa.array(place + first[source]))
    groups, places = group[source], place + first[source]
    order = argsort_stable(groups)
    ends = np.cumsum(np.bincount(groups, minlength=len(opened)))
    parts = [
        files[file].take(pa.array(places[order[ends[file - 1] if file else 0 : ends[file]]]))
        for file in sorted(files)
    ]
    back = np.empty(len(order), dtype=np.int64)
    back[order] = np.arange(len(order))
    return pa.concat_tables(parts).combine_chunks().take(to_positions(back))


def _read_columns(opened: Opened, columns: list[str], schema: pa.Schema) -> pa.Table:
    sst, file = opened
    return with_columns(file.rows, columns, schema, sst)


def build_answer_schema(table: Table, columns: Sequence[str]) -> pa.Schema:
    """Return the schema of found rows: any of them may be missing."""
    return pa.schema([table.schema.field(name).with_nullable(True) for name in columns])


def pad_rows(index: np.ndarray, rows: pa.Table, count: int) -> pa.Table:
    """Spread found rows over `count` keys: nulls where a key has no row; each key has one row at most."""
    places = np.full(count, -1, dtype=np.int64)
    places[index] = np.arange(len(index))
    return rows.take(to_positions(places, absent=places < 0)) if count else rows.slice(0, 0)

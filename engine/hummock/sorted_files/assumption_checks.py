"""The check of each claim by which the storage engine leaves work out against the data (`engine/assumptions.py`,
`TIDELINE_VERIFY`).

A check costs what was left out. It raises ClaimBroken: for what is written before its commit is visible, else at the read that
relies on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.arrow import as_rows, to_mask
from engine.assumptions import (
    CACHED,
    COMPACTED,
    DESCRIBED,
    FIRST_ROWS,
    MOVED,
    NEW_KEYS,
    REPLACED,
    ROW_GROUPS,
    ROWS_AT_MOST,
    SORTED,
    UNCHANGED,
)
from engine.errors import CorruptObject
from engine.hummock.rows.fingerprint import add_fingerprints, decode_fingerprint
from engine.hummock.rows.ordering import equal_values, one_chunk, order_by_key
from engine.hummock.sorted_files.file_fingerprints import compute_row_fingerprint
from engine.hummock.sorted_files.sst import SortedValues
from engine.hummock.version import HASH, OP, ROW_EPOCH, Run, SstInfo, Table
from engine.verification import build_assumption_error

Parts = Iterable[pa.Table]
Find = Callable[[pa.Table], tuple[np.ndarray, pa.Table]]


def check_new_keys(name: str, sst: SstInfo, keys: pa.Table, find: Find) -> None:
    """Check `NEW_KEYS` of a file with these primary keys; `find` looks them up in the version before."""
    if sst.tombstones:
        raise build_assumption_error(NEW_KEYS, f"table {name}: {sst.path} holds {sst.tombstones} deletions")
    index, _ = find(keys)
    if len(index):
        first = as_rows(keys.slice(int(index[0]), 1))[0]
        raise build_assumption_error(
            NEW_KEYS, f"table {name}: {len(index)} keys of {sst.path} stood in it, the first is {first}"
        )


def check_replaced(table: Table, ssts: Sequence[SstInfo], stored: pa.Table) -> None:
    """Check `REPLACED` of the files of one commit that name what they replace: `stored` are the rows under their keys before."""
    named = add_fingerprints(decode_fingerprint(sst.replaced or b"") for sst in ssts)
    found = compute_row_fingerprint(table, stored)
    if named != found:
        first = as_rows(stored.slice(0, 1))[0] if stored.num_rows else "no row"
        raise build_assumption_error(
            REPLACED,
            f"table {table.name}: {', '.join(sst.path for sst in ssts)} replace {stored.num_rows} rows, first {first}; their "
            f"fingerprint is {found:032x}, not {named:032x}",
        )


def check_sorted(rows: pa.Table) -> None:
    """Check `SORTED` of rows in the form of files."""
    stored = one_chunk(rows.column(HASH)).to_numpy()
    keys = rows.select(rows.column_names[1 : rows.column_names.index(OP)])
    order, first = order_by_key(stored, keys)
    if not (order[1:] > order[:-1]).all() or (stored[1:] < stored[:-1]).any():
        at = int(np.flatnonzero(order != np.arange(len(order)))[0])
        raise build_assumption_error(SORTED, f"row {at} is out of order: {as_rows(keys.slice(at, 1))[0]}")
    if not first.all():
        at = int(np.flatnonzero(~first)[0])
        raise build_assumption_error(SORTED, f"the key {as_rows(keys.slice(at, 1))[0]} occurs twice")


def check_described(info: SstInfo, rows: pa.Table) -> None:
    """Check `DESCRIBED` of a decoded file."""
    stored = one_chunk(rows.column(HASH)).to_numpy()
    found: dict[str, object] = {
        "rows": rows.num_rows,
        "min_hash": int(stored[0]),
        "max_hash": int(stored[-1]),
        "tombstones": int(pc.sum(rows.column(OP)).as_py() or 0),
    }
    said: dict[str, object] = {name: getattr(info, name) for name in found}
    if info.oldest is not None and ROW_EPOCH in rows.column_names:
        said["oldest"], found["oldest"] = info.oldest, pc.min(rows.column(ROW_EPOCH)).as_py()
    if said != found:
        raise build_assumption_error(
            DESCRIBED, f"{info.path} at {info.offset}: the manifest says {said}, it holds {found}"
        )


def check_cached(info: SstInfo, cached: pa.Table, decode: Callable[[], pa.Table]) -> None:
    """Check `CACHED` of a file; one whose object is collected cannot be compared any more."""
    try:
        rows = decode()
    except CorruptObject:
        return
    if not is_same_rows(cached, rows):
        raise build_assumption_error(
            CACHED, f"the cached file of {info.path} at {info.offset} holds other rows"
        )


def check_row_groups(info: SstInfo, some: pa.Table, whole: pa.Table, by: str, values: SortedValues) -> None:
    """Check `ROW_GROUPS` of the row groups `some` that were read for the `values` of column `by`."""
    sought = pa.array(list(values), whole.schema.field(by).type)
    counts = [int(np.count_nonzero(to_mask(pc.is_in(rows.column(by), sought)))) for rows in (some, whole)]
    if counts[0] != counts[1]:
        raise build_assumption_error(
            ROW_GROUPS, f"{info.path}: {counts[1]} rows are looked for, {counts[0]} are in what was read"
        )


def check_hash_range(info: SstInfo, some: pa.Table, whole: pa.Table, hash_range: tuple[int, int]) -> None:
    """Check `ROW_GROUPS` of the row groups `some` that were read for an inclusive range of hashes."""
    low, high = hash_range
    stored = [one_chunk(rows.column(HASH)).to_numpy() for rows in (some, whole)]
    counts = [int(np.count_nonzero((hashes >= low) & (hashes <= high))) for hashes in stored]
    if counts[0] != counts[1]:
        raise build_assumption_error(
            ROW_GROUPS,
            f"{info.path}: {counts[1]} rows lie in {low} to {high}, {counts[0]} are in what was read",
        )


def check_unchanged(name: str, after: int, upto: int, before: Parts, now: Parts) -> None:
    """Check `UNCHANGED` of a table whose rows at both epochs are given in order."""
    if not is_same_rows(_concatenate(before), _concatenate(now)):
        raise build_assumption_error(
            UNCHANGED, f"table {name} has other rows at epoch {upto} than at {after}"
        )


def check_moved(name: str, run: Run, decode: Callable[[SstInfo], np.ndarray]) -> None:
    """Check `MOVED` of files in the order of their ranges; `decode` gives a file's hashes."""
    last: int | None = None
    for sst in run:
        hashes = decode(sst)
        if last is not None and int(hashes.min()) <= last:
            raise build_assumption_error(
                MOVED, f"table {name}: {sst.path} begins at or below the hash {last} of the one before"
            )
        last = int(hashes.max())


def check_compacted(name: str, before: Parts, after: Parts) -> None:
    """Check `COMPACTED` of a table whose rows, without what its expiry hides, are given in order."""
    old, new = _concatenate(before), _concatenate(after)
    if not is_same_rows(old, new):
        raise build_assumption_error(
            COMPACTED, f"table {name}: {old.num_rows} rows before, {new.num_rows} after, or other values"
        )


def check_rows_at_most(name: str, rows: int, runs: Sequence[Run]) -> None:
    """Check `ROWS_AT_MOST` after a whole scan of `runs` that gave so many rows."""
    most = sum(sst.rows - sst.tombstones for run in runs for sst in run)
    if rows > most:
        raise build_assumption_error(ROWS_AT_MOST, f"table {name} has {rows} rows, its files {most} puts")


def check_first_rows(
    table: Table, index: np.ndarray, found: pa.Table, looked_up: tuple[np.ndarray, pa.Table], last: bool
) -> None:
    """Check `FIRST_ROWS` against all rows of the keys, which a lookup gives in the order of the primary key."""
    key, rows = looked_up
    edge = np.append(key[1:] != key[:-1], True) if last else np.append(True, key[1:] != key[:-1])
    edge = edge[: len(key)]
    expected = rows.filter(pa.array(edge)).select(found.column_names)
    if not np.array_equal(key[edge], index) or not is_same_rows(expected, found):
        raise build_assumption_error(
            FIRST_ROWS,
            f"table {table.name}: {found.num_rows} rows were found, {expected.num_rows} stand first",
        )


def is_same_rows(one: pa.Table, other: pa.Table) -> bool:
    """Tell whether two tables have the same rows in the same order; null equals null, NaN equals NaN."""
    if one.num_rows != other.num_rows or set(one.column_names) != set(other.column_names):
        return one.num_rows == 0 and other.num_rows == 0
    return all(
        bool(np.all(equal_values(one_chunk(one.column(name)), one_chunk(other.column(name)))))
        for name in one.column_names
    )


def _concatenate(parts: Parts) -> pa.Table:
    gathered = [part for part in parts if part.num_rows]
    return pa.concat_tables(gathered).combine_chunks() if gathered else pa.table({})

"""The change log: the newest row per key of the log entries in a range, set against the row that a reader saw
before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from engine.arrow import Column, positions
from engine.hummock.expiry import expiry_at
from engine.hummock.files import FileSet
from engine.hummock.look_ahead import loading
from engine.hummock.lookup import answer_schema, find_rows, wanted_keys
from engine.hummock.merge import HashRange, merged_parts, sources_of
from engine.hummock.ordering import equal_values, one_chunk
from engine.hummock.passing import WAS, Beside, old_rows, tells_old_rows, was
from engine.hummock.verified import check_no_change
from engine.hummock.version import HASH, OP, LogEntry, TableVersion
from engine.verification import verifying

WEIGHT = "_w"
NAMES = ("insert", "update", "delete")


@dataclass(frozen=True)
class NetChanges:
    """Net changes of some keys: `rows` with `_op`, and at `index` (ascending) of them the old rows; no-ops
    are left out.
    """

    rows: pa.Table
    index: np.ndarray
    old: pa.Table


def net_changes(
    files: FileSet,
    table: TableVersion,
    after: int,
    upto: int,
    columns: Sequence[str],
    hash_range: HashRange | None,
) -> Iterator[NetChanges]:
    """Yield the net changes of `table` in (after, upto], looked at through `columns`; raises EpochExpired."""
    entries = table.changes(after, upto)
    if not entries:
        if after < upto and verifying():
            check_no_change(files, table, after, upto)
        return
    if table.table.options.passes:
        yield from _passed(files, table, entries, columns, hash_range)
        return
    before = table.as_of(after)
    primary_key = table.primary_key
    expiry, expired_before = expiry_at(table, upto), expiry_at(table, after)
    hides_nothing = (
        expiry is None and expired_before is None
    )  # else a row that is hidden now may have been seen
    hiding = [] if expiry is None else expiry.columns
    needed = list(dict.fromkeys([HASH, *primary_key, OP, *columns, *hiding]))
    newest_first = sources_of([entry.ssts for entry in reversed(entries)])
    parts = merged_parts(
        newest_first,
        loading(files, needed, table.schema),
        primary_key,
        hash_range,
        keep_tombstones=True,
        expiry=expiry,
    )
    shown = list(columns) or list(primary_key[:1])  # a table without columns would lose its row count
    inserts = hides_nothing and all(sst.new_keys for entry in entries for sst in entry.ssts)
    for rows in parts:
        if inserts:
            none = answer_schema(table.table, shown).empty_table()
            yield NetChanges(rows, np.empty(0, dtype=np.int64), none)
            continue
        wanted = wanted_keys(table.table, rows.select(list(primary_key)), null_safe=True)
        index, old = find_rows(files, table.table, before, wanted, shown, expired_before)
        changed = _without_no_ops(rows, index, old, columns)
        if changed.rows.num_rows:
            yield changed


def _passed(
    files: FileSet,
    table: TableVersion,
    entries: Sequence[LogEntry],
    columns: Sequence[str],
    hash_range: HashRange | None,
) -> Iterator[NetChanges]:
    """Yield the net changes of a table that keeps no rows: a key's newest row, and the old one that its oldest change tells."""
    told, key = tells_old_rows(table), table.primary_key
    needed = list(dict.fromkeys([HASH, *key, OP, *columns]))

    def parts(newest_first: Sequence[LogEntry], names: list[str]) -> Iterator[pa.Table]:
        ssts = sources_of([entry.ssts for entry in newest_first])
        return merged_parts(ssts, loading(files, names, table.schema), key, hash_range, keep_tombstones=True)

    before = [HASH, *key, OP, *(name for name in map(was, columns) if name in table.schema.names)]
    oldest = Beside(parts(entries, [*before, WAS])) if told else None
    shown = list(columns) or list(key[:1])
    for rows in parts(entries[::-1], needed):
        if oldest is None:
            none = answer_schema(table.table, shown).empty_table()
            yield NetChanges(rows, np.empty(0, dtype=np.int64), none)
            continue
        index, old = old_rows(oldest.take(rows.num_rows), rows, shown)
        changed = _without_no_ops(rows, index, old, columns)
        if changed.rows.num_rows:
            yield changed


def _without_no_ops(rows: pa.Table, index: np.ndarray, old: pa.Table, columns: Sequence[str]) -> NetChanges:
    deletes = rows.column(OP).to_numpy() != 0
    known = np.zeros(rows.num_rows, dtype=bool)
    known[index] = True
    same = ~deletes[index]
    if same.any():
        for name in columns:
            mine = one_chunk(rows.column(name)).take(pa.array(index))
            same &= equal_values(mine, one_chunk(old.column(name)))
    idle = deletes & ~known
    idle[index[same]] = True
    if not idle.any():
        return NetChanges(rows, index, old)
    moved = np.cumsum(~idle) - 1
    rows = rows.take(positions(np.flatnonzero(~idle)))
    return NetChanges(rows, moved[index[~same]], old.filter(pa.array(~same)))


def as_weights(change: NetChanges, table: TableVersion, columns: Sequence[str]) -> pa.Table:
    """Return changes as a Z-set: the row's columns and `_w`, -1 for old rows and +1 for new ones."""
    puts = np.flatnonzero(change.rows.column(OP).to_numpy() == 0)
    new = change.rows.select(list(columns)).take(positions(puts))
    weight = np.concatenate([np.full(len(change.index), -1), np.full(len(puts), 1)])
    fields = [table.schema.field(name).with_nullable(True) for name in columns]
    arrays = [
        pa.chunked_array([*change.old.column(name).chunks, *new.column(name).chunks], field.type)
        for name, field in zip(columns, fields, strict=True)
    ]
    schema = pa.schema([*fields, pa.field(WEIGHT, pa.int64())])
    return pa.Table.from_arrays([*arrays, pa.chunked_array([pa.array(weight, pa.int64())])], schema=schema)


def as_log(change: NetChanges, table: TableVersion) -> pa.Table:
    """Return changes as log rows: `_op`, the new row (of a deletion only its key), and `_old_<column>` for
    every column.
    """
    n = change.rows.num_rows
    deletes = change.rows.column(OP).to_numpy() != 0
    known = np.zeros(n, dtype=bool)
    known[change.index] = True
    codes = np.where(deletes, 2, known.astype(np.int8))
    operations = pa.array(NAMES).take(positions(codes))
    places = np.full(n, -1, dtype=np.int64)
    places[change.index] = np.arange(len(change.index))
    old = change.old.take(positions(places, absent=places < 0))
    present = positions(np.arange(n), absent=deletes)
    new = change.rows.take(present) if deletes.any() else change.rows
    keys = set(table.primary_key)
    names = table.schema.names
    arrays: list[Column] = [
        operations,
        *((change.rows if name in keys else new).column(name) for name in names),
    ]
    arrays += [old.column(name) for name in names]
    fields = [table.schema.field(name).with_nullable(True) for name in names]
    schema = pa.schema([pa.field(OP, pa.string()), *fields, *(f.with_name(f"_old_{f.name}") for f in fields)])
    return pa.Table.from_arrays(arrays, schema=schema)

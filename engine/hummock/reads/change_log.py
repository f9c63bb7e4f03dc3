"""The change log: the newest row per key of the log entries in a range, set against the row that a reader saw
before it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from engine.arrow import Column, to_positions
from engine.hummock.manifests.pass_through import (
    WAS,
    OldestChanges,
    has_old_rows,
    old_column,
    select_old_rows,
)
from engine.hummock.reads.look_ahead import build_loader
from engine.hummock.reads.lookup import (
    FoundRows,
    LookupKeys,
    build_answer_schema,
    prepare_keys,
    read_found,
    search_rows,
)
from engine.hummock.reads.merge import HashRange, list_newest_first, merge_parts
from engine.hummock.reads.verify_assumptions import check_known_places, check_no_change
from engine.hummock.rows.expiry import expiry_at
from engine.hummock.rows.ordering import identical_values, one_chunk
from engine.hummock.sorted_files.file_set import FileSet
from engine.hummock.version import HASH, OP, LogEntry, Run, SstInfo, Table, TableVersion
from engine.verification import should_verify

WEIGHT = "_w"
NAMES = ("insert", "update", "delete")
MOST_SHARED = 10_000
"""The places of so many old rows at most are kept for other readers of a change."""


@dataclass(frozen=True)
class NetChanges:
    """Net changes of some keys: `rows` with `_op`, and at `index` (ascending) of them the old rows; no-ops
    are left out.
    """

    rows: pa.Table
    index: np.ndarray
    old: pa.Table


class OldRowSearch:
    """The search for the old rows of a change, which its readers in a process share: each reads other columns of the same rows.

    A change is named by its files, newest first, and what stood there before it, by the files of `before`. One that is given
    without its files, as rows of it may be hidden, is searched by each reader.
    """

    def __init__(
        self,
        files: FileSet,
        table: Table,
        before: Sequence[Run],
        changed: Sequence[SstInfo] | None,
    ) -> None:
        self._files, self._table, self._before, self._changed = files, table, before, changed

    @cached_property
    def _change(self) -> tuple[Hashable, ...] | None:
        if self._changed is None:
            return None
        files = (
            tuple(sst.sst_id for sst in ssts) for ssts in (self._changed, list_newest_first(self._before))
        )
        return self._table.name, *files

    def find(self, keys: LookupKeys) -> FoundRows:
        """Return where the old rows of `keys` stand: all keys of the change from the first one's hash to the last's."""
        hashes = keys.hashes
        if self._change is None or not 0 < len(hashes) <= MOST_SHARED:
            return search_rows(self._files, self._table, self._before, keys)
        answers, asked = self._files.recent_answers, (*self._change, int(hashes[0]), int(hashes[-1]))
        known: FoundRows | None = answers.find(asked)
        if known is None:
            found = search_rows(self._files, self._table, self._before, keys)
            answers.add(asked, found, found.held_bytes)
            return found
        if should_verify():
            searched = search_rows(self._files, self._table, self._before, keys)
            check_known_places(self._table.name, known, searched)
        return known


def read_net_changes(
    files: FileSet,
    table: TableVersion,
    after: int,
    upto: int,
    columns: Sequence[str],
    hash_range: HashRange | None,
) -> Iterator[NetChanges]:
    """Yield the net changes of `table` in (after, upto], looked at through `columns`; raises EpochExpired."""
    entries = table.list_changes(after, upto)
    if not entries:
        if after < upto and should_verify():
            check_no_change(files, table, after, upto)
        return
    if table.table.options.passes:
        yield from _read_pass_through(files, table, entries, columns, hash_range)
        return
    before = table.as_of(after)
    primary_key = table.primary_key
    expiry, expired_before = expiry_at(table, upto), expiry_at(table, after)
    hides_nothing = (
        expiry is None and expired_before is None
    )  # else a row that is hidden now may have been seen
    hiding = [] if expiry is None else expiry.columns
    needed = list(dict.fromkeys([HASH, *primary_key, OP, *columns, *hiding]))
    newest_first = list_newest_first([entry.ssts for entry in reversed(entries)])
    search = OldRowSearch(files, table.table, before, newest_first if hides_nothing else None)
    parts = merge_parts(
        newest_first,
        build_loader(files, needed, table.schema),
        primary_key,
        hash_range,
        keep_tombstones=True,
        expiry=expiry,
    )
    old_columns = list(columns) or list(primary_key[:1])  # a table without columns would lose its row count
    inserts = hides_nothing and all(sst.new_keys for entry in entries for sst in entry.ssts)
    for rows in parts:
        if inserts:
            none = build_answer_schema(table.table, old_columns).empty_table()
            yield NetChanges(rows, np.empty(0, dtype=np.int64), none)
            continue
        keys, hashes = rows.select(list(primary_key)), rows.column(HASH).to_numpy()
        lookup_keys = prepare_keys(table.table, keys, null_safe=True, hashes=hashes)
        found = search.find(lookup_keys)
        index, old = read_found(table.table, lookup_keys, found, old_columns, expired_before)
        changed = drop_no_ops(NetChanges(rows, index, old), columns)
        if changed.rows.num_rows:
            yield changed


def _read_pass_through(
    files: FileSet,
    table: TableVersion,
    entries: Sequence[LogEntry],
    columns: Sequence[str],
    hash_range: HashRange | None,
) -> Iterator[NetChanges]:
    """Yield the net changes of a table that keeps no rows: a key's newest row, and the old one that its oldest change tells."""
    has_old, key = has_old_rows(table), table.primary_key
    needed = list(dict.fromkeys([HASH, *key, OP, *columns]))

    def read_parts(newest_first: Sequence[LogEntry], names: list[str]) -> Iterator[pa.Table]:
        ssts = list_newest_first([entry.ssts for entry in newest_first])
        return merge_parts(
            ssts, build_loader(files, names, table.schema), key, hash_range, keep_tombstones=True
        )

    before = [HASH, *key, OP, *(name for name in map(old_column, columns) if name in table.schema.names)]
    oldest = OldestChanges(read_parts(entries, [*before, WAS])) if has_old else None
    old_columns = list(columns) or list(key[:1])
    for rows in read_parts(entries[::-1], needed):
        if oldest is None:
            none = build_answer_schema(table.table, old_columns).empty_table()
            yield NetChanges(rows, np.empty(0, dtype=np.int64), none)
            continue
        index, old = select_old_rows(oldest.take(rows.num_rows), rows, old_columns)
        changed = drop_no_ops(NetChanges(rows, index, old), columns)
        if changed.rows.num_rows:
            yield changed


def drop_no_ops(change: NetChanges, columns: Sequence[str]) -> NetChanges:
    """Return changes without those that `columns` do not show, and without deletions of what was not there."""
    rows, index, old = change.rows, change.index, change.old
    deletes = rows.column(OP).to_numpy() != 0
    known = np.zeros(rows.num_rows, dtype=bool)
    known[index] = True
    same = ~deletes[index]
    if same.any():
        for name in columns:
            mine = one_chunk(rows.column(name)).take(pa.array(index))
            same &= identical_values(mine, one_chunk(old.column(name)))
    idle = deletes & ~known
    idle[index[same]] = True
    if not idle.any():
        return change
    moved = np.cumsum(~idle) - 1
    rows = rows.take(to_positions(np.flatnonzero(~idle)))
    return NetChanges(rows, moved[index[~same]], old.filter(pa.array(~same)))


def as_weights(change: NetChanges, table: TableVersion, columns: Sequence[str]) -> pa.Table:
    """Return changes as a Z-set: the row's columns and `_w`, -1 for old rows and +1 for new ones."""
    puts = np.flatnonzero(change.rows.column(OP).to_numpy() == 0)
    new = change.rows.select(list(columns)).take(to_positions(puts))
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
    operations = pa.array(NAMES).take(to_positions(codes))
    places = np.full(n, -1, dtype=np.int64)
    places[change.index] = np.arange(len(change.index))
    old = change.old.take(to_positions(places, absent=places < 0))
    present = to_positions(np.arange(n), absent=deletes)
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

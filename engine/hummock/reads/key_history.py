"""The history of one row: what stood under its key at each epoch of the change log, without reading other rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from engine.hummock.epoch import COUNTER_BITS
from engine.hummock.reads.look_ahead import LookAhead
from engine.hummock.reads.lookup import (
    LookupKeys,
    Opened,
    build_answer_schema,
    open_for_keys,
    prepare_keys,
    search_file,
    take_rows,
)
from engine.hummock.reads.merge import list_newest_first
from engine.hummock.rows.expiry import expiry_at
from engine.hummock.rows.ordering import one_chunk
from engine.hummock.sorted_files.file_set import FileSet
from engine.hummock.version import ROW_EPOCH, Run, TableVersion

Cause = Literal["write", "watermark", "time to live"]


@dataclass(frozen=True)
class RowState:
    """What stands under a key from an epoch on: `row` is its place among the rows of the history, None where it has none."""

    epoch: int
    row: int | None
    cause: Cause = "write"


@dataclass(frozen=True)
class KeyHistory:
    """The states of one key, oldest first; the first is that of the epoch from which on it is known."""

    states: tuple[RowState, ...]
    rows: pa.Table

    @property
    def known_from(self) -> int:
        """The epoch from which on the history is known."""
        return self.states[0].epoch


@dataclass(frozen=True)
class _Written:
    """What a commit wrote under the key: a row at a place of a file, or a deletion."""

    epoch: int
    source: int
    place: int
    deleted: bool


def read_key_history(
    files: FileSet, table: TableVersion, key: pa.Table, span: tuple[int, int], columns: Sequence[str]
) -> KeyHistory:
    """Return the history of the one whole key in `key` within `span`, epochs that can be read, first and last.

    Each file of the log whose hashes include the key's is searched once. Raises EpochExpired.
    """
    since, upto = span
    start = table.safe_epoch
    lookup_keys = prepare_keys(table.table, key, null_safe=True)
    entries = [(entry.epoch, entry.ssts) for entry in reversed(table.list_changes(start, upto))]
    opened: list[Opened] = []
    written = [*_find_each(files, lookup_keys, entries, opened)]
    oldest = [(start, run) for run in table.as_of(start)]
    first = next(_find_each(files, lookup_keys, oldest, opened), None)
    written = [*([] if first is None else [first]), *reversed(written)]
    options = table.table.options
    hiding = [] if options.ttl_seconds is None else [ROW_EPOCH]
    hiding += [] if options.watermark_column is None else [options.watermark_column]
    names = list(dict.fromkeys([*columns, *hiding]))
    puts = [one for one in written if not one.deleted]
    if not puts:
        return KeyHistory((RowState(max(since, start), None),), _take(table, opened, puts, columns))
    rows = _take(table, opened, puts, names)
    states = _Timeline(table, written, rows).list_states(max(since, start), upto)
    return KeyHistory(states, rows.select(list(columns)))


def _find_each(
    files: FileSet, lookup_keys: LookupKeys, runs: Sequence[tuple[int, Run]], opened: list[Opened]
) -> Iterator[_Written]:
    """Yield what each run has under the key, if anything; files that have it are added to those that are `opened`."""
    ssts = list_newest_first([run for _, run in runs])
    epochs = [epoch for epoch, run in runs for _ in run]
    ahead, order = LookAhead(files), lookup_keys.asking
    for at, sst in enumerate(ssts):
        file = open_for_keys(ahead, ssts, at, lookup_keys, order)
        if file is None:
            continue
        _, place = search_file(file, lookup_keys, order)
        if len(place):
            opened.append((sst, file))
            found = int(place[0])
            yield _Written(epochs[at], len(opened) - 1, found, bool(file.operations[found] != 0))


def _take(
    table: TableVersion, opened: list[Opened], written: Sequence[_Written], columns: Sequence[str]
) -> pa.Table:
    schema = build_answer_schema(table.table, [name for name in columns if name in table.schema.names])
    if not written:
        return schema.empty_table()
    sources = np.array([one.source for one in written], dtype=np.int64)
    places = np.array([one.place for one in written], dtype=np.int64)
    return take_rows(opened, sources, places, list(columns), table.schema)


@dataclass(frozen=True)
class _Timeline:
    """What was written under a key, oldest first, and the rows of it that are no deletions."""

    table: TableVersion
    written: Sequence[_Written]
    rows: pa.Table

    def list_states(self, since: int, upto: int) -> tuple[RowState, ...]:
        """Return the states between two epochs, the first one included."""
        at_epoch: dict[int, int | None] = {}
        count = 0
        for one in self.written:
            at_epoch[one.epoch] = None if one.deleted else count
            count += not one.deleted
        moments = {since, *at_epoch, *self._list_hiding_epochs()}
        states: list[RowState] = []
        current: int | None = None
        for epoch in sorted(moment for moment in moments if moment <= upto):
            current = at_epoch.get(epoch, current)
            shown = None if current is None or self._hides(current, epoch) else current
            if epoch <= since:
                states = [RowState(since, shown)]
            elif states[-1].row != shown:
                states.append(RowState(epoch, shown, self._find_cause(epoch, at_epoch, current)))
        return tuple(states)

    def _list_hiding_epochs(self) -> list[int]:
        """Return the epochs at which rows may hide by themselves."""
        found = [epoch for epoch, _ in self.table.watermarks]
        seconds = self.table.table.options.ttl_seconds
        if seconds is not None:
            born = one_chunk(self.rows.column(ROW_EPOCH)).to_numpy()
            found += [(int(at) + int(seconds * 1000)) << COUNTER_BITS for at in born]
        return found

    def _hides(self, row: int, epoch: int) -> bool:
        expiry = expiry_at(self.table, epoch)
        return expiry is not None and bool(expiry.mark_hidden(self.rows.slice(row, 1))[0])

    def _find_cause(self, epoch: int, at_epoch: dict[int, int | None], current: int | None) -> Cause:
        if epoch in at_epoch and (current is None or not self._hides(current, epoch)):
            return "write"
        expiry = expiry_at(self.table, epoch)
        if expiry is not None and expiry.born_upto_ms is not None and current is not None:
            born = int(one_chunk(self.rows.column(ROW_EPOCH)).to_numpy()[current])
            if born <= expiry.born_upto_ms:
                return "time to live"
        return "watermark"

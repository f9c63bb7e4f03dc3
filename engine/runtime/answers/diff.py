"""What changed in a table or view between two moments, or would change by its next query: counts, and rows with the old ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import msgspec
import numpy as np
import pyarrow as pa

from engine.arrow import Column, to_positions
from engine.errors import SqlError
from engine.hummock import Hummock
from engine.hummock.epoch import format_epoch
from engine.hummock.version import OP
from engine.log_store.change_counts import ChangeCounts
from engine.log_store.changes import DELETE, Changes
from engine.runtime.answers.stored_rows import StoredRows
from engine.runtime.statements.create.view_change import compare_columns
from engine.runtime.statements.succession.gate import list_shared_columns, read_difference, read_pending
from engine.sql.column_names import to_storage_name

MOST_ROWS = 1000
"""So many changed rows are held, unless a caller asks for another number."""
OLD = "_old_"
Way = Literal["log", "snapshots"]


@dataclass(frozen=True)
class _Comparison:
    """A table or view, and the two epochs that are compared; or a view and its `successor`, at one epoch."""

    stored: StoredRows
    first: int
    last: int
    by: Way | None = None
    successor: str = ""
    not_compared: tuple[str, ...] = ()

    def read(self) -> Iterator[Changes]:
        """Yield the net changes between the epochs, or to the successor, through the shown columns, in parts of bounded size."""
        columns, store = self.stored.shown, self.stored.store
        if self.successor:
            version, view = self.stored.version, self.stored.relation
            yield from read_difference(store, version, view, self.successor, self.first)
            return
        for change in store.reader.compare(
            self.stored.table, self.first, self.last, columns=columns, by=self.by
        ):
            yield Changes.of(change, columns)

    def show(self, changes: Changes) -> pa.Table:
        """Return changes as users see them: the operation, the row, of a deletion the key's columns only, and the row before."""
        key, count = set(self.stored.relation.primary_key), len(changes)
        present = to_positions(np.arange(count), absent=changes.operations == DELETE)
        fields = [pa.field(OP, pa.string())]
        arrays: list[Column] = [changes.name_operations()]
        for sign, rows in (("", changes.rows), (OLD, changes.old)):
            for column in self.stored.relation.columns:
                if column.hidden:
                    continue
                values: Column = rows.column(column.storage_name)
                if not sign and column.storage_name not in key:
                    values = values.take(present)
                kind = self.stored.table.schema.field(column.storage_name).type
                fields.append(pa.field(sign + name_column(column.name), kind))
                arrays.append(values)
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))

    def show_none(self) -> pa.Table:
        """Return no changes, with the columns of some."""
        empty = self.stored.table.schema.empty_table().select(self.stored.shown)
        return self.show(Changes(np.zeros(0, np.int8), empty, empty))


def name_column(name: str) -> str:
    """Return the name of a column among changed rows; one that means something else there has the one of the store."""
    return to_storage_name(name) if name == OP or name.startswith(OLD) else name


@dataclass(frozen=True, eq=False)
class TableDiff:
    """What changed in a table or view in (`from_epoch`, `to_epoch`], one net change a key, seen through today's columns.

    Of a view and its next query (`is_pending`) both epochs are the same one. `key` are the columns of its key, none where that is
    hidden. `changed_columns` says by column in how many `updated` rows it changed. `rows` are the first changed rows in the
    order of the store: `_op` (insert, update, delete), the columns, of a deletion the key's only, and `_old_<column>`. `iterate`
    reads all of them, batch by batch.
    """

    view: str
    from_epoch: int
    to_epoch: int
    key: tuple[str, ...]
    rows_before: int
    inserted: int
    deleted: int
    updated: int
    changed_columns: Mapping[str, int]
    rows: pa.Table
    reading: _Comparison = field(repr=False)

    @property
    def is_pending(self) -> bool:
        """Whether this compares a view with its next query."""
        return bool(self.reading.successor)

    @property
    def not_compared(self) -> tuple[str, ...]:
        """Which columns only one of two queries shows, or both by other types, each with what becomes of it."""
        return self.reading.not_compared

    @property
    def rows_after(self) -> int:
        """How many rows there are at the later epoch."""
        return self.rows_before + self.inserted - self.deleted

    @property
    def unchanged(self) -> int:
        """How many rows are the same at both epochs."""
        return self.rows_before - self.deleted - self.updated

    @property
    def changed(self) -> int:
        """How many rows are not."""
        return self.inserted + self.deleted + self.updated

    def iterate(self) -> Iterator[pa.RecordBatch]:
        """Yield all changed rows in the form of `rows`; they are read again, and none is kept."""
        for changes in self.reading.read():
            yield from self.reading.show(changes).to_batches()


def compare_moments(
    store: Hummock,
    view: str,
    moments: tuple[int | str, int | str | None],
    *,
    limit: int | None = MOST_ROWS,
    by: Way | None = None,
) -> TableDiff:
    """Return what changed in a table or view between two moments, each an epoch or a time, the second None for the newest.

    At most `limit` changed rows are held, None holds all. The change log is read, or both snapshots are compared, whichever
    costs less and tells all; `by` names one. Raises SqlError for what is no moment, has no content, or is the wrong way round,
    EpochExpired for what is not kept any more.
    """
    _check_limit(limit)
    stored = StoredRows.find(store, view)
    first, last = map(stored.find_epoch, moments)
    if first > last:
        raise SqlError(
            f"{format_epoch(first)} is later than {format_epoch(last)}", hint="name the earlier moment first"
        )
    return _summarize(_Comparison(stored, first, last, by), limit)


def compare_queries(store: Hummock, view: str, *, limit: int | None = MOST_ROWS) -> TableDiff:
    """Return by what the rows of a view's next query differ from those that it has, at the newest epoch of both.

    `limit` as of `compare_moments`. Raises SqlError where no next query waits to take over, or has been computed.
    """
    _check_limit(limit)
    version, stored, succession, epoch = read_pending(store, view)
    relation = stored.catalog.get(view)
    shared = list_shared_columns(version, relation, succession.successor)
    rows = StoredRows(store, version, stored, msgspec.structs.replace(relation, columns=shared))
    others = compare_columns(relation, stored.catalog.get(succession.successor))
    told = (
        *(f"{column} comes" for column in others.added),
        *(f"{column} goes" for column in others.dropped),
        *others.retyped,
    )
    return _summarize(
        _Comparison(rows, epoch, epoch, successor=succession.successor, not_compared=told), limit
    )


def _check_limit(limit: int | None) -> None:
    if limit is not None and limit < 0:
        raise SqlError(f"{limit} is no number of rows", hint="0 gives the summary alone, None all rows")


def _summarize(reading: _Comparison, limit: int | None) -> TableDiff:
    """Return what a comparison gives, with so many changed rows at most."""
    stored = reading.stored
    before = stored.store.reader.count_rows(stored.table, reading.first)
    count, held, left = ChangeCounts(columns=dict.fromkeys(stored.shown, 0)), [reading.show_none()], limit
    for changes in reading.read():
        count.add(changes)
        if left is None or left > 0:
            some = changes if left is None else changes.filter(np.arange(len(changes)) < left)
            held.append(reading.show(some))
            left = None if left is None else left - len(some)
    names = {column.storage_name: column.name for column in stored.relation.columns}
    return TableDiff(
        stored.relation.name,
        reading.first,
        reading.last,
        stored.key,
        before,
        count.inserted,
        count.deleted,
        count.updated,
        {names[name]: rows for name, rows in count.columns.items()},
        pa.concat_tables(held),
        reading,
    )

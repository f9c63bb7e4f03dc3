"""Net changes of a table between two epochs without its change log: the rows of both, side by side in (hash, key) order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from engine.arrow import to_positions
from engine.hummock.reads.change_log import NetChanges, drop_no_ops
from engine.hummock.reads.look_ahead import build_loader
from engine.hummock.reads.merge import HIGHEST, LOWEST, list_newest_first, merge_parts, slice_hashes
from engine.hummock.rows.expiry import expiry_at
from engine.hummock.rows.ordering import one_chunk, order_by_key
from engine.hummock.sorted_files.file_set import FileSet
from engine.hummock.sorted_files.sst import build_file_schema
from engine.hummock.version import HASH, OP, TableVersion


def compare_snapshots(
    files: FileSet, table: TableVersion, after: int, upto: int, columns: Sequence[str]
) -> Iterator[NetChanges]:
    """Yield the net changes of `table` in (after, upto], looked at through `columns`, as `read_net_changes` does.

    What rows hide by themselves counts. The cost follows the table, memory one part of its hashes. Raises EpochExpired.
    """
    yield from _compare_parts(*(_Parts(files, table, epoch, columns) for epoch in (after, upto)))


def compare_tables(
    files: FileSet,
    tables: tuple[TableVersion, TableVersion],
    epochs: tuple[int, int],
    columns: Sequence[str],
) -> Iterator[NetChanges]:
    """Yield by what the second table differs from the first, each at an epoch, as if its rows came after those of the first.

    Both have these columns, the same primary key and the same distribution key. The cost follows the tables. Raises
    EpochExpired.
    """
    yield from _compare_parts(
        *(_Parts(files, table, epoch, columns) for table, epoch in zip(tables, epochs, strict=True))
    )


def _compare_parts(before: _Parts, now: _Parts) -> Iterator[NetChanges]:
    while before.has_rows or now.has_rows:
        bound = min(before.last_hash, now.last_hash)
        changed = _compare_rows(before, before.take_upto(bound), now.take_upto(bound))
        if changed.rows.num_rows:
            yield changed


def is_log_too_long(table: TableVersion, after: int, upto: int) -> bool:
    """Tell whether the change log between two epochs costs more than both snapshots, or does not tell all: rows that hide by
    themselves are in none.
    """
    if expiry_at(table, after) is not None or expiry_at(table, upto) is not None:
        return True
    snapshots = sum(sst.rows for epoch in (after, upto) for run in table.as_of(epoch) for sst in run)
    return table.count_changed_rows(after, upto) > snapshots


class _Parts:
    """The rows of a table at an epoch, part by part: no hash is in two of them."""

    def __init__(self, files: FileSet, table: TableVersion, epoch: int, columns: Sequence[str]) -> None:
        expiry = expiry_at(table, epoch)
        hiding = [] if expiry is None else expiry.columns
        self.key, self.columns = table.primary_key, columns
        self._names = list(dict.fromkeys([HASH, *table.primary_key, OP, *columns]))
        needed = list(dict.fromkeys([*self._names, *hiding]))
        self._parts = merge_parts(
            list_newest_first(table.as_of(epoch)),
            build_loader(files, needed, table.schema),
            table.primary_key,
            None,
            keep_tombstones=False,
            expiry=expiry,
        )
        file_schema = build_file_schema(table.table)
        self._schema = pa.schema([file_schema.field(name) for name in self._names])
        self._rows = self._load_next()

    @property
    def has_rows(self) -> bool:
        """Whether rows are left."""
        return self._rows is not None

    @property
    def last_hash(self) -> int:
        """The hash up to which all rows are at hand."""
        return HIGHEST if self._rows is None else int(one_chunk(self._rows.column(HASH)).to_numpy()[-1])

    def take_upto(self, bound: int) -> pa.Table:
        """Return the rows that are left up to a hash, `last_hash` at most, and go on behind them."""
        if self._rows is None:
            return self._schema.empty_table()
        taken = slice_hashes(self._rows, LOWEST, bound)
        rest = self._rows.slice(taken.num_rows)
        self._rows = rest if rest.num_rows else self._load_next()
        return taken

    def _load_next(self) -> pa.Table | None:
        part = next(self._parts, None)
        return None if part is None else part.select(self._names).cast(self._schema)


def _compare_rows(parts: _Parts, before: pa.Table, now: pa.Table) -> NetChanges:
    """Return the changes between all rows of some hashes at two epochs, or in two tables; `parts` are those before."""
    key, columns = parts.key, parts.columns
    both = pa.concat_tables([before, now.cast(before.schema)]).combine_chunks()
    sources = np.repeat([0, 1], [before.num_rows, now.num_rows])
    order, first = order_by_key(both.column(HASH).to_numpy(), both.select(list(key)), sources)
    starts = np.flatnonzero(first[: len(order)])
    last = np.append(starts[1:], len(order)) - 1
    oldest, newest = order[starts], order[last]
    gone = sources[newest] == 0
    index = np.flatnonzero(sources[oldest] == 0)
    rows = both.take(to_positions(newest))
    rows = rows.set_column(
        rows.column_names.index(OP), both.schema.field(OP), pa.array(gone.astype(np.uint8), pa.uint8())
    )
    old = both.select(list(columns) or list(key[:1])).take(to_positions(oldest[index]))
    return drop_no_ops(NetChanges(rows, index, old), columns)

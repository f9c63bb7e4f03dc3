"""The first rows of groups by those that are stored: the change is held against them, and the other rows are not read.

Rule: a table of first rows holds of each group the first `limit` ones, or all that it has. So of a group's other rows none comes
before the last one that is stored. What stays of the stored rows and what comes not behind their last one are then the first rows
of the group, unless fewer than `limit` are left: only such a group is read anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from engine.arrow import to_positions
from engine.hummock import Reader
from engine.hummock.rows.key_numbers import deduplicate, find_members
from engine.operators.arrow.first_rows import hold_rows, join_batches
from engine.operators.arrow.ordered_rows import OrderedRows, Sorting
from engine.operators.flow import WEIGHT
from engine.operators.lookups.table_parameters import TableAt, TableSource
from engine.operators.materialize import OPERATION, net_by_key

SHORT = "_short"
"""The column that says whether a row stands for a group that has to be read anew; of it just the group's columns are there."""


@dataclass(frozen=True)
class MergeFirstRows:
    """A body: of the signed change of groups' rows the signed change of their first `limit` rows, which `source` stores.

    `columns` are (column of the change, stored column), `partition` and `key` those of the groups and of their rows. Of a group
    of which too few rows are known all stored rows go, and one row is SHORT.
    """

    url: str
    options: Mapping[str, Any]
    source: TableSource
    columns: tuple[tuple[str, str], ...]
    partition: tuple[str, ...]
    key: tuple[str, ...]
    sorting: Sorting
    limit: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        gathered = [batch for batch in hold_rows(batches) if batch.num_rows]
        if not gathered:
            return
        table = self.source.now()
        change = pa.Table.from_batches(gathered).combine_chunks()
        names = [name for name, _ in self.columns]
        rows = change.select(names)
        net, *_ = net_by_key(change.select([*names, WEIGHT]), self.key, table.version.name)
        stored = self._read_stored(table, rows)
        gone = find_members(stored.select(list(self.key)), net)
        come = net.filter(pa.array(net.column(OPERATION).to_numpy() == 0)).select(names)
        yield self._choose_rows(pa.concat_tables([stored, come]), stored.num_rows, gone)

    def _read_stored(self, table: TableAt, rows: pa.Table) -> pa.Table:
        """Return the stored rows of the groups of some rows, typed as these are."""
        assert table.old is not None
        reader, stored = Reader.open(self.url, self.options), dict(self.columns)
        columns = [*stored.values()]
        if self.partition:
            groups = deduplicate(rows.select(list(self.partition)))
            groups = groups.rename_columns([stored[name] for name in self.partition])
            parts = reader.lookup_in_parts(table.version, groups, table.old, columns=columns, null_safe=True)
            found = pa.concat_tables(hold_rows(some.select(columns) for _, some in parts))
        else:
            batches = reader.scan(table.version, table.old, columns=columns)
            schema = pa.schema([table.version.schema.field(name) for name in columns])
            found = pa.Table.from_batches(batches, schema)
        return found.rename_columns(rows.column_names).cast(rows.schema)

    def _choose_rows(self, rows: pa.Table, stored_rows: int, gone: np.ndarray) -> pa.RecordBatch:
        """Return the signed change; the first of the rows are stored, of which some are `gone`, the others come."""
        if not rows.num_rows:
            return self._build_change(rows.schema.empty_table(), *(np.empty(0, dtype=np.int64),) * 3)
        batch = join_batches(rows.to_batches())
        by = (*self.sorting.by, *self.sorting.last)  # only rows of one key are level
        ordered = OrderedRows.of(batch, self.partition, Sorting(by))
        order, places = ordered.order, np.arange(len(ordered.order))
        stored = order < stored_rows
        there = ~np.append(gone, np.zeros(len(order) - stored_rows, dtype=bool))[order]
        starts = np.flatnonzero(ordered.partition[0] == places)
        group = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(order))))
        full = np.add.reduceat(stored, starts, dtype=np.int64) >= self.limit
        last = np.maximum.reduceat(np.where(stored, ordered.peers[1], 0), starts)
        there &= ~full[group] | (places < last[group])
        short = full & (np.add.reduceat(there, starts, dtype=np.int64) < self.limit)
        before = np.cumsum(there) - there
        first = there & (before - before[starts][group] < self.limit) & ~short[group]
        change = [
            np.flatnonzero(stored & ~first),
            np.flatnonzero(~stored & first),
            starts[short],
        ]
        return self._build_change(rows, *(order[some] for some in change))

    def _build_change(
        self, rows: pa.Table, gone: np.ndarray, come: np.ndarray, short: np.ndarray
    ) -> pa.RecordBatch:
        taken = rows.take(to_positions(np.concatenate([gone, come, short])))
        arrays = list(taken.columns)
        weight = np.repeat([-1, 1, 0], [len(gone), len(come), len(short)]).astype(np.int64)
        arrays += [pa.chunked_array([pa.array(weight)]), pa.chunked_array([pa.array(weight == 0)])]
        made = pa.table(arrays, names=[*taken.column_names, WEIGHT, SHORT]).combine_chunks()
        return made.to_batches()[0] if made.num_rows else pa.RecordBatch.from_pylist([], made.schema)

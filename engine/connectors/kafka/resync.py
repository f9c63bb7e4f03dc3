"""All that a topic holds now against the rows of its table: what one commit writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from engine.connectors.formats.file_format import BadLine
from engine.connectors.kafka.client import MessageBatch, TopicState
from engine.connectors.kafka.writes import TypedMessages
from engine.hummock import Delete, Hummock, Put, TableVersion, xxhash64
from engine.hummock.reads.differences import find_other_keys, select_different
from engine.hummock.rows.ordering import order_by_key
from engine.hummock.writes.batch import Operation
from engine.runtime.rows import assign_row_ids
from engine.sql.catalog import ROW_ID

FOLD_BYTES = 64 << 20
"""So many bytes of rows gather before only the last one of each key is kept."""


@dataclass
class WholeTopic:
    """The messages of all partitions, read one after the other; of each key the last row counts.

    `read` gives what comes next of a partition on the way to an offset, `convert` the rows of it.
    """

    store: Hummock
    table: TableVersion
    topic: TopicState
    read: Callable[[int, int, int], MessageBatch]
    convert: Callable[[MessageBatch], TypedMessages]
    bad: list[tuple[int, BadLine]] = field(default_factory=list)
    ends: dict[int, int] = field(default_factory=dict)
    rows: int = 0

    def build_operations(self) -> Iterator[Operation]:
        """Yield what makes the table what the topic holds."""
        if ROW_ID in self.table.primary_key:
            yield from self._replace_bag()
            return
        key = list(self.table.primary_key)
        puts = self._fold_all()
        different = select_different(self.store, self.table, puts)
        gone = find_other_keys(self.store, self.table, [puts.select(key)])
        self.rows = different.num_rows + gone.num_rows
        if different.num_rows:
            yield Put(different)
        if gone.num_rows:
            yield Delete(gone)

    def _replace_bag(self) -> Iterator[Operation]:
        """Let all rows go, and take those of the topic: nothing tells which of them stood there before."""
        key = list(self.table.primary_key)
        for batch in self.store.reader.scan(self.table, self.table.committed_epoch, columns=key):
            self.rows += batch.num_rows
            yield Delete(batch)
        for typed in self._read_all():
            self.rows += typed.rows.num_rows
            yield Put(assign_row_ids(self.store, typed.rows))

    def _fold_all(self) -> pa.Table:
        held, gone, size = [self.table.schema.empty_table()], [np.zeros(0, dtype=bool)], 0
        for typed in self._read_all():
            held.append(typed.rows)
            gone.append(typed.deletes)
            size += typed.rows.nbytes
            if size > FOLD_BYTES + held[0].nbytes:
                rows, deletes = self._fold(pa.concat_tables(held), np.concatenate(gone))
                held, gone, size = [rows], [deletes], 0
        rows, deletes = self._fold(pa.concat_tables(held), np.concatenate(gone))
        return rows.filter(pa.array(~deletes))

    def _fold(self, rows: pa.Table, deletes: np.ndarray) -> tuple[pa.Table, np.ndarray]:
        """Return the last row of each key, and which of them are deletions."""
        keys = rows.select(list(self.table.primary_key))
        order, first = order_by_key(xxhash64(keys.columns), keys)
        last = np.sort(order[np.append(first[1:], True)]) if len(order) else order
        return rows.take(pa.array(last)), deletes[last]

    def _read_all(self) -> Iterator[TypedMessages]:
        for partition, span in self.topic.partitions.items():
            at = span.begin
            while at < span.end:
                batch = self.read(partition, at, span.end)
                at = batch.next
                typed = self.convert(batch)
                self.bad += [(partition, one) for one in typed.bad]
                yield typed
            self.ends[partition] = at

"""The first rows of partitions in an order: of rows that come batch by batch no more are held than may be among them.

>>> rows = pa.RecordBatch.from_pydict({"g": [1, 2, 1, 1], "n": [5, 7, 3, 4]})
>>> body = KeepFirstRows(("g",), Sorting((SortKey("n"),)), 0, 2)
>>> pa.Table.from_batches(body(iter([rows]))).to_pydict()
{'g': [2, 1, 1], 'n': [7, 3, 4]}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from engine.operators.arrow.expressions import Inexact
from engine.operators.arrow.ordered_rows import OrderedRows, Sorting
from engine.operators.arrow.over_windows import MOST_BYTES, MOST_ROWS, compile_sorting
from engine.operators.flow import Flow
from engine.sql.window_calls import SortKey

Part = TypeVar("Part", pa.RecordBatch, pa.Table)
TRIMMED_ROWS = 1 << 16
"""From so many rows on those that are too far behind are left out before more are read."""


@dataclass(frozen=True)
class KeepFirstRows:
    """A body: of all rows of a task, which hold whole partitions, those behind the first `offset` of each, `limit` at most."""

    partition: tuple[str, ...]
    sorting: Sorting
    offset: int
    limit: int | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: list[pa.RecordBatch] = []
        rows, size, trimmed_at = 0, 0, TRIMMED_ROWS
        for batch in batches:
            if not batch.num_rows:
                continue
            held.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows >= trimmed_at and self.limit is not None:
                kept = self._cut(held, 0, self.offset + self.limit)
                held, rows, size = [kept], kept.num_rows, kept.nbytes
                trimmed_at = max(TRIMMED_ROWS, 2 * rows)
            if rows > MOST_ROWS or size > MOST_BYTES:
                raise Inexact(f"first rows among {rows} rows and {size} bytes, or more, in one task")
        if held:
            yield self._cut(held, self.offset, None if self.limit is None else self.offset + self.limit)

    def _cut(self, batches: Sequence[pa.RecordBatch], start: int, end: int | None) -> pa.RecordBatch:
        """Return of each partition the rows from the one after `start` up to the one of number `end`, in the order given."""
        rows = join_batches(batches)
        numbers = OrderedRows.of(rows, self.partition, self.sorting).number_rows("row_number").to_numpy()
        kept = numbers > start
        if end is not None:
            kept &= numbers <= end
        return rows.filter(pa.array(kept))


def hold_rows(parts: Iterable[Part]) -> Iterator[Part]:
    """Yield parts of rows that one task holds; raises Inexact where they are too many: Spark, which can spill, orders them."""
    rows = size = 0
    for part in parts:
        rows, size = rows + part.num_rows, size + part.nbytes
        if rows > MOST_ROWS or size > MOST_BYTES:
            raise Inexact(f"first rows among {rows} rows and {size} bytes, or more, in one task")
        yield part


def join_batches(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the rows of some batches, at least one row, as one."""
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def keep_first_rows(
    rows: Flow,
    partition: tuple[str, ...],
    key: tuple[str, ...],
    order: tuple[SortKey, ...],
    bounds: tuple[int, int | None],
) -> Flow | None:
    """Return the rows behind the first so many of each partition, up to a limit, or None if Spark has to order them.

    `bounds` are the offset and the limit; rows that the order leaves level are told apart by the `key`.
    """
    sorting = compile_sorting(rows, partition, key, order)
    if sorting is None:
        return None
    return rows.then(KeepFirstRows(partition, sorting, *bounds), rows.schema)

"""The one stateful primitive: each row of a frame is joined with the stored rows that have its key, inside the task.

Method: hash-ordered state searched in place, as in Hummock's point reads; the cost follows the rows that ask, not the state.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pyspark.sql.types import BooleanType, StructField, StructType

from engine.arrow import make_nulls, to_mask, to_positions
from engine.hummock import Reader, TableVersion
from engine.hummock.reads.key_range import KeyRange
from engine.hummock.reads.lookup import MOST_MATCHES
from engine.hummock.rows.expiry import expiry_at
from engine.hummock.rows.ordering import equal_values, one_chunk
from engine.operators.context import At, EpochContext
from engine.operators.flow import SIDE, Flow, Rows
from engine.operators.lookups.table_parameters import TableAt, TableSource
from engine.spark_internals import derive_spark_schema

MOST_ROWS = 1 << 16
"""So many are looked up at once: a row may match many."""
End = Literal["first", "last"]


@dataclass(frozen=True)
class ProbeRange:
    """Bounds of a table's `column`, each a column of the asking frame; null holds nothing back. `includes` is as in Between."""

    column: str
    low: str | None = None
    high: str | None = None
    includes: tuple[bool, bool] = (True, True)

    def of(self, rows: pa.Table) -> KeyRange:
        """Return the bounds of the rows of a frame."""
        low, high = (rows.column(name) if name is not None else None for name in (self.low, self.high))
        return KeyRange(self.column, low, high, self.includes)


@dataclass(frozen=True)
class Probe:
    """Which stored rows the rows of a frame find: those of which the columns in `pairs` = (frame column, theirs) are equal.

    Without pairs each finds all rows, or with an `end` any of them.
    `at` picks the epoch: old, new, or by the row's `_side` column (0 old, 1 new). Rows whose `given` is false find nothing;
    with `null_safe` two nulls are equal; with an `end` just the first or the last of the rows is found. `within` are bounds of
    the key column that follows.
    """

    pairs: tuple[tuple[str, str], ...]
    at: At
    guard: str | None = None
    null_safe: bool = False
    end: End | None = None
    within: ProbeRange | None = None


@dataclass(frozen=True)
class LookupTable:
    """A task's body: adds the matching rows' columns and a hit flag; a row without a match stays once, with nulls."""

    url: str
    options: Mapping[str, Any]
    source: TableSource
    probe: Probe
    items: tuple[tuple[str, str], ...]
    hit: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader, table = Reader.open(self.url, self.options), self.source.now()
        for batch in batches:
            for start in range(0, batch.num_rows, MOST_ROWS):
                rows = pa.Table.from_batches([batch.slice(start, MOST_ROWS)])
                for joined in self._join(reader, table, rows):
                    yield from joined.to_batches()

    def _join(self, reader: Reader, table: TableAt, rows: pa.Table) -> Iterator[pa.Table]:
        """Yield the rows with what they find, in one table unless that is very much; rows that find nothing come last."""
        unmatched = np.ones(rows.num_rows, dtype=bool)
        pending: list[tuple[np.ndarray, pa.Table]] = []
        for index, state in self._find_rows(reader, table, rows):
            if pending and sum(len(some) for some, _ in pending) + len(index) > MOST_MATCHES:
                yield self._build_answer(rows, pending, np.empty(0, dtype=np.int64))
                pending = []
            unmatched[index] = False
            pending.append((index, state))
        yield self._build_answer(rows, pending, np.flatnonzero(unmatched))

    def _build_answer(
        self, rows: pa.Table, found: list[tuple[np.ndarray, pa.Table]], missing: np.ndarray
    ) -> pa.Table:
        matched = np.concatenate([index for index, _ in found])
        state = pa.concat_tables([some for _, some in found])
        hit = np.concatenate([np.ones(len(matched), dtype=bool), np.zeros(len(missing), dtype=bool)])
        matched_rows = rows.take(to_positions(np.concatenate([matched, missing])))
        padding = pa.table(
            [make_nulls(len(missing), field.type) for field in state.schema], schema=state.schema
        )
        state = pa.concat_tables([state, padding])
        arrays = matched_rows.columns + [state.column(column) for _, column in self.items] + [pa.array(hit)]
        names = matched_rows.column_names + [name for name, _ in self.items] + [self.hit]
        return pa.Table.from_arrays(arrays, names=names).combine_chunks()

    def _find_rows(
        self, reader: Reader, table: TableAt, rows: pa.Table
    ) -> Iterator[tuple[np.ndarray, pa.Table]]:
        """Yield (index of the row, what it has found) in parts of bounded size, at least one."""
        asks = np.ones(rows.num_rows, dtype=bool)
        if self.probe.guard is not None:
            asks &= to_mask(rows.column(self.probe.guard))
        version, new = table.version, table.new
        old = new if table.old is None else table.old
        if self.probe.at == "side":
            side = rows.column(SIDE).to_numpy()
            for i, epoch in ((0, old), (1, new)):
                yield from self._search_table(reader, version, rows, asks & (side == i), epoch)
        else:
            yield from self._search_table(reader, version, rows, asks, old if self.probe.at == "old" else new)

    def _search_table(
        self, reader: Reader, table: TableVersion, rows: pa.Table, asks: np.ndarray, epoch: int
    ) -> Iterator[tuple[np.ndarray, pa.Table]]:
        if not self.probe.pairs:
            yield from self._read_whole(reader, table, np.flatnonzero(asks), epoch)
            return
        schema = table.schema
        first: dict[str, str] = {}
        for ours, theirs in self.probe.pairs:
            known = first.setdefault(theirs, ours)
            if (
                known != ours
            ):  # one stored column is to equal two of ours: only rows where these agree can match
                asks = asks & self._compare_columns(rows, known, ours)
            if self.probe.end is not None and not self.probe.null_safe:  # first rows are found null-safe
                asks = asks & rows.column(ours).is_valid().to_numpy()
        asking = np.flatnonzero(asks)
        mine = rows if len(asking) == rows.num_rows else rows.take(to_positions(asking))
        keys = pa.Table.from_arrays(
            [mine.column(ours).cast(schema.field(theirs).type) for theirs, ours in first.items()],
            names=list(first),
        )
        plain = self._find_schema(table)
        columns = plain.names
        end = self.probe.end
        null_safe = self.probe.null_safe or end is not None
        key_range = self.probe.within.of(mine) if self.probe.within is not None else None
        if end is not None and expiry_at(table, epoch) is None:
            last = end == "last"
            parts = iter(
                [reader.find_first_rows(table, keys, epoch, columns=columns, last=last, key_range=key_range)]
            )
        else:
            parts = reader.lookup_in_parts(
                table, keys, epoch, columns=columns, null_safe=null_safe, key_range=key_range
            )
            parts = parts if end is None else _pick_ends(parts, end)
        for index, state in parts:
            yield asking[index], state.select(columns).cast(plain)

    def _find_schema(self, table: TableVersion) -> pa.Schema:
        """Return the columns that are looked up, each once; a row that finds nothing has nulls in them."""
        columns = dict.fromkeys(column for _, column in self.items)
        return pa.schema([table.schema.field(column).with_nullable(True) for column in columns])

    def _read_whole(
        self, reader: Reader, table: TableVersion, asking: np.ndarray, epoch: int
    ) -> Iterator[tuple[np.ndarray, pa.Table]]:
        """Yield all rows of the table for each row that asks, in parts of bounded size; with an `end` one of them."""
        plain = self._find_schema(table)
        yield asking[:0], plain.empty_table()
        if not len(asking):
            return
        batches = reader.scan(table, epoch, columns=plain.names or table.primary_key[:1])
        if self.probe.end is not None:
            batches = (batch.slice(0, 1) for batch in itertools.islice(batches, 1))
        for batch in batches:
            each = max(1, MOST_MATCHES // batch.num_rows)
            for start in range(0, len(asking), each):
                some = asking[start : start + each]
                places = to_positions(np.tile(np.arange(batch.num_rows), len(some)))
                rows = pa.Table.from_batches([batch]).take(places)
                yield np.repeat(some, batch.num_rows), rows.select(plain.names).cast(plain)

    def _compare_columns(self, rows: pa.Table, one: str, two: str) -> np.ndarray:
        left, right = rows.column(one), rows.column(two)
        same = equal_values(one_chunk(left), one_chunk(right))
        return same if self.probe.null_safe else same & to_mask(left.is_valid())


def _pick_ends(
    parts: Iterator[tuple[np.ndarray, pa.Table]], end: End
) -> Iterator[tuple[np.ndarray, pa.Table]]:
    """Yield of each key's rows, which come in the order of the primary key, the first or the last."""
    for index, state in parts:
        changes = index[1:] != index[:-1]
        edge = np.append(changes, True) if end == "last" else np.append(True, changes)
        edge = edge[: len(index)]
        yield index[edge], state.filter(pa.array(edge))


def lookup(
    rows: Rows, context: EpochContext, table: str, probe: Probe, items: tuple[tuple[str, str], ...], hit: str
) -> Flow:
    """Join each row with the rows of `table` that it finds.

    `items` = (output name, table column) are added, and a boolean column `hit`.
    """
    version = context.tables[table]
    if probe.at == "new" and context.moment == "old":
        probe = replace(probe, at="old")
    body = LookupTable(context.url, dict(context.options), context.find_source(table), probe, items, hit)
    fields = [version.schema.field(column).with_name(name).with_nullable(True) for name, column in items]
    added = derive_spark_schema(pa.schema(fields)).fields
    before = Flow.of(rows, exact=context.exact)
    return before.then(body, StructType([*before.schema.fields, *added, StructField(hit, BooleanType())]))

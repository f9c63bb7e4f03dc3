"""Rows around those that have changed, of a state in the order of calls over windows: enough to compute these calls again.

Rule: calls whose frames end some rows away give another result only that many rows from a change. So from the place of each row
that has come or gone the next values of the order are found, one by one, by binary search, and then the rows between the last of
them. However large a partition is, an epoch costs what its changes do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import BooleanType, StructField, StructType

from engine.arrow import Column, compute_sort_indices, make_nulls, to_mask, to_positions
from engine.hummock import Reader
from engine.hummock.reads.key_range import KeyRange
from engine.hummock.rows.expiry import expiry_at
from engine.hummock.rows.key_numbers import deduplicate
from engine.hummock.rows.ordering import equal_to_previous, one_chunk
from engine.operators.context import EpochContext
from engine.operators.flow import Flow, compute
from engine.operators.lookups.table_parameters import TableAt, TableSource
from engine.spark_internals import derive_spark_schema
from engine.sql.expression import nodes
from engine.sql.incremental.rules import WindowReach
from engine.sql.plan import Over, Scan

CHANGED = "_changed"
"""The column that says whether a row's results may be others than before; the other rows are there to be read."""
MOST_SEARCHES = 100_000
"""Beyond so many searches for neighbours the touched partitions are read as wholes."""
_PLACE = "_place"
Ends = tuple[Column, Column]
"""The least and the greatest value of the order around each place; null: all rows on that side."""


def read_neighbours(node: Over, reach: WindowReach, change: Flow, context: EpochContext) -> Flow:
    """Return the rows of a state around the places of its change, each once, with the column CHANGED."""
    assert isinstance(node.input, Scan)
    stored = dict(node.input.items)
    order = next(name for name, column in stored.items() if column == reach.order)
    columns = [*node.partition, order]
    places = compute(change, [(context.fresh("place"), nodes.Column(column)) for column in columns])
    version = context.tables[node.input.table]
    by = tuple(stored[column] for column in node.partition)
    source = context.find_source(node.input.table)
    body = ReadNeighbours(context.url, dict(context.options), source, node.input.items, by, reach)
    fields = [
        version.schema.field(column).with_name(name).with_nullable(True) for name, column in stored.items()
    ]
    spark_schema = derive_spark_schema(pa.schema(fields))
    return Flow.of(places, exact=context.exact).then(
        body, StructType([*spark_schema.fields, StructField(CHANGED, BooleanType())])
    )


@dataclass(frozen=True)
class ReadNeighbours:
    """A body: of places (the columns of the partition `by`, then that of the order) the rows of the state around them."""

    url: str
    options: Mapping[str, Any]
    source: TableSource
    items: tuple[tuple[str, str], ...]
    by: tuple[str, ...]
    reach: WindowReach

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        gathered = [batch for batch in batches if batch.num_rows]
        if not gathered:
            return
        rows = pa.concat_tables(self._find_rows(pa.Table.from_batches(gathered)))
        arrays = [*(rows.column(stored) for _, stored in self.items), rows.column(CHANGED)]
        names = [*(name for name, _ in self.items), CHANGED]
        yield from pa.Table.from_arrays(arrays, names=names).combine_chunks().to_batches()

    def _find_rows(self, changed: pa.Table) -> Iterator[pa.Table]:
        reader, table = Reader.open(self.url, self.options), self.source.now()
        places = self._list_places(table, changed.rename_columns([*self.by, _PLACE]))
        keys, near, far = self._separate(
            places.select(list(self.by)), *self._find_ends(reader, table, places)
        )
        yield from self._look_up(reader, table, keys, near, far)
        if (
            not self.reach.nulls_below
        ):  # rows without a value stand first in files, but behind the greatest here
            behind = to_positions(np.flatnonzero(to_mask(pc.and_(far[1].is_null(), far[0].is_valid()))))
            order = make_nulls(len(behind), table.version.schema.field(self.reach.order).type)
            keys = keys.take(behind).append_column(self.reach.order, order)
            yield from self._look_up(reader, table, keys, (near[0].take(behind), near[1].take(behind)), None)

    def _list_places(self, table: TableAt, changed: pa.Table) -> pa.Table:
        """Return each place once, in order; of a partition that is read as a whole only the one without a value."""
        kind = table.version.schema.field(self.reach.order).type
        changed = deduplicate(changed)
        at = changed.column(_PLACE).cast(kind).combine_chunks()
        searches = changed.num_rows * self.reach.rows * 4
        if searches > MOST_SEARCHES or expiry_at(table.version, table.new) is not None:
            at = make_nulls(changed.num_rows, kind)
        places = changed.set_column(changed.num_columns - 1, _PLACE, at)
        places = places.take(
            compute_sort_indices(places, [(n, "ascending", "at_start") for n in places.column_names])
        )
        partition = np.cumsum(self._mark_begins(places)) - 1
        absent = to_mask(places.column(_PLACE).is_null())
        whole = np.zeros(len(absent), dtype=bool)
        whole[partition[absent]] = True
        stays = ~whole[partition] | (absent & self._mark_begins(places))
        return places.filter(pa.array(stays)).combine_chunks()

    def _mark_begins(self, places: pa.Table) -> np.ndarray:
        """Return which of the places, which are in order, are the first of their partition."""
        begins = np.ones(places.num_rows, dtype=bool)
        begins[1:] = ~equal_to_previous(places.select(list(self.by)))
        return begins

    def _separate(self, keys: pa.Table, near: Ends, far: Ends) -> tuple[pa.Table, Ends, Ends]:
        """Return neighbourhoods that share no row: of places in order, those that overlap are one."""
        begins = np.ones(keys.num_rows, dtype=bool)
        behind = pc.greater(far[0].slice(1), far[1].slice(0, max(keys.num_rows - 1, 0)))
        begins[1:] = ~equal_to_previous(keys) | to_mask(behind)
        starts = np.flatnonzero(begins)
        first, last = to_positions(starts), to_positions(np.append(starts[1:], keys.num_rows) - 1)
        one, other = ((ends[0].take(first), ends[1].take(last)) for ends in (near, far))
        return keys.take(first), one, other

    def _look_up(
        self, reader: Reader, table: TableAt, keys: pa.Table, near: Ends, far: Ends | None
    ) -> Iterator[pa.Table]:
        """Yield the rows of some neighbourhoods, each with whether it is near enough to a change; without `far` those that
        have just these keys.
        """
        key_range = None if far is None else KeyRange(self.reach.order, *far)
        columns = list(dict.fromkeys([*table.version.primary_key, *(stored for _, stored in self.items)]))
        parts = reader.lookup_in_parts(
            table.version, keys, table.new, columns=columns, null_safe=True, key_range=key_range
        )
        for index, rows in parts:
            at, values = to_positions(index), rows.column(self.reach.order)
            rows = rows.append_column(CHANGED, pa.array(self._is_near(values, near, at)))
            if far is not None and not self.reach.nulls_below:
                rows = rows.filter(pc.or_(values.is_valid(), far[1].take(at).is_null()))
            yield rows

    def _is_near(self, values: Column, near: Ends, index: pa.Int64Array) -> np.ndarray:
        """Return which values lie between the near ends of their places."""
        low, high = near[0].take(index), near[1].take(index)
        open_low, open_high = to_mask(low.is_null()), to_mask(high.is_null())
        inside = (open_low | to_mask(pc.greater_equal(values, low))) & (
            open_high | to_mask(pc.less_equal(values, high))
        )
        absent = to_mask(values.is_null())
        found: np.ndarray = np.where(absent, open_low if self.reach.nulls_below else open_high, inside)
        return found

    def _find_ends(self, reader: Reader, table: TableAt, places: pa.Table) -> tuple[Ends, Ends]:
        """Return up to which values results change, and up to which rows are read for them."""
        start = one_chunk(places.column(_PLACE))
        sides = [self._find_side(reader, table, places, start, last=last) for last in (True, False)]
        return (sides[0][0], sides[1][0]), (sides[0][1], sides[1][1])

    def _find_side(
        self, reader: Reader, table: TableAt, places: pa.Table, start: pa.Array[Any], *, last: bool
    ) -> tuple[pa.Array[Any], pa.Array[Any]]:
        """Return the value so many steps below each place (above it without `last`), and that twice as many steps away."""
        at = near = start
        for step in range(2 * self.reach.rows):
            on = np.flatnonzero(at.is_valid().to_numpy(zero_copy_only=False))
            if not len(on):
                return (at if step < self.reach.rows else near), at
            some, bound = places.select(list(self.by)).take(to_positions(on)), at.take(to_positions(on))
            key_range = (
                KeyRange(self.reach.order, high=bound, includes=(True, False))
                if last
                else KeyRange(self.reach.order, low=bound, includes=(False, True))
            )
            index, rows = reader.find_first_rows(
                table.version, some, table.new, columns=[self.reach.order], last=last, key_range=key_range
            )
            place = np.full(places.num_rows, -1, dtype=np.int64)
            place[on[index]] = np.arange(len(index))
            at = rows.column(0).combine_chunks().take(to_positions(place, place < 0))
            near = at if step + 1 == self.reach.rows else near
        return near, at

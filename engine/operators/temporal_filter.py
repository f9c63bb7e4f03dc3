"""Filters on now(): rows come and go by themselves when the moment of the epoch passes one of their two bounds.

Rule: d(filter) = the input's change held against the new moment, and the stored rows whose next bound the moment has passed since
the old epoch, which are found by it: the state is in the order of `_time_at`, in each of its parts.

>>> change("SELECT id FROM bid WHERE timestamp_seconds(price) < now() AND price < 40")
+ id=4
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import BooleanType, IntegerType, LongType, StructField, StructType

from engine.arrow import as_values, to_mask
from engine.hummock import Reader
from engine.hummock.epoch import micros_of
from engine.hummock.reads.range_scan import scan_range
from engine.hummock.rows.row_hash import xxhash64
from engine.operators.arrow.map_in_arrow import make_task_frame
from engine.operators.change import Change, sum_terms
from engine.operators.context import EpochContext, count_partitions
from engine.operators.flow import WEIGHT, Flow, Rows, as_frame
from engine.operators.lookups.table_parameters import TableSource
from engine.spark_internals import derive_spark_schema
from engine.sql.expression.clock import FOREVER, TIME_AT, TIME_IN, TIME_PART, TIME_PARTS
from engine.sql.plan import TemporalFilter


@dataclass(frozen=True)
class FilterByMoment:
    """A body: the rows that have not left at a moment, with the columns of the state; `now` is it, or where it is found."""

    now: int | TableSource
    node: TemporalFilter

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        now = self.now if isinstance(self.now, int) else micros_of(self.now.now().new)
        for batch in batches:
            yield filter_at_moment(batch, self.node, now)


def filter_at_moment(rows: pa.RecordBatch, node: TemporalFilter, now: int) -> pa.RecordBatch:
    """Return the rows of a filter's input, signed or not, that it holds at a moment, in microseconds since 1970.

    >>> from engine.sql.plan import Scan
    >>> node = TemporalFilter(Scan("t", (("id", "id"), ("leave", "leave")), ("id",), ("id",)), None, "leave")
    >>> rows = pa.RecordBatch.from_pydict({"id": [1, 2, 3], "leave": [5, 6, None]})
    >>> filter_at_moment(rows, node, 5).select(["_time_at", "id"]).to_pylist()
    [{'_time_at': 6, 'id': 2}]
    """
    for bound in (node.enter, node.leave):
        if bound is not None:
            rows = rows.filter(rows.column(bound).is_valid())
    if node.leave is not None:
        rows = rows.filter(pa.array(_read_bounds(rows, node.leave) > now))
    at = _read_last_bound(rows, node)
    columns: dict[str, pa.Array[Any]] = {TIME_PART: pa.array(_compute_parts(rows, node))}
    columns |= {name: rows.column(name) for name in rows.schema.names if name not in (node.enter, WEIGHT)}
    if node.enter is not None:
        enter = _read_bounds(rows, node.enter)
        at = np.where(enter <= now, at, enter)
        columns[TIME_IN] = pa.array(enter <= now)
    columns[TIME_AT] = pa.array(at, pa.int64())
    names = [*node.columns]
    if WEIGHT in rows.schema.names:
        columns[WEIGHT] = rows.column(WEIGHT)
        names.append(WEIGHT)
    return pa.RecordBatch.from_arrays([columns[name] for name in names], names=names)


def _read_bounds(rows: pa.RecordBatch, name: str) -> np.ndarray:
    """Return a column of bounds, which holds no null any more."""
    numbers: np.ndarray = rows.column(name).to_numpy(zero_copy_only=False)
    return numbers


def _read_last_bound(rows: pa.RecordBatch, node: TemporalFilter) -> np.ndarray:
    """Return when each row leaves."""
    return np.full(rows.num_rows, FOREVER) if node.leave is None else _read_bounds(rows, node.leave)


def _compute_parts(rows: pa.RecordBatch, node: TemporalFilter) -> np.ndarray:
    if not node.key:
        return np.zeros(rows.num_rows, dtype=np.int32)
    hashes = xxhash64([rows.column(name) for name in node.key])
    parts: np.ndarray = np.mod(hashes, TIME_PARTS).astype(np.int32)
    return parts


@dataclass(frozen=True)
class ReadCrossedBounds:
    """A body: of the stored rows whose next bound lies after the old moment and not after the new one, the changes.

    Each goes; one that enters and does not leave yet comes back with its next bound.
    """

    url: str
    options: Mapping[str, Any]
    source: TableSource
    node: TemporalFilter
    parts: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader, table = Reader.open(self.url, self.options), self.source.now()
        assert table.old is not None
        old, new = micros_of(table.old), micros_of(table.new)
        for batch in batches:
            for task in as_values(batch.column(0)):
                for part in range(int(task), TIME_PARTS, self.parts):
                    bounds = ({TIME_PART: part, TIME_AT: old + 1}, {TIME_PART: part, TIME_AT: new + 1})
                    columns = list(self.node.columns)
                    for rows in scan_range(reader, table.version, table.old, bounds, columns):
                        yield _add_weight(rows, -1)
                        if self.node.enter is not None:
                            yield _add_weight(self._select_entering(rows, new), 1)

    def _select_entering(self, rows: pa.RecordBatch, now: int) -> pa.RecordBatch:
        """Return the rows that enter, as they are stored from now on."""
        there = ~to_mask(rows.column(TIME_IN)) & (_read_last_bound(rows, self.node) > now)
        rows = rows.filter(pa.array(there))
        inside = np.ones(rows.num_rows, dtype=bool)
        changed: dict[str, pa.Array[Any]] = {
            TIME_AT: pa.array(_read_last_bound(rows, self.node), pa.int64()),
            TIME_IN: pa.array(inside),
        }
        arrays = [changed.get(name, rows.column(name)) for name in rows.schema.names]
        return pa.RecordBatch.from_arrays(arrays, names=rows.schema.names)


def _add_weight(rows: pa.RecordBatch, weight: int) -> pa.RecordBatch:
    return rows.append_column(WEIGHT, pa.array(np.full(rows.num_rows, weight, dtype=np.int64)))


def batch(node: TemporalFilter, rows: DataFrame, context: EpochContext) -> DataFrame:
    """Return the rows that the filter holds at the context's epoch."""
    return as_frame(_filter_by_moment(node, rows, micros_of(context.new)))


def delta(node: TemporalFilter, table: str, change: Change | None, context: EpochContext) -> Change | None:
    """Return the signed change of the filter's state `table`: of what has changed below, and of what the moment has passed."""
    terms: list[Rows] = []
    if change is not None:
        reusable = context.parameters is not None
        terms.append(
            _filter_by_moment(
                node, change.rows, context.find_source(table) if reusable else micros_of(context.new)
            )
        )
    if context.piece is None:
        terms.append(_read_crossed_bounds(node, table, context))
    return sum_terms(terms, 2, (change,), context)  # a row that has changed and crosses a bound is in both


def _filter_by_moment(node: TemporalFilter, rows: Rows, now: int | TableSource) -> Flow:
    flow = Flow.of(rows)
    below = {field.name: field for field in flow.schema.fields}
    fields = [_find_added_field(name) or below[name] for name in node.columns]
    if WEIGHT in below:
        fields.append(below[WEIGHT])
    return flow.then(FilterByMoment(now, node), StructType(fields))


def _find_added_field(name: str) -> StructField | None:
    kinds = {TIME_PART: IntegerType(), TIME_AT: LongType(), TIME_IN: BooleanType()}
    return StructField(name, kinds[name]) if name in kinds else None


def _read_crossed_bounds(node: TemporalFilter, table: str, context: EpochContext) -> Flow:
    version = context.tables[table]
    tasks = 1 if context.is_small else min(TIME_PARTS, count_partitions(context.rows_in, context.parallelism))
    body = ReadCrossedBounds(context.url, dict(context.options), context.find_source(table), node, tasks)
    spark_schema = derive_spark_schema(pa.schema([version.schema.field(name) for name in node.columns]))
    schema = StructType([*spark_schema.fields, StructField(WEIGHT, LongType())])
    base = make_task_frame(context.spark, tasks)
    return Flow(base, (body,), schema, single=tasks == 1, exact=context.exact)

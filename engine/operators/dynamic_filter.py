"""Filters against a bound that changes: rows come and go when it passes them, or when they change.

Rule: d(filter) = the input's change held against the new bound, and the input's old rows between the old and the new bound, which
are found by their number: the input is a state in that order, in each of its parts.

>>> change("SELECT b.id FROM bid b WHERE b.price > (SELECT min(price) FROM bid)")
+ id=4
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StructField, StructType

from engine.arrow import as_values
from engine.hummock import Reader, TableVersion
from engine.hummock.reads.range_scan import estimate_rows_in_ranges, scan_range
from engine.operators.arrow.map_in_arrow import make_task_frame
from engine.operators.change import Change, sum_terms
from engine.operators.context import EpochContext, count_partitions
from engine.operators.flow import WEIGHT, Flow, Rows, as_frame
from engine.operators.lookups.moving_bounds import read_bound
from engine.operators.lookups.table_parameters import TableSource
from engine.spark_internals import derive_spark_schema
from engine.sql.expression.clock import TIME_PART, TIME_PARTS
from engine.sql.expression.monotone_steps import GREATEST, LEAST
from engine.sql.plan import DynamicFilter, Node, Scan, list_nodes

Range = tuple[int, int]
"""Numbers from the first to the last of them, both inclusive; none where the first is greater."""


def compute_threshold(node: DynamicFilter, bound: int | None) -> int:
    """Return the first number on the other side: rows below it are in, or for > and >= those that are not."""
    below = node.operator in ("<", "<=")
    if bound is None:
        return LEAST if below else GREATEST + 1
    return bound + 1 if node.operator in ("<=", ">") else bound


@dataclass(frozen=True)
class BoundMove:
    """Which stored rows a moving bound passes, and whether they come (1) or go (-1)."""

    numbers: Range
    weight: Literal[1, -1]


def find_bound_move(node: DynamicFilter, old: int | None, new: int | None) -> BoundMove | None:
    """Return what a bound that moves from `old` to `new` passes, None if it stays where it is.

    >>> from engine.sql.plan import Scan
    >>> node = DynamicFilter(Scan("t", (), (), ()), "n", (), ">")
    >>> find_bound_move(node, 5, 8)
    BoundMove(numbers=(6, 8), weight=-1)
    """
    first, last = compute_threshold(node, old), compute_threshold(node, new)
    if first == last:
        return None
    rises = last > first
    comes = rises == (node.operator in ("<", "<="))
    low, high = min(first, last), max(first, last) - 1
    return BoundMove((low, min(high, GREATEST)), 1 if comes else -1)


def build_part_range(scan: Scan, at: str, part: int, numbers: Range) -> tuple[dict[str, int], dict[str, int]]:
    """Return the range of a state's keys in one part."""
    column = dict(scan.items)[at]
    return {TIME_PART: part, column: numbers[0]}, {TIME_PART: part, column: numbers[1]}


def count_moved_rows(
    reader: Reader, table: TableVersion, node: DynamicFilter, epoch: int, found: BoundMove
) -> int:
    """Return an upper bound of the rows of a filter's state that a moving bound passes; none of them is read."""
    assert isinstance(node.input, Scan)
    ranges = (build_part_range(node.input, node.at, part, found.numbers) for part in range(TIME_PARTS))
    return estimate_rows_in_ranges(reader, table, epoch, ranges, through=True)


def count_passed_rows(
    reader: Reader,
    tables: Mapping[str, TableVersion],
    filters: Iterable[DynamicFilter],
    epochs: tuple[int, int],
) -> int:
    """Return an upper bound of the rows that bounds pass between two epochs; only the bounds are read."""
    rows = 0
    for node in filters:
        old, new = (read_bound(reader, tables.get, node.bounds, epoch) for epoch in epochs)
        passed = find_bound_move(node, old, new)
        if passed is not None and isinstance(node.input, Scan) and node.input.table in tables:
            rows += count_moved_rows(reader, tables[node.input.table], node, epochs[0], passed)
    return rows


def list_dynamic_filters(plan: Node) -> tuple[DynamicFilter, ...]:
    """Return the filters of a plan whose bounds move."""
    return tuple(node for node in list_nodes(plan) if isinstance(node, DynamicFilter))


@dataclass(frozen=True)
class FilterByBound:
    """A body: the rows that the filter takes; `bounds` are its tables, `at` whether they are read at the old or the new epoch."""

    url: str
    options: Mapping[str, Any]
    node: DynamicFilter
    bounds: tuple[tuple[str, TableSource], ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader = Reader.open(self.url, self.options)
        tables = {name: source.now() for name, source in self.bounds}
        versions = {name: table.version for name, table in tables.items()}
        epoch = next(iter(tables.values())).new
        limit = compute_threshold(self.node, read_bound(reader, versions.get, self.node.bounds, epoch))
        below = self.node.operator in ("<", "<=")
        for batch in batches:
            yield batch.filter(_mask(batch, self.node.at, limit, below))


def _mask(rows: pa.RecordBatch, at: str, limit: int, below: bool) -> pa.Array[Any]:
    column = rows.column(at)
    known = column.is_valid().to_numpy(zero_copy_only=False)
    numbers = column.fill_null(0).to_numpy(zero_copy_only=False)
    if limit > GREATEST:
        inside = np.full(len(numbers), below)
    else:
        inside = numbers < limit if below else numbers >= limit
    mask: pa.Array[Any] = pa.array(inside & known)
    return mask


@dataclass(frozen=True)
class ReadMovedRows:
    """A body: the stored rows that the bound has passed between the old and the new epoch, signed."""

    url: str
    options: Mapping[str, Any]
    state: TableSource
    node: DynamicFilter
    bounds: tuple[tuple[str, TableSource], ...]
    parts: int
    log_expired: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader, table = Reader.open(self.url, self.options), self.state.now()
        assert table.old is not None and isinstance(self.node.input, Scan)
        versions = {name: source.now().version for name, source in self.bounds}
        new = read_bound(reader, versions.get, self.node.bounds, table.new)
        if self.log_expired:  # what the bound was stands in the state: it lets go of what is below
            old = table.version.watermark_at(table.old)
        else:
            old = read_bound(reader, versions.get, self.node.bounds, table.old)
        found = find_bound_move(self.node, old, new)
        if found is None:
            return
        items, read_at = self.node.input.items, table.new if self.log_expired else table.old
        columns = list(dict.fromkeys(column for _, column in items))
        names = [*(name for name, _ in items), WEIGHT]
        for batch in batches:
            for task in as_values(batch.column(0)):
                for part in range(int(task), TIME_PARTS, self.parts):
                    bounds = build_part_range(self.node.input, self.node.at, part, found.numbers)
                    for rows in scan_range(reader, table.version, read_at, bounds, columns, through=True):
                        weight = pa.array(np.full(rows.num_rows, found.weight, dtype=np.int64))
                        arrays = [*(rows.column(column) for _, column in items), weight]
                        yield pa.RecordBatch.from_arrays(arrays, names=names)


def batch(node: DynamicFilter, rows: DataFrame, context: EpochContext) -> DataFrame:
    """Return the rows that the filter takes at the context's epoch."""
    if any(bound.scan.table in context.schemas for bound in node.bounds):
        return rows.where("FALSE")  # a plan that is only analysed
    return as_frame(_filter_by_bound(node, rows, context, reusable=False))


def delta(node: DynamicFilter, change: Change | None, context: EpochContext) -> Change | None:
    """Return the signed change of the filter over its state: of rows that have changed, and of those that a bound has passed."""
    terms: list[Rows] = []
    if (
        context.log_expired
    ):  # what is closed is final, and its state may be gone: only the rows since then count
        return Change(_read_moved_rows(node, context), 0 if change is None else change.terms)
    if change is not None:
        terms.append(_filter_by_bound(node, change.rows, context, reusable=True))
    if context.piece is None and any(context.may_change(bound.scan.table) for bound in node.bounds):
        terms.append(_read_moved_rows(node, context))
    return sum_terms(
        terms, 2, (change,), context
    )  # a row that has changed and that the bound passes is in both


def _list_sources(
    node: DynamicFilter, context: EpochContext, reusable: bool
) -> tuple[tuple[str, TableSource], ...]:
    names = dict.fromkeys(bound.scan.table for bound in node.bounds)
    return tuple(
        (name, context.find_source(name) if reusable else context.pin_version(name)) for name in names
    )


def _filter_by_bound(node: DynamicFilter, rows: Rows, context: EpochContext, *, reusable: bool) -> Flow:
    flow = Flow.of(rows)
    body = FilterByBound(context.url, dict(context.options), node, _list_sources(node, context, reusable))
    return flow.then(body, flow.schema)


def _read_moved_rows(node: DynamicFilter, context: EpochContext) -> Flow:
    assert isinstance(node.input, Scan)
    version = context.tables[node.input.table]
    tasks = 1 if context.is_small else min(TIME_PARTS, count_partitions(context.rows_in, context.parallelism))
    state, bounds = context.find_source(node.input.table), _list_sources(node, context, reusable=True)
    body = ReadMovedRows(context.url, dict(context.options), state, node, bounds, tasks, context.log_expired)
    fields = [version.schema.field(column).with_name(name) for name, column in node.input.items]
    spark_schema = derive_spark_schema(pa.schema([field.with_nullable(True) for field in fields]))
    schema = StructType([*spark_schema.fields, StructField(WEIGHT, LongType())])
    base = make_task_frame(context.spark, tasks)
    return Flow(base, (body,), schema, single=tasks == 1, exact=context.exact)

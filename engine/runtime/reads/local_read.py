"""Reads that the store answers without Spark: keys are looked up, small tables scanned; only the columns needed are read."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.arrow import compute_sort_indices, to_mask
from engine.hummock import Hummock, TableVersion
from engine.hummock.rows.key_numbers import deduplicate
from engine.sql.batch.point_read import PointRead, Predicate

LOCAL_SCAN_ROWS = 1_000_000
MOST_KEYS = 10_000
_COMPARE: dict[str, Callable[..., Any]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def answer_locally(
    store: Hummock, table: TableVersion, point: PointRead, epoch: int, indexes: tuple[TableVersion, ...] = ()
) -> pa.Table | None:
    """Answer a simple read from the store alone, or return None where Spark should do it.

    `indexes` are copies of the table by other columns, known at `epoch`.
    """
    columns = list(point.reads) or list(table.primary_key[:1])
    for candidate in (table, *indexes):
        keys = build_point_keys(candidate, point.predicates)
        if keys is not None:
            return evaluate_point_read(store.reader.lookup(candidate, keys, epoch, columns=columns)[1], point)
    enough = _limit_rows(point)
    if table.row_count > LOCAL_SCAN_ROWS and (enough is None or point.predicates):
        return None
    parts, rows = [], 0
    for batch in _scan_batches(store, table, epoch, columns, point.predicates):
        found = filter_rows(pa.Table.from_batches([batch]), point.predicates)
        parts.append(found)
        rows += found.num_rows
        if enough is not None and rows >= enough:
            break
    empty = pa.schema([table.schema.field(name) for name in columns]).empty_table()
    return evaluate_point_read(pa.concat_tables(parts) if parts else empty, point, filtered=True)


def _limit_rows(point: PointRead) -> int | None:
    """Return how many rows answer the read, whichever they are; None if all are needed."""
    if point.order or point.limit is None or point.count_name is not None:
        return None
    return point.offset + point.limit


def _scan_batches(
    store: Hummock, table: TableVersion, epoch: int, columns: list[str], predicates: tuple[Predicate, ...]
) -> Iterator[pa.RecordBatch]:
    """Scan a table, or the prefix of its key that equalities fix where it is in key order."""
    if not table.distribution_key:
        equal = {p.column: p.values[0] for p in predicates if p.op == "=" and p.values[0] is not None}
        prefix = tuple(itertools.takewhile(lambda name: name in equal, table.primary_key))
        if prefix:
            keys = _convert_keys(table, [dict((name, equal[name]) for name in prefix)])
            if keys is not None:
                _, rows = store.reader.lookup(table, keys, epoch, columns=columns)
                return iter(rows.to_batches())
    return store.reader.scan(table, epoch, columns=columns)


def build_point_keys(table: TableVersion, predicates: tuple[Predicate, ...]) -> pa.Table | None:
    """Return the keys that equalities and INs fix, if they fix all of the distribution key with values of its types."""
    values_of: dict[str, tuple[Any, ...]] = {}
    for predicate in predicates:
        if predicate.op in ("=", "in") and predicate.column not in values_of:
            values_of[predicate.column] = tuple(
                dict.fromkeys(value for value in predicate.values if value is not None)
            )
    names = table.distribution_key
    if not names or not set(names) <= set(values_of):
        return None
    count = 1
    for name in names:
        count *= len(values_of[name])
    if count > MOST_KEYS:
        return None
    rows = [
        dict(zip(names, values, strict=True)) for values in itertools.product(*(values_of[n] for n in names))
    ]
    return _convert_keys(table, rows)


def _convert_keys(table: TableVersion, rows: list[dict[str, Any]]) -> pa.Table | None:
    names = list(rows[0]) if rows else list(table.distribution_key)
    arrays = []
    for name in names:
        kind = table.schema.field(name).type
        try:
            scalars = [pa.scalar(row[name]).cast(kind) for row in rows]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
            return None
        arrays.append(pa.array([scalar.as_py() for scalar in scalars], kind))
    keys = pa.Table.from_arrays(arrays, names=names)
    return deduplicate(keys)


def filter_rows(rows: pa.Table, predicates: tuple[Predicate, ...]) -> pa.Table:
    """Return the rows that satisfy every predicate; a comparison with null is not satisfied."""
    for predicate in predicates:
        column = rows.column(predicate.column)
        if predicate.op == "is null":
            mask = pc.is_null(column)
        elif predicate.op == "is not null":
            mask = pc.is_valid(column)
        elif predicate.op == "in":
            masks = [_compare(pc.equal, column, value) for value in predicate.values]
            mask = masks[0]
            for other in masks[1:]:
                mask = pc.or_kleene(mask, other)
        else:
            mask = _compare(_COMPARE[predicate.op], column, predicate.values[0])
        rows = rows.filter(pa.array(to_mask(mask), pa.bool_()))
    return rows


def _compare(function: Callable[..., Any], column: pa.ChunkedArray[Any], value: Any) -> Any:
    if value is None:
        return pa.nulls(len(column), pa.bool_())
    if pa.types.is_time(column.type):
        value = pa.scalar(value).cast(column.type)
    if isinstance(value, float) and math.isnan(value):
        raise pa.ArrowNotImplementedError("NaN equals NaN in Spark")
    mask = function(column, pa.scalar(value))
    if pa.types.is_floating(column.type) and function in (pc.greater, pc.greater_equal):
        return pc.or_kleene(mask, pc.is_nan(column))  # NaN is the largest value, as in Spark
    return mask


def evaluate_point_read(rows: pa.Table, point: PointRead, *, filtered: bool = False) -> pa.Table:
    """Apply a simple read's predicates (unless `filtered`), order, limit and projection to rows of its table."""
    if not filtered:
        rows = filter_rows(rows, point.predicates)
    if point.count_name is not None:
        return pa.table({point.count_name: pa.array([rows.num_rows], pa.int64())})
    for column, descending, nulls_first in reversed(point.order):
        if (
            pa.types.is_floating(rows.schema.field(column).type)
            and pc.any(pc.is_nan(rows.column(column))).as_py()
        ):
            raise pa.ArrowNotImplementedError("NaN has a place of its own in Spark's order")
        direction = "descending" if descending else "ascending"
        placement = "at_start" if nulls_first else "at_end"
        rows = rows.take(compute_sort_indices(rows, [(column, direction, placement)]))
    stop = None if point.limit is None else point.offset + point.limit
    rows = rows.slice(point.offset, None if stop is None else point.limit)
    return pa.Table.from_arrays(
        [rows.column(column) for _, column in point.columns], names=[name for name, _ in point.columns]
    )

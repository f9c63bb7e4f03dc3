"""Batch reads: a policy picks the epoch; small reads are answered by the store alone, everything else by Spark over it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import sqlglot.expressions as exp
from pyspark.sql import SparkSession

from engine.hummock import Hummock, TableVersion, Version
from engine.meta.catalog_store import StoredCatalog
from engine.meta.policy import epochs_of
from engine.runtime.rows import visible_columns
from engine.runtime.spark_read import answer as spark_answer
from engine.runtime.spark_read import epoch_of, temporary_views, view_prefix
from engine.sql.ad_hoc import query_tables, spark_query
from engine.sql.point_read import PointRead, Predicate, point_read

__all__ = ["answer_locally", "evaluate", "matches", "query_rows", "select", "visible_columns"]

LOCAL_SCAN_ROWS = 1_000_000


def select(
    store: Hummock,
    stored: StoredCatalog,
    spark: Callable[[], SparkSession],
    query: exp.Query,
    sql: str,
    dialect: str,
    policy: str = "consistent",
) -> pa.Table:
    """Answer a query; `policy` says at which epoch each of its tables is read, unless FOR SYSTEM_TIME AS OF does."""
    version = store.refresh()
    query_tables(query, stored.catalog, sql)  # unknown names are told first, with their places
    point = point_read(query, stored.catalog, dialect, sql)
    if point is not None:
        try:
            answer = _point_answer(store, version, stored, point, policy)
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError):
            answer = None  # a comparison of unlike types: Spark's rules decide
        if answer is not None:
            return answer
    return query_rows(store, stored, spark, query, sql, dialect, policy)


def query_rows(
    store: Hummock,
    stored: StoredCatalog,
    spark: Callable[[], SparkSession],
    query: exp.Query,
    sql: str,
    dialect: str,
    policy: str = "consistent",
) -> pa.Table:
    """Return the rows of a query, computed by Spark."""
    version = store.version
    query_tables(query, stored.catalog, sql)
    written = spark_query(query, stored.catalog, dialect, view_prefix(), sql)
    tables = tuple(r.table for r in written.readings if r.moment is None)
    epochs = epochs_of(version, stored, tables, policy)
    session = spark()
    with temporary_views(session, store, version, stored, written.readings, epochs):
        return spark_answer(session, written.text, sql)


def _point_answer(
    store: Hummock, version: Version, stored: StoredCatalog, point: PointRead, policy: str
) -> pa.Table | None:
    if point.moment is not None:
        epoch = epoch_of(point.moment, point.table, version, stored)
    else:
        epoch = epochs_of(version, stored, (point.table,), policy)[point.table]
    return answer_locally(store, version.tables[point.table], point, epoch)


def answer_locally(store: Hummock, table: TableVersion, point: PointRead, epoch: int) -> pa.Table | None:
    """Answer a simple read from the store alone, or return None where Spark should do it."""
    prefix = _prefix(table, point.predicates)
    if prefix is None and table.row_count > LOCAL_SCAN_ROWS:
        return None
    columns = list(point.reads)
    if prefix is not None:
        keys = pa.table({k: pa.array([v], table.schema.field(k).type) for k, v in prefix.items()})
        _, rows = store.reader.lookup(table, keys, epoch, columns=columns or None)
    else:
        batches = list(store.reader.scan(table, epoch, columns=columns or None))
        empty = pa.schema([table.schema.field(c) for c in columns] if columns else table.schema)
        rows = pa.Table.from_batches(batches) if batches else empty.empty_table()
    return evaluate(rows, point)


def _prefix(table: TableVersion, predicates: tuple[Predicate, ...]) -> Mapping[str, Any] | None:
    """Return the distribution key's values if equalities fix all of them with values of the columns' own types."""
    equal = {p.column: p.values[0] for p in predicates if p.op == "=" and p.values[0] is not None}
    if not table.distribution_key or not set(table.distribution_key) <= set(equal):
        return None
    prefix = {}
    for column in table.distribution_key:
        try:
            scalar = pa.scalar(equal[column]).cast(table.schema.field(column).type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
            return None
        prefix[column] = scalar.as_py()
    return prefix


_COMPARE = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def matches(rows: pa.Table, predicates: tuple[Predicate, ...]) -> pa.Table:
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
        rows = rows.filter(pc.fill_null(mask, False))
    return rows


def _compare(function: Callable[..., Any], column: pa.ChunkedArray, value: Any) -> Any:
    if value is None:
        return pa.nulls(len(column), pa.bool_())
    mask = function(column, pa.scalar(value))
    if pa.types.is_floating(column.type) and function in (pc.greater, pc.greater_equal):
        return pc.or_kleene(mask, pc.is_nan(column))  # NaN is the largest value, as in Spark
    return mask


def evaluate(rows: pa.Table, point: PointRead) -> pa.Table:
    """Apply a simple read's predicates, order, limit and projection to rows of its table."""
    rows = matches(rows, point.predicates)
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
        rows = rows.take(pc.sort_indices(rows, sort_keys=[(column, direction, placement)]))
    stop = None if point.limit is None else point.offset + point.limit
    rows = rows.slice(point.offset, None if stop is None else point.limit)
    return pa.Table.from_arrays(
        [rows.column(column) for _, column in point.columns], names=[name for name, _ in point.columns]
    )

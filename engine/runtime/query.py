"""Batch reads: a policy picks the epoch; small reads are answered by the store alone, everything else by Spark over it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import sqlglot.expressions as exp
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from engine.errors import SqlError
from engine.hummock import Hummock, TableVersion, Version
from engine.meta.catalog_store import StoredCatalog
from engine.meta.policy import epochs_of
from engine.operators.context import partitions_for
from engine.operators.scan import read_table
from engine.runtime.spark import parallelism
from engine.sql.catalog import Relation
from engine.sql.point_read import PointRead, Predicate, point_read, query_tables, to_spark

LOCAL_SCAN_ROWS = 1_000_000


def visible_columns(relation: Relation) -> tuple[str, ...]:
    """Return the columns that a user sees."""
    return tuple(column.name for column in relation.columns if not column.hidden)


def select(
    store: Hummock,
    stored: StoredCatalog,
    spark: Callable[[], SparkSession],
    query: exp.Query,
    sql: str,
    dialect: str,
    policy: str = "consistent",
) -> pa.Table:
    """Answer a query; `policy` says at which epoch each of its tables is read."""
    version = store.refresh()
    tables = query_tables(query, stored.catalog, sql)
    epochs = epochs_of(version, stored, tables, policy)
    point = point_read(query, stored.catalog, dialect)
    if point is not None:
        try:
            answer = answer_locally(store, version.tables[point.table], point, epochs[point.table])
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError):
            answer = None  # a comparison of unlike types: Spark's rules decide
        if answer is not None:
            return answer
    session = spark()
    register(session, store, version, stored, epochs)
    try:
        return session.sql(to_spark(query, stored.catalog, dialect)).toArrow()
    except AnalysisException as error:
        message = (error.getMessage() or str(error)).splitlines()[0]
        raise SqlError(message, sql=sql) from error


def register(
    session: SparkSession,
    store: Hummock,
    version: Version,
    stored: StoredCatalog,
    epochs: Mapping[str, int],
) -> None:
    """Make each table at its epoch known to the Spark session as a temporary view of its name."""
    cores = parallelism(session)
    for name, epoch in epochs.items():
        table = version.tables[name]
        columns = visible_columns(stored.catalog.get(name))
        items = tuple((column, column) for column in columns)
        parts = partitions_for(table.row_count, cores)
        frame = read_table(session, store.url, store.options, table, items, epoch, parts=parts)
        frame.createOrReplaceTempView(name)
    rows = sum(version.tables[name].row_count for name in epochs)
    session.conf.set("spark.sql.shuffle.partitions", str(partitions_for(rows, cores)))
    session.conf.set("spark.sql.adaptive.enabled", "true")


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

"""Batch reads: a policy picks the epoch; small reads are answered by the store alone, everything else by Spark over it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pyarrow as pa
import sqlglot.expressions as exp
from pyspark.sql import SparkSession

from engine.errors import SqlError
from engine.hummock import Hummock, TableVersion, Version
from engine.meta.catalog_store import StoredCatalog
from engine.meta.content import Content
from engine.meta.policy import epochs_at, epochs_of
from engine.runtime.local_read import answer_locally
from engine.runtime.rows import visible_columns
from engine.runtime.spark_read import answer as spark_answer
from engine.runtime.spark_read import temporary_views, view_prefix
from engine.sql.ad_hoc import query_tables, spark_query
from engine.sql.point_read import PointRead, point_read
from engine.sql.refusals import line_and_column

__all__ = ["query_rows", "select", "visible_columns"]


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
    try:
        return _select(store, stored, spark, query, sql, dialect, policy)
    except SqlError as error:
        found = (
            None
            if error.line
            else re.search(r"\b(SYSTEM_TIME|TIMESTAMP|VERSION)\s+AS\s+OF", sql, re.IGNORECASE)
        )
        if found is None:
            raise
        line, column = line_and_column(sql, found.start())
        raise SqlError(error.message, sql=sql, line=line, column=column, hint=error.hint) from error


def _select(
    store: Hummock,
    stored: StoredCatalog,
    spark: Callable[[], SparkSession],
    query: exp.Query,
    sql: str,
    dialect: str,
    policy: str,
) -> pa.Table:
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
        epoch = epochs_at({point.table: point.moment}, version, stored, time.time())[point.table]
    else:
        epoch = epochs_of(version, stored, (point.table,), policy)[point.table]
    indexes = _indexes(version, stored, point.table, epoch) if point.predicates else ()
    return answer_locally(store, version.tables[point.table], point, epoch, indexes)


def _indexes(version: Version, stored: StoredCatalog, table: str, epoch: int) -> tuple[TableVersion, ...]:
    """Return the indexes of a table that are known at `epoch`."""
    found = []
    for name, relation in stored.catalog.relations.items():
        own = relation.kind == "index" and not relation.sql and relation.depends_on == (table,)
        if own and name in version.tables:
            found.append(name)
    if not found:
        return ()
    content = Content(version, stored.inputs)
    reached = (name for name in found if content.has(name, epoch))
    return tuple(version.tables[name] for name in reached if version.tables[name].safe_epoch <= epoch)

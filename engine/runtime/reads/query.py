"""Batch reads: a policy picks the epoch; small reads are answered by the store alone, everything else by Spark over it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa
import sqlglot.expressions as exp

from engine.hummock import Hummock
from engine.meta.catalog_store import StoredCatalog
from engine.meta.policy import epochs_of
from engine.runtime.reads.spark_read import answer as spark_answer
from engine.runtime.reads.spark_read import temporary_views, view_prefix
from engine.runtime.reads.store_read import answer_from_store
from engine.runtime.reads.system_read import (
    named_system_tables,
    system_rows,
    with_answers,
    with_system_tables,
)
from engine.runtime.reads.time_travel import place_of_moment
from engine.runtime.rows import visible_columns
from engine.sql.batch.ad_hoc import query_tables, spark_query
from engine.sql.dialect import Dialect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["query_rows", "select", "visible_columns"]


def select(
    store: Hummock,
    stored: StoredCatalog,
    spark: Callable[[], SparkSession],
    query: exp.Query,
    sql: str,
    dialect: Dialect,
    policy: str = "consistent",
) -> pa.Table:
    """Answer a query; `policy` says at which epoch each of its tables is read, unless FOR SYSTEM_TIME AS OF does."""
    query, system = named_system_tables(with_answers(query, dialect), stored.catalog)
    if system:
        return query_rows(store, stored, spark, query, sql, dialect, policy, system)
    answer = answer_from_store(store, stored, query, sql, dialect, policy)
    if answer is not None:
        return answer
    with place_of_moment(sql):
        return query_rows(store, stored, spark, query, sql, dialect, policy)


def query_rows(
    store: Hummock,
    stored: StoredCatalog,
    spark: Callable[[], SparkSession],
    query: exp.Query,
    sql: str,
    dialect: Dialect,
    policy: str = "consistent",
    system: tuple[str, ...] = (),
) -> pa.Table:
    """Return the rows of a query, computed by Spark; `system` are tables of the system that it reads."""
    version = store.version
    given = {name: system_rows(stored.catalog, name, dialect) for name in system}
    stored = with_system_tables(stored, system) if system else stored
    query_tables(query, stored.catalog, sql)
    written = spark_query(query, stored.catalog, dialect, view_prefix(), sql)
    tables = tuple(r.table for r in written.readings if r.moment is None and r.table not in given)
    epochs = epochs_of(version, stored, tables, policy)
    session = spark()
    with temporary_views(session, store, version, stored, written.readings, epochs, given=given):
        return spark_answer(session, written.text, sql)

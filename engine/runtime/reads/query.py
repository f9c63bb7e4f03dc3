"""Batch reads: a policy picks the epoch; small reads are answered by the store alone, everything else by Spark over it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import sqlglot.expressions as exp

from engine.hummock import Hummock
from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.meta.epochs.query_policy import choose_epochs
from engine.meta.epochs.ttl_reads import hide_expired_rows
from engine.runtime.reads.pg_sleep import build_pause_result, parse_pause
from engine.runtime.reads.spark_read import (
    TablesAtEpochs,
    make_view_prefix,
    register_temporary_views,
    run_spark_sql,
)
from engine.runtime.reads.store_read import answer_from_store
from engine.runtime.reads.system_read import (
    add_system_tables,
    build_system_rows,
    inline_client_functions,
    resolve_system_tables,
)
from engine.runtime.reads.time_travel import locate_moment_errors
from engine.runtime.rows import list_visible_columns
from engine.sql.batch.ad_hoc import build_spark_query, query_tables
from engine.sql.dialect import Dialect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["answer_query", "list_visible_columns", "run_spark_query"]


@dataclass(frozen=True)
class QueryRequest:
    """A query as it was asked: parsed from `sql`, and by which policy the epochs are chosen at which its tables are read."""

    query: exp.Query
    sql: str
    dialect: Dialect
    policy: str = "consistent"


def answer_query(
    store: Hummock, stored: StoredCatalog, spark: Callable[[], SparkSession], request: QueryRequest
) -> pa.Table:
    """Answer a query; the policy says at which epoch each of its tables is read, unless FOR SYSTEM_TIME AS OF does."""
    pause = parse_pause(request.query) if request.dialect != "spark" else None
    if pause is not None:
        store.clock.sleep(pause)
        return build_pause_result()
    query, system = resolve_system_tables(
        inline_client_functions(request.query, request.dialect), stored.catalog
    )
    request = replace(request, query=query)
    if system:
        return run_spark_query(store, stored, spark, request, system)
    answer = answer_from_store(store, stored, query, request.sql, request.dialect, request.policy)
    if answer is not None:
        return answer
    with locate_moment_errors(request.sql):
        return run_spark_query(store, stored, spark, request)


def run_spark_query(
    store: Hummock,
    stored: StoredCatalog,
    spark: Callable[[], SparkSession],
    request: QueryRequest,
    system: tuple[str, ...] = (),
) -> pa.Table:
    """Return the rows of a query, computed by Spark; `system` are tables of the system that it reads."""
    version = store.version
    system_rows = {name: build_system_rows(stored.catalog, name, request.dialect) for name in system}
    stored = add_system_tables(stored, system) if system else stored
    query_tables(request.query, stored.catalog, request.sql)
    spark_query = build_spark_query(
        request.query, stored.catalog, request.dialect, make_view_prefix(), request.sql
    )
    tables = tuple(r.table for r in spark_query.readings if r.moment is None and r.table not in system_rows)
    version = hide_expired_rows(version, tables, store.clock())
    at = TablesAtEpochs(store, version, stored, choose_epochs(version, stored, tables, request.policy))
    session = spark()
    with register_temporary_views(session, at, spark_query, replacements=system_rows):
        return run_spark_sql(session, spark_query.text, request.sql)

"""Batch reads: a policy picks the epoch; small reads are answered by the store alone, everything else by Spark over it."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from engine.hummock.monitoring.driver_traffic import track_rows, track_traffic
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
from engine.runtime.statement_context import StatementContext
from engine.sql.batch.ad_hoc import build_spark_query, query_tables
from engine.sql.statements.statement_types import Select

__all__ = ["execute_select", "list_visible_columns"]


def execute_select(statement: Select, context: StatementContext) -> pa.Table:
    """Answer a query; the policy says at which epoch each of its tables is read, unless FOR SYSTEM_TIME AS OF does."""
    stored = context.stored
    with track_traffic(context.store.counters, "query"):
        return track_rows(_answer_query(statement, stored, context))


def _answer_query(statement: Select, stored: StoredCatalog, context: StatementContext) -> pa.Table:
    store, dialect = context.store, context.dialect
    pause = parse_pause(statement.query) if dialect != "spark" else None
    if pause is not None:
        store.clock.sleep(pause)
        return build_pause_result()
    query, system = resolve_system_tables(inline_client_functions(statement.query, dialect), stored.catalog)
    statement = replace(statement, query=query)
    if system:
        return _run_by_spark(statement, stored, context, system)
    policy = _choose_policy(context)
    answer = answer_from_store(store, stored, query, statement.sql, dialect, policy)
    if answer is not None:
        return answer
    with locate_moment_errors(statement.sql):
        return _run_by_spark(statement, stored, context)


def _choose_policy(context: StatementContext) -> str:
    return context.policy or context.settings["query_policy"]


def _run_by_spark(
    statement: Select, stored: StoredCatalog, context: StatementContext, system: tuple[str, ...] = ()
) -> pa.Table:
    """Return the rows of a query, computed by Spark; `system` are tables of the system that it reads."""
    store, dialect = context.store, context.dialect
    version = store.version
    system_rows = {name: build_system_rows(stored.catalog, name, dialect) for name in system}
    stored = add_system_tables(stored, system) if system else stored
    query_tables(statement.query, stored.catalog, statement.sql)
    spark_query = build_spark_query(
        statement.query, stored.catalog, dialect, make_view_prefix(), statement.sql
    )
    tables = tuple(r.table for r in spark_query.readings if r.moment is None and r.table not in system_rows)
    version = hide_expired_rows(version, tables, store.clock())
    epochs = choose_epochs(version, stored, tables, _choose_policy(context))
    at = TablesAtEpochs(store, version, stored, epochs)
    session = context.spark()
    with register_temporary_views(session, at, spark_query, replacements=system_rows):
        return run_spark_sql(session, spark_query.text, statement.sql)

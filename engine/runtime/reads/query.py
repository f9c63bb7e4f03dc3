"""Batch reads: a policy picks the epoch; small reads are answered by the store alone, everything else by Spark over it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import sqlglot.expressions as exp

from engine.hummock import Hummock
from engine.meta.catalog_store import StoredCatalog
from engine.meta.policy import epochs_of
from engine.meta.present import at_present
from engine.runtime.reads.pauses import pause_of, paused
from engine.runtime.reads.spark_read import TablesAt, temporary_views, view_prefix
from engine.runtime.reads.spark_read import answer as spark_answer
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


@dataclass(frozen=True)
class Question:
    """A query as it was asked: parsed from `sql`, and by which policy the epochs are chosen at which its tables are read."""

    query: exp.Query
    sql: str
    dialect: Dialect
    policy: str = "consistent"


def select(
    store: Hummock, stored: StoredCatalog, spark: Callable[[], SparkSession], asked: Question
) -> pa.Table:
    """Answer a query; the policy says at which epoch each of its tables is read, unless FOR SYSTEM_TIME AS OF does."""
    pause = pause_of(asked.query) if asked.dialect != "spark" else None
    if pause is not None:
        store.clock.sleep(pause)
        return paused()
    query, system = named_system_tables(with_answers(asked.query, asked.dialect), stored.catalog)
    asked = replace(asked, query=query)
    if system:
        return query_rows(store, stored, spark, asked, system)
    answer = answer_from_store(store, stored, query, asked.sql, asked.dialect, asked.policy)
    if answer is not None:
        return answer
    with place_of_moment(asked.sql):
        return query_rows(store, stored, spark, asked)


def query_rows(
    store: Hummock,
    stored: StoredCatalog,
    spark: Callable[[], SparkSession],
    asked: Question,
    system: tuple[str, ...] = (),
) -> pa.Table:
    """Return the rows of a query, computed by Spark; `system` are tables of the system that it reads."""
    version = store.version
    given = {name: system_rows(stored.catalog, name, asked.dialect) for name in system}
    stored = with_system_tables(stored, system) if system else stored
    query_tables(asked.query, stored.catalog, asked.sql)
    written = spark_query(asked.query, stored.catalog, asked.dialect, view_prefix(), asked.sql)
    tables = tuple(r.table for r in written.readings if r.moment is None and r.table not in given)
    version = at_present(version, tables, store.clock())
    at = TablesAt(store, version, stored, epochs_of(version, stored, tables, asked.policy))
    session = spark()
    with temporary_views(session, at, written, given=given):
        return spark_answer(session, written.text, asked.sql)

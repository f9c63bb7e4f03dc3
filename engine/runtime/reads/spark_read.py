"""Queries answered by Spark: tables at their epochs become temporary views for as long as the query runs."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from engine.errors import SqlError
from engine.hummock import Hummock, Version
from engine.hummock.reads.write_times import WRITTEN_AT
from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.meta.epochs.query_policy import find_epochs_at
from engine.operators.compile import batch
from engine.operators.context import EpochContext, count_partitions
from engine.operators.lookups.scan import ReadTable, read_table
from engine.operators.lookups.table_parameters import TableAt
from engine.runtime.rows import create_frame
from engine.runtime.source_rows import get_source_reader
from engine.runtime.spark.errors import build_analysis_error, build_row_error
from engine.runtime.spark.session import EngineSpark
from engine.sql.batch.ad_hoc import SparkQuery, TableRead
from engine.sql.batch.time_travel import Moment
from engine.sql.expression.spark_sql import quote
from engine.sql.plan import Node, list_scans
from engine.sql.typing.types import has_untyped_keys

_queries = itertools.count(1)


def make_view_prefix() -> str:
    """Return a prefix for temporary views that no other query of this process has."""
    return f"_q{next(_queries)}_"


@dataclass(frozen=True)
class TablesAtEpochs:
    """The tables that a statement reads: as one version has them, each at its epoch; `now` is when the statement began."""

    store: Hummock
    version: Version
    stored: StoredCatalog
    epochs: Mapping[str, int]
    now: float = field(default_factory=time.time)


@contextmanager
def register_temporary_views(
    session: SparkSession,
    tables: TablesAtEpochs,
    query: SparkQuery,
    *,
    replacements: Mapping[str, pa.Table | DataFrame] | None = None,
) -> Iterator[None]:
    """Make the tables of a query known to Spark at their epochs, or at the moment that a reading names, and the rows of its plan.

    A table that is `given` has these rows instead of those of the store.
    """
    store, version, stored, readings = tables.store, tables.version, tables.stored, query.readings
    spark = EngineSpark.of(session)
    cores = spark.count_parallel_tasks()
    moments = {r.view: (r.table, r.moment) for r in readings if r.moment is not None}
    at_moments = _choose_epochs(moments, version, stored, tables.now)
    made = []
    try:
        for reading in readings if query.planned is None else ():
            if (replacements and reading.table in replacements) or stored.catalog.get(
                reading.table
            ).is_pass_through:
                found = (replacements or {}).get(reading.table)
                found = _read_visible_source(session, tables, reading, at_moments) if found is None else found
                frame = create_frame(session, found) if isinstance(found, pa.Table) else found
                frame.createOrReplaceTempView(reading.view)
                made.append(reading.view)
                continue
            table = version.tables[reading.table]
            relation = stored.catalog.get(reading.table)
            visible = (c for c in relation.columns if not c.hidden or reading.whole)
            items = tuple((column.name, column.storage_name) for column in visible)
            if reading.whole:
                items = (*items, (WRITTEN_AT, WRITTEN_AT))
            at = tables.epochs[reading.table] if reading.moment is None else at_moments[reading.view]
            parts = count_partitions(table.row_count, cores)
            source = TableAt(table, None, at)
            body = ReadTable(store.url, dict(store.options), source, items, parts=parts)
            rows = read_table(session, body, table.schema)
            rows.frame.createOrReplaceTempView(reading.view)
            made.append(reading.view)
        if query.planned is not None:
            frame = _build_plan_frame(session, tables, query.planned.plan, replacements or {})
            frame.createOrReplaceTempView(query.planned.view)
            made.append(query.planned.view)
        size = sum(version.tables[r.table].row_count for r in readings if r.table in version.tables)
        spark.configure("spark.sql.shuffle.partitions", str(count_partitions(size, cores)))
        spark.configure("spark.sql.adaptive.enabled", "true")
        yield
    finally:
        for view in made:
            session.catalog.dropTempView(view)


def _build_plan_frame(
    session: SparkSession,
    tables: TablesAtEpochs,
    plan: Node,
    replacements: Mapping[str, pa.Table | DataFrame],
) -> DataFrame:
    """Return the rows of a plan over tables at their epochs."""
    store, version, stored = tables.store, tables.version, tables.stored
    cores = EngineSpark.of(session).count_parallel_tasks()
    rows = {}
    for scan in list_scans(plan):
        relation = stored.catalog.relations.get(scan.table)
        if scan.table in replacements or (relation is not None and relation.is_pass_through):
            found = replacements.get(scan.table)
            if found is None:
                found = _read_source(session, tables, scan.table, tables.epochs[scan.table])
            frame = create_frame(session, found) if isinstance(found, pa.Table) else found
            rows[scan] = frame.selectExpr(
                *(f"{quote(column)} AS {quote(name)}" for name, column in scan.items)
            )
            continue
        table = version.tables[scan.table]
        source = TableAt(table, None, tables.epochs[scan.table])
        parts = count_partitions(table.row_count, cores)
        body = ReadTable(store.url, dict(store.options), source, scan.items, parts=parts)
        rows[scan] = read_table(session, body, table.schema).frame
    row_count = sum(version.tables[scan.table].row_count for scan in rows if scan.table in version.tables)
    context = EpochContext(
        session,
        store.url,
        store.options,
        version.tables,
        None,
        version.epoch,
        cores,
        row_count,
        input_frames=rows,
    )
    return batch(plan, context)


def _read_source(
    session: SparkSession, tables: TablesAtEpochs, name: str, epoch: int
) -> pa.Table | DataFrame:
    """Return the rows of a source, read where they are, as they were taken up to an epoch."""
    relation = tables.stored.catalog.get(name)
    return get_source_reader().rows(session, tables.store, relation, tables.version, epoch)


def _read_visible_source(
    session: SparkSession, tables: TablesAtEpochs, reading: TableRead, moments: Mapping[str, int]
) -> pa.Table | DataFrame:
    """Return the visible rows of a source as a query reads it; raises SqlError if it asks for what no source tells."""
    if reading.whole:
        hint = "CREATE TABLE … WITH (connector = …) keeps the rows, and when they came"
        raise SqlError(f"the rows of source {reading.table} have no hidden columns", hint=hint)
    epoch = tables.epochs[reading.table] if reading.moment is None else moments[reading.view]
    found = _read_source(session, tables, reading.table, epoch)
    visible = [c.name for c in tables.stored.catalog.get(reading.table).visible_columns]
    return (
        found.select(visible) if isinstance(found, pa.Table) else found.select(*(quote(c) for c in visible))
    )


def _choose_epochs(
    readings: Mapping[str, tuple[str, Moment]], version: Version, stored: StoredCatalog, now: float
) -> dict[str, int]:
    """Return the epoch of each temporary view that reads its table at a moment; tables of one moment are read at one epoch."""
    found = dict[str, int]()
    for moment in dict.fromkeys(moment for _, moment in readings.values()):
        views = {view: table for view, (table, at) in readings.items() if at == moment}
        epochs = find_epochs_at(dict.fromkeys(views.values(), moment), version, stored, now)
        found |= {view: epochs[table] for view, table in views.items()}
    return found


def run_spark_sql(session: SparkSession, text: str, sql: str) -> pa.Table:
    """Return the rows of a text in Spark SQL; errors name the place in `sql`, which the user wrote."""
    return collect_rows(analyze_sql(session, text, sql), sql)


def analyze_sql(session: SparkSession, text: str, sql: str) -> DataFrame:
    """Return the frame of a text in Spark SQL; raises SqlError with the place in `sql`."""
    try:
        frame = session.sql(text)
        frame.schema  # noqa: B018  a client analyses when it is asked for the schema
        return frame
    except AnalysisException as error:
        raise build_analysis_error(error, sql) from error


def collect_rows(frame: DataFrame, sql: str) -> pa.Table:
    """Return a frame's rows; raises SqlError or InvalidRow with the place in `sql`."""
    for column in frame.schema:
        if has_untyped_keys(kind := column.dataType.simpleString()):
            message = f"column {column.name} is {kind}: keys without a type are none of Arrow's"
            raise SqlError(
                message, sql=sql, line=1, column=1, hint="CAST it, as in CAST(map() AS MAP<STRING, INT>)"
            )
    try:
        return frame.toArrow()
    except AnalysisException as error:
        raise build_analysis_error(error, sql) from error
    except PySparkException as error:
        raise build_row_error(error, sql) from error

"""Where small epochs of a plan will be computed, and why not in a cheaper place: known before there is a row.

The frame of each fragment is built as for an epoch in which all of its inputs have changed, over tables without rows.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from engine.hummock import Hummock, Table, TableVersion
from engine.hummock.version import Generation, LogEntry
from engine.meta.catalog.stored_catalog import build_table
from engine.meta.epochs.time_boundary import is_timed
from engine.operators.context import EpochContext
from engine.operators.lookups.table_parameters import TableParameters
from engine.operators.materialize import write_rows
from engine.operators.shared_task import BY_THE_CLOCK
from engine.operators.spark_reasons import collect_reasons
from engine.runtime.epoch.epoch_run import choose_rule
from engine.runtime.epoch.prepared_frames import PreparedFrame
from engine.runtime.executor import Place, Way
from engine.sql.catalog import Catalog
from engine.sql.incremental.fragments import Fragment, IncrementalPlan, build_index_fragment
from engine.sql.incremental.rules import FullRefresh, IndexCopy

_OLD, _NEW = 1, 2


def forecast_ways(
    plan: IncrementalPlan, catalog: Catalog, store: Hummock, spark: SparkSession
) -> dict[str, Way]:
    """Return of each table of a plan where its small epochs are computed."""
    tables = {name: version.table for name, version in store.version.tables.items()}
    tables |= {
        one.table: build_table(one)
        for one in (*(build_index_fragment(*index, catalog) for index in plan.indexes), *plan.fragments)
    }
    return {one.table: _forecast_way(one, plan, tables, store, spark) for one in plan.fragments}


def _forecast_way(
    fragment: Fragment,
    plan: IncrementalPlan,
    tables: dict[str, Table],
    store: Hummock,
    spark: SparkSession,
) -> Way:
    if isinstance(fragment.rule, FullRefresh):
        return Way(Place.SPARK, "the whole content is computed")
    if isinstance(fragment.rule, IndexCopy):
        return Way(Place.SHARED)
    names = (fragment.table, *plan.list_dependencies(fragment))
    changed = {name: _build_changed(tables[name], at) for at, name in enumerate(dict.fromkeys(names))}
    parameters = TableParameters()
    context = EpochContext(
        spark, store.url, store.options, changed, _OLD, _NEW, 1, 1, parameters=parameters, exact=False
    )
    table = tables[fragment.table]
    with collect_reasons() as reasons:
        change = choose_rule(fragment, context)(context)
        if change is None:
            return Way(Place.NOWHERE, "nothing that it reads changes")
        flow = write_rows(change, table, context)
    frame = PreparedFrame((fragment.table, (), False), fragment, table, flow, parameters)
    if frame.body is not None:
        return Way(Place.ARROW, BY_THE_CLOCK) if is_timed(fragment) else Way(Place.SHARED)
    return Way(Place.SPARK, "; ".join(reasons) or "its rule has an operator that is Spark's")


def _build_changed(table: Table, number: int) -> TableVersion:
    """Return a table without rows, of which the log says that it has changed."""
    log, generations = (LogEntry(_NEW, ()),), (Generation(_OLD, ()),)
    return TableVersion(table, number, _NEW, log=log, generations=generations)

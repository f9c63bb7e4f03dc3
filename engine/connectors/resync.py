"""ALTER TABLE … RESYNC: a table is brought to what its source holds now, by the difference alone."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import SparkSession

from engine.connectors.contract import connector_of
from engine.connectors.registry import CONNECTORS
from engine.errors import SqlError
from engine.hummock import Hummock
from engine.hummock.driver_traffic import traffic_of
from engine.meta.catalog_store import StoredCatalog
from engine.runtime.relations import known, place_of
from engine.sql.statements.statement_types import Alter


def resync(store: Hummock, stored: StoredCatalog, statement: Alter, spark: Callable[[], SparkSession]) -> str:
    """Write the difference between a table and its source; returns the notice of what was not taken, else "".

    Raises SqlError with the place for a table whose source does not tell all its rows again.
    """
    if statement.if_exists and statement.name not in stored.catalog.relations:
        return ""
    relation = known(stored, "table", statement.name, statement.sql)
    connector = CONNECTORS.all().get(connector_of(relation))
    if connector is None or not connector.resyncs:
        line, column = place_of(relation.name, statement.sql)
        following = [f"connector = '{name}'" for name, one in CONNECTORS.all().items() if one.resyncs]
        message = f"{relation.name} follows no source that tells all its rows again"
        hint = f"RESYNC is for tables WITH ({' or '.join(following)})"
        raise SqlError(message, sql=statement.sql, line=line, column=column, hint=hint)
    with traffic_of(store.counters, f"source {relation.name}"):
        report = connector.source(store, relation).resync(spark)
    return "; ".join((f"{report.rows} rows were written", *report.warnings))

"""ALTER TABLE … RESYNC: a table is brought to what its source holds now, by the difference alone."""

from __future__ import annotations

from engine.connectors.contract.connector import get_connector_name
from engine.connectors.registry import CONNECTORS
from engine.errors import SqlError
from engine.hummock.monitoring.driver_traffic import track_traffic
from engine.meta.status.relation_status import SOURCE_PAUSED
from engine.runtime.relations import locate_name, resolve_relation
from engine.runtime.statement_context import StatementContext
from engine.sql.statements.statement_types import Alter


def resync(statement: Alter, context: StatementContext) -> str:
    """Write the difference between a table and its source; returns the notice of what was not taken, else "".

    Raises SqlError with the place for a table whose source does not tell all its rows again.
    """
    store, stored = context.store, context.stored
    if statement.if_exists and statement.name not in stored.catalog.relations:
        return ""
    relation = resolve_relation(stored, "table", statement.name, statement.sql)
    if store.is_branch and get_connector_name(relation):
        line, column = locate_name(relation.name, statement.sql)
        message = f"the source of {relation.name} is {SOURCE_PAUSED}"
        raise SqlError(message, sql=statement.sql, line=line, column=column, hint="RESYNC it in the parent")
    connector = CONNECTORS.list_plugins().get(get_connector_name(relation))
    if connector is None or not connector.can_resync:
        line, column = locate_name(relation.name, statement.sql)
        following = [
            f"connector = '{name}'" for name, one in CONNECTORS.list_plugins().items() if one.can_resync
        ]
        message = f"{relation.name} follows no source that can repeat all its rows"
        hint = f"RESYNC is for tables WITH ({' or '.join(following)})"
        raise SqlError(message, sql=statement.sql, line=line, column=column, hint=hint)
    with track_traffic(store.counters, f"source {relation.name}"):
        report = connector.open_source(store, relation).resync(context.spark)
    return "; ".join((f"{report.rows} rows were written", *report.warnings))

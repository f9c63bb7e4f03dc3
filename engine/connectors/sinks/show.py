"""SHOW SINKS: what every sink reads, where to, and how far it is."""

from __future__ import annotations

import pyarrow as pa

from engine.connectors.sinks.options import SinkOptions
from engine.meta.catalog.stored_catalog import load_catalog
from engine.meta.status.sinks import compute_progress, find_sink_source, list_sinks, read_sink_state
from engine.runtime.statement_context import StatementContext
from engine.sql.catalog import Relation
from engine.sql.statements.ddl.sink_statements import ShowSinks, sink_view_name


def execute_show_sinks(statement: ShowSinks, context: StatementContext) -> pa.Table:
    """Return what every sink reads, where to, and how far it is, with its error, if only this process knows of it."""
    version, errors = context.store.refresh(), context.session.sinks.collect_errors()
    now = context.store.clock()
    rows = []
    for relation in list_sinks(load_catalog(version)):
        at, options = compute_progress(version, relation), SinkOptions.of(relation.options)
        error = read_sink_state(version, relation.name).lapsed or errors.get(relation.name)
        rows.append(
            {
                "name": relation.name,
                "from": _find_source_name(relation),
                "to": options.into or options.url,
                "type": relation.options["type"],
                "phase": at.phase,
                "epoch": at.epoch,
                "lag_rows": at.rows,
                "lag_bytes": at.bytes,
                "lag_seconds": round(at.lag_seconds(now), 1),
                "error": error,
            }
        )
    kinds: dict[str, pa.DataType] = {
        "epoch": pa.int64(),
        "lag_rows": pa.int64(),
        "lag_bytes": pa.int64(),
        "lag_seconds": pa.float64(),
    }
    names = ("name", "from", "to", "type", "phase", *kinds, "error")
    return pa.Table.from_pylist(rows, pa.schema([(name, kinds.get(name, pa.string())) for name in names]))


def _find_source_name(relation: Relation) -> str:
    source = find_sink_source(relation)
    return "(query)" if source == sink_view_name(relation.name) else source

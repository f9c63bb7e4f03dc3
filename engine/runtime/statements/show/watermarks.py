"""SHOW WATERMARKS: how far the time of each table has come, and how many of its rows were below that."""

from __future__ import annotations

import pyarrow as pa

from engine.meta.catalog.stored_catalog import load_catalog
from engine.meta.status.watermarks import report_watermarks
from engine.runtime.statement_context import StatementContext
from engine.runtime.writes.watermarks import LATE_ROWS
from engine.sql.statements.session.session_statements import ShowWatermarks

_COLUMNS: dict[str, pa.DataType] = {
    "name": pa.string(),
    "column": pa.string(),
    "watermark": pa.string(),
    "late_rows": pa.int64(),
    "late_rows_are": pa.string(),
}
_SCHEMA = pa.schema(list(_COLUMNS.items()))


def execute_show_watermarks(statement: ShowWatermarks, context: StatementContext) -> pa.Table:
    """Return a row for each table with a watermark; one that got no row with a time yet has none."""
    store = context.store
    version = store.refresh()
    stored, found = load_catalog(version), []
    for name, one in report_watermarks(store.reader, version, stored).items():
        keeps_late = stored.catalog.relations[name].options.get(LATE_ROWS) == "keep"
        found.append(
            {
                "name": name,
                "column": one.column,
                "watermark": one.at,
                "late_rows": one.late_rows,
                "late_rows_are": "kept" if keeps_late else "counted",
            }
        )
    return pa.Table.from_pylist(found, _SCHEMA)

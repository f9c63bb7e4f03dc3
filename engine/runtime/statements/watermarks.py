"""SHOW WATERMARKS: how far the time of each table has come, and how many of its rows were below that."""

from __future__ import annotations

import datetime

import pyarrow as pa

from engine.hummock import Hummock
from engine.meta.catalog_store import load
from engine.runtime.writes.watermarks import LATE_ROWS
from engine.sql.catalog import LATE, WATERMARK, watermark_name

_COLUMNS: dict[str, pa.DataType] = {
    "name": pa.string(),
    "column": pa.string(),
    "watermark": pa.string(),
    "late_rows": pa.int64(),
    "late_rows_are": pa.string(),
}
_SCHEMA = pa.schema(list(_COLUMNS.items()))


def show_watermarks(store: Hummock) -> pa.Table:
    """Return a row for each table with a watermark; one that got no row with a time yet has none."""
    found = []
    for name, relation in sorted(load(store.refresh()).catalog.relations.items()):
        if relation.watermark is None:
            continue
        column = next(c.name for c in relation.columns if c.source == relation.watermark.column)
        rows = [row for batch in store.iter(watermark_name(name)) for row in batch.to_pylist()]
        at = rows[0][WATERMARK] if rows else None
        at = at.replace(tzinfo=None) if isinstance(at, datetime.datetime) else at
        kept = relation.options.get(LATE_ROWS) == "keep"
        found.append(
            {
                "name": name,
                "column": column,
                "watermark": None if at is None else str(at),
                "late_rows": rows[0][LATE] if rows else 0,
                "late_rows_are": "kept" if kept else "counted",
            }
        )
    return pa.Table.from_pylist(found, _SCHEMA)

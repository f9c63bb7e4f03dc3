"""SHOW SINKS: what every sink reads, where to, and how far it is."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from engine.connectors.sinks.options import SinkOptions
from engine.hummock import Version
from engine.meta.catalog_store import load
from engine.meta.sinks import sinks, source_of, standing, state_of
from engine.sql.catalog import Relation
from engine.sql.statements.sink_statements import view_of


def show_sinks(version: Version, errors: Mapping[str, str], now: float) -> pa.Table:
    """Return what every sink reads, where to, and how far it is; `errors` are those that this process knows of."""
    rows = []
    for relation in sinks(load(version)):
        at, options = standing(version, relation), SinkOptions.of(relation.options)
        error = state_of(version, relation.name).lapsed or errors.get(relation.name)
        rows.append(
            {
                "name": relation.name,
                "from": _read_by(relation),
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


def _read_by(relation: Relation) -> str:
    source = source_of(relation)
    return "(query)" if source == view_of(relation.name) else source

"""Rows of a large INSERT held against the table's watermark by Spark: the late ones are left out, and counted."""

from __future__ import annotations

from pyspark.sql import DataFrame

from engine.hummock.monitoring.driver_traffic import track_rows
from engine.runtime.rows import to_stored_names
from engine.runtime.writes.watermarks import ArrivingRows
from engine.sql.expression.spark_sql import quote

_UNITS = {"timestamp": "unix_micros({0})", "date": "unix_date({0})"}
_NTZ = "unix_micros(CAST({0} AS TIMESTAMP_LTZ))"


def filter_late(arrivals: ArrivingRows, rows: DataFrame) -> DataFrame:
    """Return the rows of a relation, under its own names, that are not late; the others are recorded."""
    if not arrivals.has_watermark:
        return rows
    relation = arrivals.relation
    column = next(one for one in relation.columns if one.storage_name == arrivals.watermark.column)
    form = _NTZ if column.type == "timestamp_ntz" else _UNITS.get(column.type, "CAST({0} AS BIGINT)")
    number = form.format(quote(column.name))
    late = "false" if arrivals.before is None else f"coalesce({number} < {arrivals.before}L, false)"
    found = rows.selectExpr(f"max({number})", f"count_if({late})").collect()[0]
    stored = None
    if found[1] and arrivals.retains_late:
        names = [one.name for one in relation.columns]
        late_rows = track_rows(rows.where(late).select(*map(quote, names)).toArrow())
        stored = to_stored_names(relation, late_rows)
    arrivals.record(found[0], int(found[1]), stored)
    return rows.where(f"NOT ({late})") if found[1] else rows

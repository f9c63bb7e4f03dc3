"""How many of a statement's rows this process may hold, and which statements surely have no more."""

from __future__ import annotations

import re

from engine.hummock import Version
from engine.runtime.mebibytes import MebibyteSetting
from engine.sql.batch.ad_hoc import SparkQuery
from engine.sql.plan import list_scans

SETTING = "TIDELINE_DRIVER_ROWS_MB"
DRIVER_LIMIT = MebibyteSetting(SETTING, 64.0)
"""How many bytes of a statement's rows the driver process holds at most."""
_MORE = re.compile(
    r"\b(LATERAL|\w*EXPLODE\w*|INLINE\w*|STACK|JSON_TUPLE|RANGE|UNPIVOT|CUBE|ROLLUP|GROUPING|RECURSIVE|UNNEST"
    r"|REPEAT|SPACE|LPAD|RPAD|SEQUENCE|ARRAY_REPEAT|COLLECT_\w+|\w+_AGG|CONCAT_WS)\b",
    re.IGNORECASE,
)
"""Words of Spark SQL that may make more rows, or much wider ones, than a query reads; a name that is such a word does no harm."""


def is_surely_small(version: Version, query: SparkQuery, limit: int, *, only: str | None = None) -> bool:
    """Whether a query gives at most `limit` bytes of rows, judged by the rows that its tables hold.

    A row for each combination of rows is the most that joins can give; with `only` there is one for each row of that table.
    """
    if _MORE.search(query.text) or query.planned is not None:
        return False
    rows, width = 1.0, 0.0
    for reading in query.readings:
        if reading.moment is not None:
            return False
        if only is not None and (reading.table != only or width):
            continue
        ssts = version.tables[reading.table].live_ssts
        row_count = max(1, sum(sst.rows for sst in ssts))
        times = 1 if only is not None else max(1, query.text.count(reading.view))
        rows *= float(row_count) ** min(times, 20)
        width += times * sum(sst.size for sst in ssts) / row_count
    return rows * width <= limit


def estimate_tasks(query: SparkQuery, cores: int, parts: int) -> int:
    """Return about how many tasks may give rows of a query: `parts` that read each of its tables, and those of a shuffle."""
    mentions = sum(query.text.count(reading.view) for reading in query.readings)
    return cores + parts * (1 + (mentions if query.planned is None else len(list_scans(query.planned.plan))))

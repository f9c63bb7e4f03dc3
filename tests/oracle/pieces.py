"""Parts of what a session answers: the views of one joint answer, and the rows that are not of some partitions."""

from __future__ import annotations

import pyarrow as pa


def split(found: pa.Table, count: int) -> list[pa.Table]:
    """Return the parts of a join of parts that do not meet, each without the column that tells it."""
    starts = [at for at, name in enumerate(found.column_names) if name.startswith("w_")]
    pieces = []
    for n, start in enumerate(starts[:count]):
        end = starts[n + 1] if n + 1 < len(starts) else found.num_columns
        rows = found.filter(found.column(start).is_valid())
        pieces.append(rows.select(list(range(start + 1, end))))
    return pieces


def without(rows: pa.Table, partitions: set[str]) -> pa.Table:
    """Return the rows whose first column names none of these partitions."""
    texts = [
        "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        for value in rows.column(0).to_pylist()
    ]
    return rows.filter(pa.array([text not in partitions for text in texts], pa.bool_()))

"""Which row made an epoch fail: the changed rows are halved until one is left whose result cannot be computed.

Only a failing epoch pays for it, some twenty small jobs for a million changed rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException

from engine.errors import RowFailed
from engine.hummock import Reader, TableVersion
from engine.hummock.hash import xxhash64
from engine.hummock.merge import HASHES, HIGHEST, LOWEST
from engine.meta.catalog_store import table_of
from engine.operators.context import EpochContext
from engine.operators.flow import Rows, as_frame
from engine.sql.fragments import Fragment
from engine.sql.plan import Scan, scans

BUDGET_SECONDS = 120.0
MOST_ROWS = 2_000_000
DATA_EXCEPTION = "22"  # the class of SQLSTATE for values on which an expression fails
Change = Callable[[Fragment, EpochContext], Rows | None]


def is_row_error(error: PySparkException) -> bool:
    """Tell whether an expression failed on a value: a division by zero, an overflow, a wrong cast."""
    return (error.getSqlState() or "").startswith(DATA_EXCEPTION)


def named(
    error: PySparkException, fragment: Fragment, context: EpochContext, reader: Reader, change: Change
) -> RowFailed:
    """Return the error of an epoch with the key of the row that made it fail, as far as one row alone does.

    `change` is the function that computes a fragment's change.
    """
    found = None if fragment.rule == "full" else _failing_row(error, fragment, context, reader, change)
    where = "" if found is None else f"\n  the row of {found[0]} with key {found[1]}"
    return RowFailed(
        f"{reason_of(error)}{where}\n  correct the row, or make the view WITH (on_row_error = 'null'); nothing is lost, "
        "the next run starts where this one did"
    )


def reason_of(error: PySparkException) -> str:
    """Return what Spark says of a failing row, in one line."""
    reason = (error.getMessage() or str(error)).splitlines()[0]
    condition = error.getCondition() or type(error).__name__
    return reason if condition in reason else f"[{condition}] {reason}"


def _failing_row(
    error: PySparkException, fragment: Fragment, context: EpochContext, reader: Reader, change: Change
) -> tuple[str, dict[str, object]] | None:
    deadline = time.monotonic() + BUDGET_SECONDS
    condition = error.getCondition()
    empty = {fragment.table: TableVersion(table_of(fragment), 0)}  # of a first build: there is no table yet
    context = replace(context, tables={**empty, **context.tables})

    def fails(scan: Scan, low: int, high: int) -> bool:
        piece = replace(context, old=context.new, piece=(scan, (low, high)), rows_in=1, terms=0, blanks=None)
        try:
            rows = change(fragment, piece)
            if rows is not None:
                as_frame(rows).write.format("noop").mode("overwrite").save()
        except PySparkException as other:
            return other.getCondition() == condition
        return False

    for scan in scans(fragment.plan):
        rows = _changed_rows(scan, context, reader)
        if rows is None or not len(rows):
            continue
        table = context.tables[scan.table]
        by = table.distribution_key
        hashes = xxhash64([rows.column(name) for name in by]) if by else np.zeros(len(rows), np.int64)
        candidates = np.unique(hashes)
        if not fails(scan, int(candidates[0]), int(candidates[-1])):
            continue
        while len(candidates) > 1 and time.monotonic() < deadline:
            half = candidates[: len(candidates) // 2]
            lower = fails(scan, int(half[0]), int(half[-1]))
            candidates = half if lower else candidates[len(half) :]
        if len(candidates) == 1:
            first = rows.filter(pa.array(hashes == candidates[0])).slice(0, 1)
            return scan.table, first.to_pylist()[0]
    return None


def _changed_rows(scan: Scan, context: EpochContext, reader: Reader) -> pa.Table | None:
    """Return the keys of the rows that came in, None if they are too many to look at."""
    table = context.tables[scan.table]
    keys = list(table.primary_key)
    if context.old is None or context.piece is not None:
        driver, within = context.piece or (scan, (LOWEST, HIGHEST))
        share = (within[1] - within[0] + 1) / HASHES
        if scan is not driver or table.row_count * share > MOST_ROWS:
            return None
        return pa.Table.from_batches(
            list(reader.scan(table, context.new, columns=keys, hash_range=within)),
            pa.schema([table.schema.field(name) for name in keys]),
        )
    if table.changed_rows(context.old, context.new) > MOST_ROWS:
        return None
    batches = [
        batch.filter(pa.array(batch.column("_w").to_numpy() > 0)).select(keys)
        for batch in reader.changes(table, context.old, context.new)
    ]
    return pa.Table.from_batches(batches) if batches else None

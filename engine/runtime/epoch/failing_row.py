"""Which row made an epoch fail: the changed rows are halved until one is left whose result cannot be computed.

Only a failing epoch pays for it, some twenty small jobs for a million changed rows; and only who asks, so that nobody waits for
it who has something to commit.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException

from engine.arrow import as_rows
from engine.errors import EpochExpired, RowFailed
from engine.hummock import Reader, TableVersion
from engine.hummock.monitoring.driver_traffic import track_rows, track_traffic
from engine.hummock.reads.merge import HASHES, HIGHEST, LOWEST
from engine.hummock.rows.expiry import disable_expiry
from engine.hummock.rows.row_hash import xxhash64
from engine.meta.catalog.stored_catalog import build_table
from engine.meta.domains.failures import FailedRow
from engine.operators.change import Change
from engine.operators.context import EpochContext
from engine.operators.flow import as_frame
from engine.python_functions.definition import is_problem
from engine.sql.expression.limbs import is_bigint_sum
from engine.sql.incremental.fragments import Fragment
from engine.sql.incremental.rules import FullRefresh
from engine.sql.plan import Filter, Node, Project, Scan, list_scans

BUDGET_SECONDS = 120.0
MOST_ROWS = 2_000_000
DATA_EXCEPTION = "22"  # the class of SQLSTATE for values on which an expression fails
RAISED = "USER_RAISED_EXCEPTION"
WHAT_NOW = (
    "correct the row, or make the view WITH (on_row_error = 'null'); nothing is lost, "
    "the next run starts where this one did"
)
SUM_TOO_LARGE = (
    f"[ARITHMETIC_OVERFLOW] a sum is no BIGINT, which goes from {-(1 << 63)} to {(1 << 63) - 1}: "
    "sum CAST(n AS DECIMAL(38, 0))"
)
"""What is said of a sum that is kept in parts, whose arithmetic nobody wrote."""
ComputeChange = Callable[[Fragment, EpochContext], Change | None]


def is_row_error(error: PySparkException) -> bool:
    """Tell whether an expression failed on a value: a division by zero, an overflow, a wrong cast, a function in Python."""
    if (error.getCondition() or "") == RAISED:
        return is_problem((error.getMessage() or "").removeprefix(f"[{RAISED}] "))
    return (error.getSqlState() or "").startswith(DATA_EXCEPTION)


def build_row_error(
    error: PySparkException, fragment: Fragment, context: EpochContext, reader: Reader, change: ComputeChange
) -> RowFailed:
    """Return the failure of an epoch, which can tell on which row if it is asked to search.

    `change` is the function that computes a fragment's change.
    """
    empty = {
        fragment.table: TableVersion(build_table(fragment), 0)
    }  # of a first build: there is no table yet
    context = replace(context, tables={**empty, **context.tables})
    return RowSearcher(error, fragment, context, reader, change).build_error(None)


def format_reason(error: PySparkException) -> str:
    """Return what Spark says of a failing row, in one line."""
    with suppress(Exception):  # a client without the call
        if any(is_bigint_sum(part.fragment()) for part in error.getQueryContext() or ()):
            return SUM_TOO_LARGE
    reason = (error.getMessage() or str(error)).splitlines()[0]
    condition = error.getCondition() or type(error).__name__
    return reason if condition in reason else f"[{condition}] {reason}"


@dataclass(frozen=True)
class RowSearcher:
    """Searches the changed rows of an epoch that failed for one that fails alone; nothing is read before it is asked to."""

    error: PySparkException
    fragment: Fragment
    context: EpochContext
    reader: Reader
    change: ComputeChange

    def build_error(self, row: FailedRow | None) -> RowFailed:
        """Return the failure with a row that is known to be the one, None: without any."""
        reason = format_reason(self.error)
        where = "" if row is None else f"\n  {row.text}"
        failure = RowFailed(f"{reason}{where}\n  {WHAT_NOW}", reason)
        failure.row = row
        whole = isinstance(self.fragment.rule, FullRefresh)
        failure.search = None if row is not None or whole else self
        return failure

    def find(self, remembered: FailedRow | None, seconds: float) -> RowFailed:
        """Return the failure with its row, if one alone fails; first `remembered` is tried, the one of the last time."""
        if remembered is not None and (self._is_unchanged(remembered) or self._still_fails(remembered)):
            return self.build_error(msgspec.structs.replace(remembered, epoch=self.context.new))
        with track_traffic(self.reader.files.counters, f"search {self.fragment.table}"):
            return self.build_error(self._search(time.monotonic() + min(seconds, BUDGET_SECONDS)))

    def _fails(self, scan: Scan, low: int, high: int) -> bool:
        """Tell whether the rows of a scan in a range of hashes fail as the epoch did."""
        context = self.context
        piece = replace(context, old=context.new, piece=(scan, (low, high)), rows_in=1, parameters=None)
        try:
            found = self.change(self.fragment, piece)
            if found is not None:
                as_frame(found.rows).write.format("noop").mode("overwrite").save()
        except PySparkException as other:
            return other.getCondition() == self.error.getCondition()
        return False

    def _is_unchanged(self, row: FailedRow) -> bool:
        """Tell whether a row fails for certain: nothing but itself decides, and it is as it was when it failed so."""
        table = self.context.tables.get(row.table)
        if (
            table is None
            or row.reason != format_reason(self.error)
            or not _is_linear(self.fragment.plan, row.table)
        ):
            return False
        if table.count_changed_rows(row.epoch, self.context.new) > MOST_ROWS:
            return False
        hashes = (row.hash, row.hash)
        try:
            changes = self.reader.read_changes(
                disable_expiry(table), row.epoch, self.context.new, hash_range=hashes
            )
            return not any(batch.num_rows for batch in changes)
        except EpochExpired:  # the log that could tell is gone
            return False

    def _still_fails(self, row: FailedRow) -> bool:
        driver, (low, high) = self.context.piece or (None, (LOWEST, HIGHEST))
        return low <= row.hash <= high and any(
            self._fails(scan, row.hash, row.hash)
            for scan in list_scans(self.fragment.plan)
            if scan.table == row.table and driver in (None, scan)
        )

    def _search(self, deadline: float) -> FailedRow | None:
        for scan in list_scans(self.fragment.plan):
            rows = _read_changed_keys(scan, self.context, self.reader)
            if rows is None or not len(track_rows(rows)):
                continue
            table = self.context.tables[scan.table]
            by = table.distribution_key
            hashes = xxhash64([rows.column(name) for name in by]) if by else np.zeros(len(rows), np.int64)
            candidates = np.unique(hashes)
            if not self._fails(scan, int(candidates[0]), int(candidates[-1])):
                continue
            while len(candidates) > 1 and time.monotonic() < deadline:
                half = candidates[: len(candidates) // 2]
                lower = self._fails(scan, int(half[0]), int(half[-1]))
                candidates = half if lower else candidates[len(half) :]
            if len(candidates) == 1:
                first = rows.filter(pa.array(hashes == candidates[0])).slice(0, 1)
                key, reason = str(as_rows(first)[0]), format_reason(self.error)
                return FailedRow(scan.table, key, int(candidates[0]), self.context.new, reason)
        return None


def _is_linear(plan: Node, table: str) -> bool:
    """Tell whether each row of a plan is computed from one row of a table alone."""
    while isinstance(plan, Project | Filter):
        plan = plan.input
    return isinstance(plan, Scan) and plan.table == table


def _read_changed_keys(scan: Scan, context: EpochContext, reader: Reader) -> pa.Table | None:
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
    if table.count_changed_rows(context.old, context.new) > MOST_ROWS:
        return None
    batches = [
        batch.filter(pa.array(batch.column("_w").to_numpy() > 0)).select(keys)
        for batch in reader.read_changes(disable_expiry(table), context.old, context.new)
    ]
    return pa.Table.from_batches(batches) if batches else None

"""Retention: for how long the changes of a table wait for a reader that lags."""

from __future__ import annotations

from engine.hummock import TableVersion
from engine.hummock.epoch import seconds_of

READERS_SECONDS = 7 * 24 * 3600.0
"""Where the table has no retention of its own; history for queries is kept for the store's, which is shorter."""


def find_release_time(table: TableVersion, committed: int) -> float | None:
    """Return when the changes above `committed` are let go, in seconds since 1970; None where there are none."""
    first = table.find_first_change(committed)
    own = table.table.options.retention_seconds
    return None if first is None else seconds_of(first) + (READERS_SECONDS if own is None else own)

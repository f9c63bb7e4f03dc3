"""Bytes of rows and of tasks' answers that pass through this process, counted for the piece of work for which they pass.

What a piece of work reads far below is counted there by `passed` or `held`; `track_traffic` says above for whom. Tasks on
executors do the same work without a `track_traffic` around it: theirs passes no driver, and nothing is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import pyarrow as pa

from engine.hummock.metrics import Counters


@dataclass
class Traffic:
    """What has passed so far for one piece of work."""

    counters: Counters
    what: str
    bytes: int = 0


_current_traffic: ContextVar[Traffic | None] = ContextVar("driver_traffic", default=None)


@contextmanager
def track_traffic(counters: Counters, what: str) -> Iterator[Traffic]:
    """Count what passes in this thread meanwhile for `what`, a kind and mostly a name, such as "source orders".

    What passes for a piece of work within another one is counted for the inner one alone.
    """
    traffic = Traffic(counters, what)
    before = _current_traffic.set(traffic)
    try:
        yield traffic
    finally:
        _current_traffic.reset(before)


def track_bytes(size: int) -> None:
    """Count bytes for the work that is under way in this thread."""
    if (traffic := _current_traffic.get()) is not None:
        traffic.bytes += size
        traffic.counters.add_driver_bytes(traffic.what, size)


def track_rows(rows: pa.Table) -> pa.Table:
    """Return rows that this process has come to hold, counted."""
    track_bytes(rows.nbytes)
    return rows

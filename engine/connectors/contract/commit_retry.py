"""Commits that other writers may be faster with: read again, and try again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from engine.errors import Conflict, SourceError, WriteStopped
from engine.hummock import Hummock

Result = TypeVar("Result")
RACE_ATTEMPTS = 50
STOPS = 2
"""How often files are merged for a table whose writes are stopped until that is done."""


def commit_with_retry(store: Hummock, table: str, attempt: Callable[[], Result]) -> Result:
    """Return what an attempt returns that no other writer was in the way of; raises SourceError if others always are."""
    stops = 0
    for _ in range(RACE_ATTEMPTS):
        try:
            return attempt()
        except Conflict:
            store.refresh()
        except WriteStopped as stop:
            if (stops := stops + 1) > STOPS:
                raise
            store.compact_l0(stop.table)
    raise SourceError(f"table {table}: other writers were faster {RACE_ATTEMPTS} times: poll again")

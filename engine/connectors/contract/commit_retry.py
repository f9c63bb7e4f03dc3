"""Commits of what sources bring, which other writers may be faster with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from engine.errors import SourceError
from engine.hummock import Hummock
from engine.hummock.transact import POLL, commit_with_retry

Result = TypeVar("Result")


def commit_polled(store: Hummock, table: str, attempt: Callable[[], Result]) -> Result:
    """Return what an attempt returns that no other writer was in the way of; raises SourceError if others always are."""
    return commit_with_retry(store, attempt, POLL, build_error=lambda lost: _build_error(table, lost))


def _build_error(table: str, lost: int) -> SourceError:
    return SourceError(f"table {table}: other writers were faster {lost} times: poll again")

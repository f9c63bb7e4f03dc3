"""Views whose query was replaced while their rows stayed: the next epoch computes them as a whole, and commits the difference."""

from __future__ import annotations

from collections.abc import Iterable

from engine.hummock import Version
from engine.meta.catalog.records import Prefix, Record

_REPLACED = Record(Prefix.REPLACED, str, str)


def list_replaced_tables(version: Version) -> frozenset[str]:
    """Return the tables whose rows are those of a query that they had before."""
    return frozenset(_REPLACED.list(version))


def mark_replaced(table: str) -> dict[str, str | None]:
    """Return the catalog entry that says so of a table."""
    return _REPLACED.record(table, "")


def clear_replaced(version: Version, tables: Iterable[str]) -> dict[str, str | None]:
    """Return the catalog entries that go as tables are brought on, or dropped."""
    return _REPLACED.remove_existing(version, tables)

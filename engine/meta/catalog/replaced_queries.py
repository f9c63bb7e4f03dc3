"""Views whose query was replaced while their rows stayed: the next epoch computes them as a whole, and commits the difference."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from engine.hummock import Version

REPLACED_PREFIX = "replaced/"


def list_replaced_tables(version: Version) -> frozenset[str]:
    """Return the tables whose rows are those of a query that they had before."""
    return version.catalog.derive(_read_replaced)


def mark_replaced(table: str) -> dict[str, str | None]:
    """Return the catalog entry that says so of a table."""
    return {REPLACED_PREFIX + table: ""}


def clear_replaced(version: Version, tables: Iterable[str]) -> dict[str, str | None]:
    """Return the catalog entries that go as tables are brought on, or dropped."""
    there = list_replaced_tables(version)
    return {REPLACED_PREFIX + table: None for table in tables if table in there}


def _read_replaced(entries: Mapping[str, str], _: Collection[str] | None) -> frozenset[str]:
    return frozenset(key.removeprefix(REPLACED_PREFIX) for key in entries if key.startswith(REPLACED_PREFIX))

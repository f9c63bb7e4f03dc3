"""Views whose query was replaced while their rows stayed: the next epoch computes them as a whole, and commits the difference."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from engine.hummock import Version

REPLACED_PREFIX = "replaced/"


def replaced(version: Version) -> frozenset[str]:
    """Return the tables whose rows are those of a query that they had before."""
    return version.catalog.read(_replaced)


def marked(table: str) -> dict[str, str | None]:
    """Return the catalog entry that says so of a table."""
    return {REPLACED_PREFIX + table: ""}


def settled(version: Version, tables: Iterable[str]) -> dict[str, str | None]:
    """Return the catalog entries that go as tables are brought on, or dropped."""
    there = replaced(version)
    return {REPLACED_PREFIX + table: None for table in tables if table in there}


def _replaced(entries: Mapping[str, str], _: Collection[str] | None) -> frozenset[str]:
    return frozenset(key.removeprefix(REPLACED_PREFIX) for key in entries if key.startswith(REPLACED_PREFIX))

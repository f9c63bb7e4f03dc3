"""The rows of a query in an order, whatever they hold."""

from __future__ import annotations

from typing import Any

from engine.session import Session


def rows(session: Session, query: str) -> list[tuple[Any, ...]]:
    """Return the rows that a session answers, sorted by how they are printed."""
    found = session.sql(query)
    assert found is not None
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)

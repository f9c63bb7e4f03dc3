"""An empty database, for sinks of a store beside it."""

from __future__ import annotations

from tests.connectors.postgres.conftest import database

__all__ = ["database"]

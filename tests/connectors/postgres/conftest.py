"""An empty database of PostgreSQL, and a store beside it."""

from __future__ import annotations

import pytest

from tests.connectors.postgres.server import Database, get_server


@pytest.fixture
def database() -> Database:
    """A database of its own, of a server with logical decoding."""
    return get_server().create_database()

"""Sessions with a table, and a clock that a test sets."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.session import Session
from engine.testing.manual_clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    """A clock that starts in the past: the earlier of it and the file system's counts."""
    return ManualClock(start=time.time() - 90 * 86_400)


@pytest.fixture
def db(tmp_path: Path, clock: ManualClock) -> Iterator[Session]:
    """A session that never needs Spark, with the table t (id, v)."""
    with Session((tmp_path / "store").as_uri(), clock=clock) as session:  # type: ignore[arg-type]
        session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
        session.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        yield session

"""idle_timeout: a table that gets no row for so long is passed over by those that views combine with it, at a commit."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dagster_tideline.runs.pending import find_pending
from engine.meta.epochs.idle_timeout import advance_idle_watermarks, find_idle_watermarks
from engine.session import Session
from engine.testing.manual_clock import ManualClock
from tests.runtime.clock.worlds import moving

CLOSED = "SELECT ts, n FROM t UNION ALL SELECT ts, n FROM u"


@pytest.fixture
def resting(tmp_path: Path, spark: SparkSession) -> Iterator[tuple[Session, ManualClock]]:
    """Two tables of which the second has a timeout of a minute, a view of both, and the clock."""
    with moving(tmp_path, spark) as (session, clock):
        for name, options in (("t", ""), ("u", " WITH (idle_timeout = '1 minute')")):
            session.sql(
                f"CREATE TABLE {name} (ts TIMESTAMP, n INT, WATERMARK FOR ts AS ts - INTERVAL '5 minutes') APPEND ONLY"
                + options
            )
        session.sql(f"CREATE MATERIALIZED VIEW v AS {CLOSED} EMIT ON WINDOW CLOSE", build=False)
        yield session, clock


def _insert(session: Session, table: str, *rows: tuple[str, int]) -> None:
    values = ", ".join(f"(TIMESTAMP '2024-01-01 {clock}', {n})" for clock, n in rows)
    session.sql(f"INSERT INTO {table} VALUES {values}")


def _shown(session: Session) -> list[int]:
    session.flush().raise_for_errors()
    found = session.sql("SELECT n FROM v")
    assert found is not None
    return sorted(found.column(0).to_pylist())


def _watermarks(session: Session) -> dict[str, Any]:
    found = session.sql("SHOW WATERMARKS")
    assert found is not None
    return {row["name"]: row["watermark"] for row in found.to_pylist()}


def _at(clock: str) -> str:
    return str(dt.datetime.fromisoformat(f"2024-01-01 {clock}"))


def test_a_table_at_rest_no_longer_holds_back_and_what_comes_below_is_late(
    resting: tuple[Session, ManualClock],
) -> None:
    session, clock = resting
    _insert(session, "t", ("10:00", 1))
    _insert(session, "u", ("10:00", 2), ("10:06", 3))
    _insert(session, "t", ("11:00", 4), ("11:30", 5))
    clock.sleep(59)
    assert _shown(session) == [1, 2]
    assert not find_pending(session.store, ()).idle
    clock.sleep(1.1)
    pending = find_pending(session.store, ())
    assert pending.idle == ("u",) and "u" in pending.reason
    assert _shown(session) == [1, 2, 3, 4]
    assert _watermarks(session) == {"t": _at("11:25"), "u": _at("11:25")}
    assert not find_pending(session.store, ())
    _insert(session, "u", ("11:20", 6), ("11:26", 7))
    assert "1 rows were below" in session.notices[0]
    _insert(session, "t", ("12:00", 8))
    assert _shown(session) == [1, 2, 3, 4]  # it has rows again: its time counts
    _insert(session, "u", ("12:00", 9))
    assert _shown(session) == [1, 2, 3, 4, 5, 7]


def test_a_table_without_a_row_is_passed_over_from_when_it_was_made(
    resting: tuple[Session, ManualClock],
) -> None:
    session, clock = resting
    _insert(session, "t", ("10:00", 1), ("10:30", 2))
    assert _shown(session) == []
    clock.sleep(61)
    assert _shown(session) == [1]


def test_it_does_not_matter_when_somebody_looks(resting: tuple[Session, ManualClock]) -> None:
    session, clock = resting
    _insert(session, "u", ("10:00", 1))
    clock.sleep(30)
    _insert(session, "t", ("10:30", 2))
    clock.sleep(3600)
    assert _shown(session) == [1]
    assert _watermarks(session)["u"] == _at("10:25")


def test_a_table_that_got_rows_last_is_not_passed_over_nor_is_one_that_no_view_combines(
    resting: tuple[Session, ManualClock],
) -> None:
    session, clock = resting
    _insert(session, "t", ("10:30", 2))
    _insert(session, "u", ("10:00", 1))
    clock.sleep(3600)
    assert _shown(session) == []
    session.sql("DROP MATERIALIZED VIEW v")
    _insert(session, "t", ("11:00", 3))
    clock.sleep(3600)
    session.flush()
    assert _watermarks(session)["u"] == _at("09:55")


def test_rows_that_come_meanwhile_are_not_passed_over(resting: tuple[Session, ManualClock]) -> None:
    session, clock = resting
    _insert(session, "u", ("10:00", 1))
    _insert(session, "t", ("11:00", 2))
    clock.sleep(61)
    store, seen, stored = session.store, session.store.refresh(), session.stored
    assert find_idle_watermarks(store.reader, seen, stored, clock()) != {}
    _insert(session, "u", ("10:07", 3))
    advance_idle_watermarks(store, seen, stored, clock())
    assert _watermarks(session)["u"] == _at("10:02")
    assert session.notices == ()

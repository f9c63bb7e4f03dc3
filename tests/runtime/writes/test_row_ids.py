"""Tables without a key: rows of several writers never overwrite each other, also where clock and chance are the same."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from engine.connectors.landing.source import LandingSource
from engine.errors import InvalidRow
from engine.session import Session

ROWS = pa.table({"v": pa.array([1, 2, 3], pa.int64())})


@pytest.fixture(autouse=True)
def one_moment_and_no_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ids were made of once: the time in milliseconds and some random bits."""
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    monkeypatch.setattr(secrets, "randbits", lambda bits: 0)


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[tuple[Session, Session]]:
    url = (tmp_path / "store").as_uri()
    with Session(url) as one, Session(url) as two:
        one.sql("CREATE TABLE t (v BIGINT) APPEND ONLY")
        two.store.refresh()
        yield one, two


def count(session: Session) -> int:
    return sum(batch.num_rows for batch in session.store.iter("t"))


def test_two_writers(sessions: tuple[Session, Session]) -> None:
    for session in sessions:
        session.write("t", ROWS)
        session.write("t", ROWS, mode="upsert")
    sessions[0].store.refresh()
    assert count(sessions[0]) == 12


def test_two_inserts(sessions: tuple[Session, Session]) -> None:
    for session in sessions:
        session.sql("INSERT INTO t VALUES (1), (2)")
        session.sql("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING")
    sessions[0].store.refresh()
    assert count(sessions[0]) == 6


def test_two_pollers_of_landing_folders(sessions: tuple[Session, Session], tmp_path: Path) -> None:
    for number, session in enumerate(sessions):
        folder = tmp_path / f"landing{number}"
        folder.mkdir()
        (folder / f"{number}.csv").write_text("v\n1\n2\n3\n")
        LandingSource(session.store, "t", folder).poll()
    sessions[0].store.refresh()
    assert count(sessions[0]) == 6


def test_a_landed_file_cannot_choose_the_ids(sessions: tuple[Session, Session], tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("_row_id,v\n7,1\n7,2\n")
    LandingSource(sessions[0].store, "t", tmp_path).poll()
    assert count(sessions[0]) == 2


def test_a_landed_deletion_of_a_row_without_a_key_is_set_aside(
    sessions: tuple[Session, Session], tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("_op,v\ninsert,1\ndelete,1\n")
    report = LandingSource(sessions[0].store, "t", tmp_path).poll()
    assert count(sessions[0]) == 1
    assert report.dead_rows == 1


def test_a_written_deletion_by_no_key_is_refused(sessions: tuple[Session, Session]) -> None:
    with pytest.raises(InvalidRow, match="APPEND ONLY"):
        sessions[0].write("t", ROWS, mode="delete")

"""A sink of a table whose rows leave by themselves delivers what came and what was taken back, whenever it reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.hummock import Hummock
from engine.log_store.changes import DELETE, INSERT
from engine.log_store.sink import SinkLogStore, VnodeGroup, attach
from engine.session import Session
from engine.testing.manual_clock import ManualClock
from tests.hummock.dated import TimedObjectStore
from tests.runtime.clock.worlds import moving


@pytest.fixture
def aging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Session, ManualClock]]:
    opened = Hummock.open

    def at_clock(url: str, *, clock: ManualClock, **_: object) -> Hummock:
        return opened(url, clock=clock, object_store=TimedObjectStore(url, clock))  # type: ignore[arg-type]

    monkeypatch.setattr("engine.session.Hummock.open", at_clock)
    with moving(tmp_path, None, "risingwave") as found:
        yield found


def _attached(session: Session) -> None:
    version = session.store.refresh()
    session.store.commit(attach(version.tables["t"], ["sink"], snapshot=False))


def _delivered(session: Session, *, each_epoch: bool) -> list[tuple[int, int]]:
    """Return what a reader gets, from the beginning: what is done, and the key of the row."""
    reader = SinkLogStore(session.store, "t", "sink", ["k"], VnodeGroup(0, 1))
    table = session.store.refresh().tables["t"]
    found: list[tuple[int, int]] = []
    for part in reader.list_ranges(table, each_epoch=each_epoch):
        for change in reader.read(table, part):
            rows = zip(
                change.operations.tolist(), change.rows.to_pylist(), change.old.to_pylist(), strict=True
            )
            found += [(operation, (old if operation == DELETE else new)["k"]) for operation, new, old in rows]
    return sorted(found)


@pytest.mark.parametrize("each_epoch", [True, False])
def test_rows_that_hide_by_age_are_delivered(aging: tuple[Session, ManualClock], each_epoch: bool) -> None:
    session, clock = aging
    session.sql("CREATE TABLE t (k INT) APPEND ONLY WITH (retention_seconds = 5)")
    _attached(session)
    session.sql("INSERT INTO t VALUES (1)")
    clock.sleep(10)
    session.sql("INSERT INTO t VALUES (2)")
    assert _delivered(session, each_epoch=each_epoch) == [(INSERT, 1), (INSERT, 2)]


@pytest.mark.parametrize("each_epoch", [True, False])
def test_rows_below_a_watermark_with_ttl_are_delivered(
    aging: tuple[Session, ManualClock], each_epoch: bool
) -> None:
    session, _ = aging
    session.sql("CREATE TABLE t (k INT PRIMARY KEY, ts INT, WATERMARK FOR ts AS ts - 10 WITH TTL)")
    _attached(session)
    session.sql("INSERT INTO t VALUES (1, 5)")
    session.sql("INSERT INTO t VALUES (2, 50)")
    session.sql("INSERT INTO t VALUES (1, 60)")
    assert _delivered(session, each_epoch=each_epoch) == [(INSERT, 1), (INSERT, 1), (INSERT, 2)]

"""Sources polled in a thread: each file once, one poll ahead of who takes the reports, through failures and to its close."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.connectors.contract.connector import Spark
from engine.connectors.landing.commits import LandingCommits
from engine.connectors.landing.source import LandingSource
from engine.connectors.polling import SourcePoller
from engine.connectors.sources import poll_all
from engine.errors import Unavailable
from engine.hummock import Version
from engine.hummock.back_off import BackOff
from engine.session import Session

SECONDS = 30.0
AT_ONCE = BackOff(0.0, 0.0)


@contextmanager
def polled(
    lake: Session,
    look: Callable[[], Version] | None = None,
    retries: BackOff = AT_ONCE,
) -> Iterator[SourcePoller]:
    polling = SourcePoller(lake.store, {"orders"}, look or lake.store.refresh, retries)
    try:
        yield polling
    finally:
        polling.close()


def land(folder: Path, name: str, text: str) -> None:
    (folder / f"{name}.part").write_text(text)
    (folder / f"{name}.part").rename(folder / name)


def ids(lake: Session) -> list[int]:
    lake.store.refresh()
    return sorted(pa.Table.from_batches(lake.store.iter("orders"))["id"].to_pylist())


def test_what_lands_is_committed_and_told_once(
    lake: Session, folder: Path, orders: Callable[..., LandingSource]
) -> None:
    orders()
    with polled(lake) as polling:
        for n in range(5):
            land(folder, f"{n}.csv", f"id,name,price\n{n},x,1.5\n")
            assert polling.wait(SECONDS)
            (report,) = polling.take_reports()
            assert (report.table, report.files, report.rows) == ("orders", 1, 1)
            assert not polling.has_news
    assert ids(lake) == [0, 1, 2, 3, 4]


def test_no_poll_begins_before_the_reports_of_the_last_are_taken(
    lake: Session, folder: Path, orders: Callable[..., LandingSource]
) -> None:
    orders()
    looks = threading.Semaphore(0)

    def look() -> Version:
        looks.release()
        return lake.store.refresh()

    with polled(lake, look) as polling:
        land(folder, "a.csv", "id,name,price\n1,x,1.5\n")
        assert polling.wait(SECONDS)
        while looks.acquire(blocking=False):
            pass
        land(folder, "b.csv", "id,name,price\n2,x,1.5\n")
        assert not looks.acquire(timeout=0.5) and ids(lake) == [1]
        polling.take_reports()
        assert looks.acquire(timeout=SECONDS) and polling.wait(SECONDS)
        assert polling.take_reports()[0].rows == 1
    assert ids(lake) == [1, 2]


def test_what_cannot_be_taken_is_tried_again_at_the_distance_that_was_asked_for(
    lake: Session, folder: Path, orders: Callable[..., LandingSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    orders()

    def fail(self: LandingSource, spark: Spark) -> None:
        raise OSError("no right to read it")

    monkeypatch.setattr(LandingSource, "poll", fail)
    land(folder, "a.csv", "id,name,price\n1,x,1.5\n")

    with polled(lake, retries=BackOff(3600.0, 3600.0, free=2)) as polling:
        for _ in range(3):
            assert polling.wait(SECONDS)
            (report,) = polling.take_reports()
            assert report.error is not None and "no right to read it" in report.error
        assert not polling.wait(0.5)
        monkeypatch.undo()
        monkeypatch.setenv("TIDELINE_HOME", str(folder.parent))
        land(folder, "b.csv", "id,name,price\n2,x,1.5\n")  # other work: it does not wait
        assert polling.wait(SECONDS)
    assert ids(lake) == [1, 2]


def test_a_store_that_does_not_answer_ends_nothing(
    lake: Session, folder: Path, orders: Callable[..., LandingSource], caplog: pytest.LogCaptureFixture
) -> None:
    orders()
    away = threading.Event()
    asked = threading.Semaphore(0)

    def look() -> Version:
        if away.is_set():
            asked.release()
            raise Unavailable("the store does not answer")
        return lake.store.refresh()

    with polled(lake, look) as polling:
        away.set()
        assert asked.acquire(timeout=SECONDS) and asked.acquire(timeout=SECONDS)
        away.clear()
        land(folder, "a.csv", "id,name,price\n1,x,1.5\n")
        assert polling.wait(SECONDS)
    assert ids(lake) == [1]
    assert [r.message for r in caplog.records].count(
        "sources could not be polled: the store does not answer"
    ) == 1


@pytest.mark.parametrize("columns", ["(name STRING)", "(id INT PRIMARY KEY, name STRING) APPEND ONLY"])
def test_a_file_that_another_process_takes_while_it_is_compared_is_taken_once(
    lake: Session,
    folder: Path,
    orders: Callable[..., LandingSource],
    monkeypatch: pytest.MonkeyPatch,
    columns: str,
) -> None:
    lake.sql(f"CREATE TABLE orders {columns} WITH (connector = 'landing', path = 'landing')")
    orders().poll()
    land(folder, "a.csv", "id,name,price\n1,x,1.5\n")
    real, taken = LandingCommits._find_lost, threading.Event()

    def lost(self: LandingCommits, *given: Any) -> set[str]:
        found = real(self, *given)
        if not taken.is_set():
            taken.set()
            with Session(lake.url) as other:
                (report,) = poll_all(other.catalog, other.store)
                assert report.files == 1
            lake.store.refresh()  # as the thread that computes does it
        return found

    monkeypatch.setattr(LandingCommits, "_find_lost", lost)
    (report,) = poll_all(lake.catalog, lake.store)
    assert taken.is_set() and (report.files, report.dead_rows, report.error) == (0, 0, None)
    lake.store.refresh()
    assert sum(batch.num_rows for batch in lake.store.iter("orders")) == 1


def test_tables_of_others_are_left_alone_and_nothing_is_polled_after_the_close(
    lake: Session, folder: Path, orders: Callable[..., LandingSource]
) -> None:
    orders()
    land(folder, "a.csv", "id,name,price\n1,x,1.5\n")
    others = SourcePoller(lake.store, {"another"}, lake.store.refresh, AT_ONCE)
    assert not others.wait(0.3)
    others.close()
    closed = SourcePoller(lake.store, {"orders"}, lake.store.refresh, AT_ONCE)
    assert closed.wait(SECONDS)
    closed.close()
    land(folder, "b.csv", "id,name,price\n2,x,1.5\n")
    closed.take_reports()
    assert not closed.wait(0.3) and ids(lake) == [1]

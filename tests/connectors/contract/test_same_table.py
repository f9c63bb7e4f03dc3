"""Tables that change while their source is polled: nothing lands in another table than it was read for, and nothing is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.connectors.landing.file_reader import read_landing_file
from engine.connectors.landing.source import LandingSource
from engine.connectors.nexmark import source
from engine.connectors.sources import poll_all
from engine.session import Session
from tests.connectors.test_polling import land

ANEW = "DROP TABLE orders; CREATE TABLE orders (id INT PRIMARY KEY, name STRING, price DOUBLE)"
ALTERED = {
    "ALTER TABLE orders ADD COLUMN more INT DEFAULT 7": [(1, "x", 1.5, 7), (2, None, 2.5, 7)],
    "ALTER TABLE orders DROP COLUMN price": [(1, "x"), (2, None)],
    "ALTER TABLE orders ALTER COLUMN name SET NOT NULL": [(1, "x", 1.5)],
}


def rows(session: Session, table: str) -> list[tuple[Any, ...]]:
    session.store.refresh()
    found = (tuple(row.values()) for batch in session.store.iter(table) for row in batch.to_pylist())
    return sorted(found, key=str)


def while_a_file_is_read(monkeypatch: pytest.MonkeyPatch, then: Callable[[], object]) -> None:
    """Do something once, between the reading of a file and its commit."""
    done = threading.Event()

    def read(*given: Any) -> Iterator[Any]:
        for batch in read_landing_file(*given):
            yield batch
            if not done.is_set():
                done.set()
                then()

    monkeypatch.setattr("engine.connectors.landing.source.read_landing_file", read)


@pytest.mark.parametrize("statement", ALTERED)
@pytest.mark.parametrize("by_another", [False, True])
def test_a_file_whose_table_is_altered_meanwhile_is_taken_by_the_next_poll(
    lake: Session,
    folder: Path,
    orders: Callable[..., LandingSource],
    monkeypatch: pytest.MonkeyPatch,
    statement: str,
    by_another: bool,
) -> None:
    orders()
    land(folder, "a.csv", "id,name,price\n1,x,1.5\n2,,2.5\n")

    def alter() -> None:
        if by_another:
            with Session(lake.url) as other:
                other.sql(statement)
        else:
            lake.sql(statement)

    while_a_file_is_read(monkeypatch, alter)
    (report,) = poll_all(lake.catalog, lake.store)
    assert "orders was altered while its source was polled" in (report.error or "")
    assert (report.rows, report.dead_rows) == (0, 0) and rows(lake, "orders") == []
    (report,) = poll_all(lake.catalog, lake.store)
    assert report.error is None and report.files == 1 and rows(lake, "orders") == ALTERED[statement]


def test_a_file_does_not_land_in_a_table_that_was_made_anew_meanwhile(
    lake: Session, folder: Path, orders: Callable[..., LandingSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    orders()
    land(folder, "a.csv", "id,name,price\n1,x,1.5\n")
    while_a_file_is_read(monkeypatch, lambda: lake.sql(ANEW))
    (report,) = poll_all(lake.catalog, lake.store)
    assert "orders was dropped while its source was polled" in (report.error or "")
    assert rows(lake, "orders") == []


@pytest.mark.parametrize("statement", [*ALTERED, ANEW])
def test_a_source_of_an_earlier_table_lands_nothing(
    lake: Session, folder: Path, orders: Callable[..., LandingSource], statement: str
) -> None:
    orders()
    before = lake.catalog
    land(folder, "a.csv", "id,name,price\n1,x,1.5\n")
    lake.sql(statement)
    (report,) = poll_all(before, lake.store)
    assert "was altered while its source was polled" in (report.error or "")
    assert rows(lake, "orders") == []


def test_events_do_not_land_in_a_table_that_was_made_anew_meanwhile(
    lake: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = "CREATE TABLE person (id BIGINT, name STRING) APPEND ONLY WITH (connector = 'nexmark', max_events = '50', seed = '{}')"
    lake.sql(made.format(1))
    before, real, made_anew = lake.catalog, source.NexmarkSource.read, threading.Event()

    def make(self: source.NexmarkSource, split: str, after: str | None, upto: str) -> Any:
        if not made_anew.is_set():
            made_anew.set()
            lake.sql("DROP TABLE person")
            lake.sql(made.format(2))
        return real(self, split, after, upto)

    monkeypatch.setattr(source.NexmarkSource, "read", make)
    (report,) = poll_all(before, lake.store)
    assert "person was dropped while its source was polled" in (report.error or "")
    (report,) = poll_all(before, lake.store)
    assert "person was altered while its source was polled" in (report.error or "")
    assert rows(lake, "person") == []
    (report,) = poll_all(lake.catalog, lake.store)
    assert report.error is None and len(rows(lake, "person")) == report.rows == 1

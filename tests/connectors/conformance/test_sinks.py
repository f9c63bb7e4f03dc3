"""Every sink against its contract: whatever dies, is repeated, comes late or changes, its target is as the view, and each range once."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from engine.connectors.sinks.driver import SinkDriver
from engine.errors import TidelineError
from engine.hummock import Commit, Hummock, Version
from engine.hummock.object_store import open_object_store
from engine.hummock.object_store.local import LocalObjectStore
from engine.runtime.epoch.report import SinkReport
from engine.session import Session
from tests.connectors.conformance.sinks import CASES, SinkCase, mark_server
from tests.log_store.faults import Crash, DyingClient
from tests.long_rest import mark_rest_long

LONG = pytest.mark.conformance
ALWAYS = ("table", "file-parquet")
"""Cases that are killed at each request in `make test`; the others are so in `make conformance`."""
ALL = [
    pytest.param(case, id=case.name, marks=(*mark_server(case), *(() if case.name in ALWAYS else (LONG,))))
    for case in CASES
]
QUICK = [
    pytest.param(case, id=case.name, marks=(*mark_server(case), *((LONG,) if case.with_spark else ())))
    for case in CASES
]
FILES = [one for one in ALL if one.values[0].name.startswith("file")]


class World:
    """A table, a sink of it, and the processes that deliver; the model is what was written."""

    def __init__(self, case: SinkCase, session: Session, root: Path) -> None:
        self.case, self.session, self.root = case, session, root
        self.rows: dict[int, str] = {}

    def write(self, changes: dict[int, str | None]) -> None:
        """Write rows; None takes a key away."""
        new = {key: value for key, value in changes.items() if value is not None}
        gone = [key for key, value in changes.items() if value is None]
        if new:
            ids = pa.array(list(new), pa.int64())
            self.session.write("t", pa.table({"id": ids, "v": list(new.values())}))
        if gone:
            self.session.write("t", pa.table({"id": pa.array(gone, pa.int64())}), mode="delete")
        self.rows = {k: v for k, v in {**self.rows, **changes}.items() if v is not None}

    def change(self, number: int) -> None:
        """Write rows that come, change and go."""
        self.write({number % 5: f"a{number}", 10 + number: "new"})
        self.write({9 + number: None, 100: f"b{number}"})

    def deliver(
        self, at: int | None = None, after: bool = False, target: int | None = None
    ) -> tuple[bool, tuple[SinkReport, ...]]:
        """Deliver in a process that dies at a request to the store, or to the target; tell whether it came to that."""
        objects = DyingClient(LocalObjectStore(self.root), at, after)
        files: list[DyingClient] = []
        driver: SinkDriver | None = None
        reports: tuple[SinkReport, ...] = ()

        def open_target(url: str) -> DyingClient:
            files.append(DyingClient(open_object_store(url), target, after))
            return files[-1]

        try:
            store = Hummock.open(self.session.url, object_store=objects)
            driver = SinkDriver(
                store, lambda: self.session.computing, open_target=open_target, wait_seconds=120
            )
            reports = driver.run()
        except Crash:
            pass
        finally:
            if driver is not None:
                driver.close()
        dead = at is not None and objects.calls >= at
        return dead or any(target is not None and one.calls >= target for one in files), reports

    def check(self) -> None:
        """Deliver what is left, and compare."""
        _, reports = self.deliver()
        assert [report.error for report in reports] == [None]
        assert self.case.held() == self.rows


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    spark = request.getfixturevalue("spark") if request.param.with_spark else None
    with Session((tmp_path / "store").as_uri(), spark) as session:
        session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
        made = World(request.param(tmp_path, session), session, tmp_path / "store")
        made.write({1: "a", 2: "b", 3: "c"})
        made.case.create()
        yield made


@pytest.mark.parametrize("world", ALL, indirect=True)
@pytest.mark.parametrize("after", mark_rest_long([True, False]), ids=["behind", "before"])
def test_a_delivery_that_dies_at_any_request_is_repeated_exactly(world: World, after: bool) -> None:
    world.check()
    died = 0
    for at in itertools.count(1):
        world.change(at)
        dead, _ = world.deliver(at, after)
        world.change(at + 1)  # what comes between is not to be mixed with what was delivered
        world.check()
        died += dead
        if not dead:
            break
    assert died > 5


@pytest.mark.parametrize("world", FILES, indirect=True)
@pytest.mark.parametrize("after", [False, True], ids=["before", "behind"])
def test_a_delivery_that_dies_at_any_write_of_the_target_is_repeated_exactly(
    world: World, after: bool
) -> None:
    world.check()
    died = 0
    for at in itertools.count(1):
        world.change(at)
        dead, _ = world.deliver(after=after, target=at)
        world.check()
        died += dead
        if not dead:
            break
    assert died >= 2


@pytest.mark.parametrize("world", QUICK, indirect=True)
def test_a_failure_behind_the_write_applies_nothing_twice(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.check()
    world.change(0)
    before = world.case.written()
    _at_acknowledgement(monkeypatch, lambda: (_ for _ in ()).throw(Crash("behind the write")))
    world.deliver()
    monkeypatch.undo()
    written = world.case.written()
    assert (written != before) == (world.case.name != "table")  # whose rows are the acknowledgement's commit
    world.check()
    if world.case.name != "table":
        assert world.case.written() == written


@pytest.mark.parametrize("world", QUICK, indirect=True)
def test_what_was_delivered_is_not_delivered_again(world: World) -> None:
    world.change(0)
    world.check()
    before = world.case.written()
    for _ in range(2):
        _, (report,) = world.deliver()
        assert (report.rows, report.lag_rows, report.error) == (0, 0, None)
    assert world.case.written() == before


@pytest.mark.parametrize("world", QUICK, indirect=True)
def test_a_process_that_comes_late_with_its_range_follows_the_one_that_was_faster(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.check()
    world.change(0)

    def be_faster() -> None:
        world.deliver()
        world.change(1)
        world.deliver()

    _at_acknowledgement(monkeypatch, be_faster)
    _, (report,) = world.deliver()
    assert report.error is None
    monkeypatch.undo()
    world.check()


@pytest.mark.parametrize("world", ALL, indirect=True)
def test_a_column_more_leaves_the_sink_as_it_is_and_one_that_it_needs_stays(world: World) -> None:
    world.check()
    world.session.sql("ALTER TABLE t ADD COLUMN more BIGINT")
    world.change(0)
    world.check()
    for table in ("t", "copy") if world.case.name == "table" else ("t",):
        with pytest.raises(TidelineError, match=rf"column v of {table} is read by the sink s"):
            world.session.sql(f"ALTER TABLE {table} DROP COLUMN v")
    world.change(1)
    world.check()


@pytest.mark.parametrize("world", ALL, indirect=True)
def test_changes_that_cancel_each_other_and_no_rows_at_all_are_delivered_as_none(world: World) -> None:
    world.write({1: None, 2: None, 3: None})
    world.check()
    assert world.case.held() == {}
    before = world.case.written()
    world.check()
    assert world.case.written() == before
    world.change(0)
    world.check()


def _at_acknowledgement(monkeypatch: pytest.MonkeyPatch, then: Callable[[], object]) -> None:
    """Do something once, before the next commit that acknowledges a range."""
    commit, done = Hummock.commit, threading.Event()

    def watched(store: Hummock, asked: Commit) -> Version:
        if (asked.acks or asked.pins) and not done.is_set():
            done.set()
            then()
        return commit(store, asked)

    monkeypatch.setattr(Hummock, "commit", watched)


def test_all_sinks_are_held_to_the_contract() -> None:
    from engine.connectors.sinks.registry import INTO, OWN

    assert {kind.name for kind in OWN} | {INTO.name} == {case.name.split("-")[0] for case in CASES}

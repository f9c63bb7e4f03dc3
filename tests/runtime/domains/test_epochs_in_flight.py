"""Sessions that commit epoch after epoch: commits on their way, slow views, rivals and outages, and views equal to their queries."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.errors import Conflict, StorageFull, Unavailable
from engine.hummock.in_flight_store import InFlightStore
from engine.hummock.object_store.delayed import DelayedObjectStore
from engine.runtime.domains.domain_outcome import DomainOutcome
from engine.runtime.epoch.mutation_run import apply_mutations
from engine.runtime.executor import FragmentTask, TaskResult
from engine.session import Session

VIEWS = {
    "totals": "SELECT g, count(*) AS n, sum(x) AS s FROM item GROUP BY g",
    "sizes": "SELECT n, count(*) AS groups, sum(s) AS s FROM totals GROUP BY n",
    "named": "SELECT i.id, i.x, l.label FROM item AS i JOIN label AS l ON i.g = l.g",
    "tops": "SELECT label, max(x) AS high, count(*) AS n FROM named GROUP BY label",
    "slow": "SELECT g, min(x) AS low FROM item GROUP BY g",
    "below": "SELECT t.g, t.s, w.low FROM totals AS t JOIN slow AS w ON t.g = w.g",
}


class Slow:
    """Passes tasks on; those of one table wait until they are let go."""

    def __init__(self, inner: object, table: str) -> None:
        self.inner, self.table = inner, table
        self.gate = threading.Event()
        self.gate.set()
        self.ranges: list[tuple[int | None, int]] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def compute(self, task: FragmentTask) -> TaskResult:
        if task.fragment.table == self.table:
            assert self.gate.wait(60)
            self.ranges.append((task.old, task.new))
        found: TaskResult = self.inner.compute(task)  # type: ignore[attr-defined]
        return found


@pytest.fixture(params=[True, pytest.param(False, marks=pytest.mark.long)], ids=["far", "here"])
def url(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store that takes 20 ms to answer, and one that is a folder."""
    if request.param:
        monkeypatch.setenv("TIDELINE_STORE_DELAY_MS", "20")
    monkeypatch.setenv("TIDELINE_CACHE_DIR", str(tmp_path / "cache"))
    return (tmp_path / "store").as_uri()


@pytest.fixture
def driving(url: str, session: Session) -> Iterator[Session]:
    with Session(url, "local[2]", epochs_in_flight=4) as found:
        found.sql("CREATE TABLE item (id BIGINT PRIMARY KEY, g BIGINT, x BIGINT)")
        found.sql("CREATE TABLE label (g BIGINT PRIMARY KEY, label STRING)")
        found.write("label", pa.table({"g": list(range(8)), "label": [f"l{g % 3}" for g in range(8)]}))
        for name, query in VIEWS.items():
            found.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        assert isinstance(found.epochs.store, InFlightStore)
        assert (found.epochs.store.options.get("spool") is None) == found.store.is_here
        yield found


def change(session: Session, chance: random.Random) -> None:
    ids = chance.sample(range(60), 9)
    rows = pa.table(
        {"id": ids, "g": [chance.randrange(10) for _ in ids], "x": [chance.randrange(99) for _ in ids]}
    )
    session.write("item", rows)
    gone = chance.sample(range(60), 3)
    session.write("item", pa.table({"id": gone}), mode="delete")
    if chance.random() < 0.3:
        g = chance.randrange(8)
        session.write("label", pa.table({"g": [g], "label": [f"l{chance.randrange(3)}"]}))


def check(session: Session, policy: str | None = None) -> None:
    """Compare all views, at one epoch, with their queries over the tables at that epoch."""
    epoch = policy or str(session.common_epoch("item", "label", *VIEWS))
    for name, query in VIEWS.items():
        held = session.sql(f"SELECT * FROM {name}", policy=epoch)
        computed = session.sql(query, policy=epoch)
        assert held is not None and computed is not None
        assert _sorted(held) == _sorted(computed), name


def _sorted(rows: pa.Table) -> list[tuple[object, ...]]:
    return sorted(zip(*(column.to_pylist() for column in rows.columns), strict=True), key=repr)


@pytest.mark.long
def test_views_equal_their_queries_while_commits_are_on_their_way(driving: Session, url: str) -> None:
    chance = random.Random(1)
    with Session(url, "local[2]") as other:
        for n in range(5):
            change(driving, chance)
            driving.flush(wait=False)
            if n == 3:
                check(other)
        driving.flush().raise_for_errors()
        assert driving.epochs.commit_in_flight is None and not driving.epochs.busy and not other.lagging()
        check(other)


@pytest.mark.long
def test_a_rival_takes_over_and_back(driving: Session, url: str) -> None:
    chance = random.Random(2)
    with Session(url, "local[2]") as rival:
        for n in range(8):
            change(driving, chance)
            driving.flush(wait=False)
            if n % 3 == 1:
                rival.flush().raise_for_errors()
        driving.flush().raise_for_errors()
        assert not rival.lagging()
        check(rival)


def others_end(driving: Session, slow: set[str]) -> None:
    """Wait until the work of all views has ended that outlast a run, but for some."""
    lanes = driving._runner.lanes._outlasting
    wait([lane.outcome for name, lane in lanes.items() if name not in slow], timeout=60.0)


@pytest.mark.long
def test_a_slow_view_is_left_behind_and_follows_in_one_range(
    driving: Session, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(3)
    executor = Slow(driving._runner.executor, "slow")
    monkeypatch.setattr(driving._runner, "executor", executor)
    change(driving, chance)
    driving.flush().raise_for_errors()
    executor.ranges.clear()
    executor.gate.clear()
    with Session(url, "local[2]") as other:
        for _ in range(4):
            change(driving, chance)
            report = driving.flush(wait=False)
            assert "slow" in driving.epochs.busy
        assert {view.view for view in report.views if view.waits_for is not None} >= {"slow"}
        for _ in range(10):  # on a busy machine others may be slow as well
            others_end(driving, {"slow", "below"})
            driving.flush(wait=False)
            driving.epochs.store.settle()  # type: ignore[attr-defined]
        stood = {name: other.store.refresh().tables[name].committed_epoch for name in ("totals", "slow")}
        assert stood["totals"] > stood["slow"]
        assert set(other.lagging()) == {"slow", "below"}
        check(other)  # at the epoch where all have met
        executor.gate.set()
        driving.flush().raise_for_errors()
        assert len(executor.ranges) <= 3, "what it lacked was not taken together"
        assert not other.lagging() and not driving.epochs.busy
        check(other)


@pytest.mark.long
def test_a_slow_view_that_fails_once_it_was_dropped_is_nobodys(
    driving: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    driving.sql("CREATE MATERIALIZED VIEW parts AS SELECT id, 10 / x AS part FROM item")
    executor = Slow(driving._runner.executor, "parts")
    monkeypatch.setattr(driving._runner, "executor", executor)
    executor.gate.clear()
    driving.write("item", pa.table({"id": [1], "g": [1], "x": [0]}))
    driving.flush(wait=False)
    assert "parts" in driving.epochs.busy
    driving.sql("DROP MATERIALIZED VIEW parts")
    executor.gate.set()
    driving._runner.lanes.wait()
    assert driving.epochs.has_ended
    assert "parts" not in {view.view for view in driving.flush().views}
    assert not driving.epochs.has_ended
    check(driving)


def test_a_slow_view_that_ends_before_its_run_goes_on_is_counted_in(
    url: str, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Session(url, "local[2]", epochs_in_flight=4) as driven:
        driven.sql("CREATE TABLE item (id BIGINT PRIMARY KEY, x BIGINT)")
        driven.sql("CREATE MATERIALIZED VIEW slow AS SELECT id, x + 1 AS y FROM item")
        driven.sql("CREATE MATERIALIZED VIEW fast AS SELECT x, count(*) AS n FROM item GROUP BY x")
        driven.write("item", pa.table({"id": [1], "x": [5]}))
        driven.flush().raise_for_errors()
        runner = driven._runner
        executor, run, passes = Slow(runner.executor, "slow"), runner.lanes.run, []

        def ends_after(*given: Any) -> dict[str, DomainOutcome]:
            found = run(*given)
            passes.append(set(found))
            executor.gate.set()
            runner.lanes.wait()
            return found

        monkeypatch.setattr(runner, "executor", executor)
        monkeypatch.setattr(runner.lanes, "run", ends_after)
        monkeypatch.setattr(type(runner), "_are_aligned", lambda *_: len(passes) > 1)  # passed by meanwhile
        executor.gate.clear()
        driven.write("item", pa.table({"id": [2], "x": [0]}))
        driven.flush(wait=False)
        assert passes[0] == {"fast"} and len(passes) > 1
        driven.flush().raise_for_errors()
        assert len(driven.sql("SELECT * FROM slow WHERE id = 2 AND y = 1") or ()) == 1


@pytest.mark.long
def test_an_outage_loses_what_was_on_its_way_and_nothing_else(
    driving: Session, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(4)
    lost: list[BaseException] = []
    lose = InFlightStore._lose

    def count(store: InFlightStore, error: BaseException) -> None:
        lost.append(error)
        lose(store, error)

    monkeypatch.setattr(InFlightStore, "_lose", count)
    monkeypatch.setattr(driving.store, "_news_seconds", 0.0)  # what the other has committed is seen at once
    with Session(url, "local[2]") as other:
        for n in range(8):
            if n % 3 == 2:
                driving.flush()
            change(other, chance)
            if n % 3 == 2:
                with monkeypatch.context() as away:
                    away.setattr(DelayedObjectStore, "put_if_absent", _refused)
                    away.setattr("engine.hummock.object_store.local.LocalObjectStore.put_if_absent", _refused)
                    away.setattr("engine.hummock.object_store.retrying.RETRY_SECONDS", 0.0)
                    away.setattr("engine.hummock.manifests.chain.COMMIT_SECONDS", 0.5)
                    driving.flush(wait=False)
                    driving._runner.lanes.wait()
                    with suppress(Conflict):
                        driving.epochs.store.settle()  # type: ignore[attr-defined]
            else:
                driving.flush(wait=False)
        assert lost
        driving.flush().raise_for_errors()
        assert not other.lagging()
        check(other)


def _refused(*_: object) -> bool | None:
    raise Unavailable("the store is away")


@pytest.fixture
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store that takes 20 ms to answer."""
    monkeypatch.setenv("TIDELINE_STORE_DELAY_MS", "20")
    monkeypatch.setenv("TIDELINE_CACHE_DIR", str(tmp_path / "cache"))
    return (tmp_path / "store").as_uri()


@pytest.fixture
def flushing(far: str, session: Session) -> Iterator[Session]:
    """A session as any other, over a store that is far away."""
    with Session(far, "local[2]") as found:
        found.sql("CREATE TABLE item (id BIGINT PRIMARY KEY, g BIGINT, x BIGINT)")
        found.sql("INSERT INTO item VALUES (1, 1, 5), (2, 1, 6)")
        found.sql("CREATE MATERIALIZED VIEW totals AS SELECT g, sum(x) AS s FROM item GROUP BY g")
        found.sql("CREATE MATERIALIZED VIEW sizes AS SELECT s, count(*) AS n FROM totals GROUP BY s")
        yield found


def lose(session: Session) -> None:
    """Refuse what is on its way, as where another process was faster."""
    store = session.epochs.store
    assert isinstance(store, InFlightStore)
    with suppress(Conflict):
        store.settle()
    store._lose(Conflict("another process was faster"))


@pytest.mark.timeout(120)
def test_what_is_asked_of_a_view_waits_for_a_new_run_where_epochs_were_lost(
    flushing: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[str] = []

    def losing(*given: Any) -> object:
        if not lost:
            lost.append("once")
            lose(flushing)
        return apply_mutations(*given)

    monkeypatch.setattr("engine.runtime.domains.flush_run.apply_mutations", losing)
    flushing.sql("ALTER MATERIALIZED VIEW totals PAUSE")
    flushing.sql("INSERT INTO item VALUES (3, 1, 7)")
    report = flushing.flush()
    assert lost and not report.failed
    assert "paused" in str(report["totals"].waits_for)


@pytest.mark.long
def test_views_are_waited_for_where_epochs_were_lost_before(flushing: Session) -> None:
    lose(flushing)
    flushing.sql("CREATE MATERIALIZED VIEW low WITH (background = true) AS SELECT min(x) AS x FROM item")
    flushing.wait(["low"], seconds=60.0)
    assert flushing.sql("SELECT x FROM low") == pa.table({"x": pa.array([5], pa.int64())})


def test_a_store_that_takes_no_more_files_is_told_as_it_is(
    flushing: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    uploads: list[str] = []

    def full(store: InFlightStore, path: str) -> None:
        uploads.append(path)
        raise StorageFull("the bucket is full")

    flushing.sql("INSERT INTO item VALUES (3, 1, 7)")
    with monkeypatch.context() as away:
        away.setattr(InFlightStore, "_upload", full)
        with pytest.raises(StorageFull, match="the bucket is full"):
            flushing.flush()
        assert len(uploads) <= 8, "it was computed again and again"
    flushing.flush().raise_for_errors()
    assert flushing.sql("SELECT s FROM totals") == pa.table({"s": pa.array([18], pa.int64())})


@pytest.mark.long
def test_who_is_passed_by_again_and_again_gets_a_turn(
    flushing: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle, times = InFlightStore.settle, []

    def losing(store: InFlightStore) -> None:
        settle(store)
        if len(times) < 9:
            times.append("passed by")
            store._lose(Conflict("another process was faster"))
            settle(store)

    flushing.sql("INSERT INTO item VALUES (3, 1, 7)")
    monkeypatch.setattr(InFlightStore, "settle", losing)
    flushing.flush().raise_for_errors()
    assert len(times) == 9

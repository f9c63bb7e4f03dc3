"""Every source against its contract: whatever dies, comes twice, comes late or changes, each row is taken once."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.connectors.contract.connector import SourceReport, no_spark
from engine.errors import SourceError
from engine.hummock import Commit, Hummock, Version
from engine.hummock.object_store.local import LocalObjectStore
from engine.session import Session
from tests.connectors.conformance.sources import (
    CASES,
    GONE,
    SERVERS,
    Delta,
    Landing,
    Rows,
    SourceCase,
)
from tests.log_store.faults import Crash, DyingClient
from tests.long_rest import mark_rest_long

LONG = pytest.mark.conformance
ALWAYS = ("landing-csv", "journal")
"""Cases that are killed at each request in `make test`; the others are so in `make conformance`."""


def _mark(case: type[SourceCase], *, long: bool) -> Any:
    return pytest.param(
        case, id=case.name, marks=(LONG, SERVERS[case]) if case in SERVERS else LONG if long else ()
    )


ALL = [_mark(case, long=case.name not in ALWAYS) for case in CASES]
QUICK = [_mark(case, long=case.passes or issubclass(case, Delta)) for case in CASES]
MANY = 200


class World:
    """A source, the table that it feeds, and the processes that poll it."""

    def __init__(self, case: SourceCase, session: Session, root: Path) -> None:
        self.case, self.session, self.root = case, session, root
        self._commits: set[int] = set()
        case.create(session)

    def process(self, at: int | None = None, after: bool = False) -> tuple[Hummock, DyingClient]:
        """Return a process that dies at a request to the store, or right after it."""
        objects = DyingClient(LocalObjectStore(self.root), at, after)
        return Hummock.open(self.session.url, object_store=objects), objects

    def poll(self, store: Hummock | None = None) -> SourceReport:
        """Poll the source to its end."""
        spark = (lambda: self.session.computing) if self.case.with_spark else no_spark
        if store is not None:
            store.refresh()
            return self.case.source(store).poll(spark)
        with self.process()[0] as opened:
            opened.refresh()
            return self.case.source(opened).poll(spark)

    def dies(self, at: int, after: bool) -> bool:
        """Poll in a process that dies at a request; tell whether it came to that."""
        objects = None
        try:
            store, objects = self.process(at, after)
            with store:
                self.poll(store)
        except Crash:
            return True
        return objects.calls >= at

    def held(self) -> Rows:
        """Return the rows that have come."""
        self.commits()  # a source lets go of what its view has taken
        return self.case.held(self.session)

    def letters(self) -> list[str]:
        """Return why rows were set aside."""
        self.session.store.refresh()
        batches = self.session.store.iter("_dead_letter", columns=["reason"])
        return [row["reason"] for batch in batches for row in batch.to_pylist()]

    def commits(self) -> int:
        """Return how often rows were written; a source's commits are in its log without any rows as well."""
        log = self.session.store.refresh().tables["t"].log
        self._commits |= {entry.epoch for entry in log if entry.rows or not self.case.passes}
        return len(self._commits)

    def offer(self, number: int) -> None:
        """Offer some rows that come, change and go."""
        keys = [number % 5, 10 + number]
        if not self.case.repeats_rows:
            self.case.offer((10 + number, number))
            return
        self.case.offer((keys[0], number), (keys[1], None), (9 + number, GONE), (100, number))

    def check(self) -> None:
        assert self.held() == self.case.expected()


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    case: SourceCase = request.param(tmp_path)
    for name, value in case.settings.items():
        monkeypatch.setenv(name, value)
    spark = request.getfixturevalue("spark") if case.with_spark else None
    with Session((tmp_path / "store").as_uri(), spark) as session:
        yield World(case, session, tmp_path / "store")


@pytest.mark.parametrize("world", ALL, indirect=True)
@pytest.mark.parametrize("after", [False, True], ids=["before", "behind"])
def test_a_poll_that_dies_at_any_request_is_repeated_exactly(world: World, after: bool) -> None:
    world.offer(0)
    world.poll()
    world.check()
    died = 0
    for at in itertools.count(1):
        world.offer(at)
        before = world.commits()
        dead = world.dies(at, after)
        assert world.commits() - before in (0, 1)
        world.poll()
        world.check()
        assert world.commits() == before + 1
        died += dead
        if not dead:  # a poll asks no more
            break
    assert died > 5


@pytest.mark.parametrize("world", QUICK, indirect=True)
@pytest.mark.parametrize("moment", mark_rest_long(["behind", "before"]))
def test_a_failure_at_the_commit_leaves_all_or_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    world.offer(0)
    world.poll()
    world.offer(1)
    before, held, pending = (
        world.commits(),
        world.held(),
        world.case.source(world.session.store).list_pending(),
    )
    _at_commit(monkeypatch, lambda: (_ for _ in ()).throw(Crash("at the commit")), moment)
    with pytest.raises(Crash), world.process()[0] as store:
        world.poll(store)
    monkeypatch.undo()
    world.session.store.refresh()
    if moment == "before":
        assert (world.commits(), world.held()) == (before, held)
        assert world.case.source(world.session.store).list_pending() == pending
    world.poll()
    world.check()
    assert world.commits() == before + 1


@pytest.mark.parametrize("world", QUICK, indirect=True)
def test_what_is_offered_twice_is_taken_once(world: World) -> None:
    world.offer(0)
    world.poll()
    world.offer(1)
    world.poll()
    before = world.commits()
    for _ in range(2):
        world.case.offer_again()
        assert world.poll().rows == 0
    assert world.commits() == before
    assert not world.case.source(world.session.store).list_pending()
    world.check()


@pytest.mark.parametrize("world", QUICK, indirect=True)
def test_of_two_processes_that_take_the_same_one_is_refused_and_follows(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.offer(0)
    world.poll()
    world.offer(1)
    before = world.commits()

    def be_faster() -> None:
        world.poll()
        world.offer(2)

    _at_commit(monkeypatch, be_faster, "before")
    with world.process()[0] as store:
        world.poll(store)
    monkeypatch.undo()
    world.poll()
    world.check()
    assert world.commits() == before + 2


@pytest.mark.parametrize("world", ALL, indirect=True)
def test_nothing_to_take_writes_no_row(world: World) -> None:
    world.poll()
    assert world.held() == []
    for _ in range(2):
        world.case.offer()
        report = world.poll()
        assert (report.rows, report.dead_rows, report.error) == (0, 0, None)
    assert world.commits() == 0
    assert not world.case.source(world.session.store).list_pending()
    world.offer(1)
    world.poll()
    world.check()


@pytest.mark.parametrize("world", [one for one in ALL if one.values[0].has_columns], indirect=True)
def test_a_further_column_is_told_and_left_out(world: World) -> None:
    world.offer(0)
    world.poll()
    world.case.widen(50)
    report = world.poll()
    assert "more" in "".join(report.warnings)
    world.check()
    world.offer(1)
    world.poll()
    world.check()


@pytest.mark.parametrize("world", [one for one in ALL if one.values[0].has_columns], indirect=True)
@pytest.mark.parametrize("how", ["lose", "retype"])
def test_a_column_that_is_lost_or_of_another_type_is_told_and_nothing_is_guessed(
    world: World, how: str
) -> None:
    world.offer(0)
    world.offer(1)
    world.poll()
    column = getattr(world.case, how)()
    try:
        report = world.poll()
        assert (report.rows, report.dead_rows) == (0, 1)
        words = world.letters()
    except SourceError as error:
        words = [str(error)]
    assert words and all(re.search(rf"\b{column}\b", word) for word in words), words
    world.check()
    world.case.mend(world.session)
    world.offer(2)
    world.poll()
    world.check()


@pytest.mark.parametrize("world", [one for one in ALL if issubclass(one.values[0], Landing)], indirect=True)
def test_files_that_are_seen_out_of_their_order_are_taken_as_they_are_seen(world: World) -> None:
    for offers in ([5, 3, 4], [1], [9, 2], [0]):
        for number in offers:
            world.case.offers = number
            world.case.write(((7, number), (number, number)))
        for number in sorted(offers):  # those that are seen together are taken by their names
            world.case.rows |= {7: number, number: number}
        world.poll()
        world.check()


def _at_commit(monkeypatch: pytest.MonkeyPatch, then: Callable[[], object], moment: str) -> None:
    """Do something once, before or behind the next commit of rows of the table."""
    commit, done = Hummock.commit, []

    def watched(store: Hummock, asked: Commit) -> Version:
        first = "t" in asked.writes and not done
        if first:
            done.append(True)
        if first and moment == "before":
            then()
        found = commit(store, asked)
        if first and moment == "behind":
            then()
        return found

    monkeypatch.setattr(Hummock, "commit", watched)


def test_all_connectors_are_held_to_the_contract(tmp_path: Path) -> None:
    from engine.connectors.registry import OWN

    def find_connectors(cases: Sequence[type[SourceCase]]) -> set[str]:
        names = [kind.name for kind in OWN]
        return {name for name in names for case in cases if f"{case.name}-".startswith(f"{name}-")}

    assert {kind.name for kind in OWN} == find_connectors(CASES)
    passed = find_connectors([case for case in CASES if case.passes])
    assert {kind.name for kind in OWN if kind.pass_through} == passed
    assert Delta in CASES and len({case.name for case in CASES}) == len(CASES)

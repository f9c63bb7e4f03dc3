"""When the row that makes a view fail is asked for: after all others have committed, and no more often than needed. No Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from engine.errors import RowFailed, Unavailable
from engine.hummock import Put
from engine.meta.domains.failures import FailedRow, list_failures
from engine.runtime.executor import FragmentTask
from tests.crash.program.steps import Program

ROW, OTHER = FailedRow("a", "{'id': 7}", 1), FailedRow("a", "{'id': 8}", 2)


@dataclass
class Search:
    """Finds `row`; `asked` are the rows that were remembered, and which other views had not committed."""

    program: Program
    row: FailedRow | None = ROW
    broken: bool = False
    asked: list[tuple[FailedRow | None, set[str]]] = field(default_factory=list)

    def build_error(self, row: FailedRow | None) -> RowFailed:
        where = "" if row is None else f"\n  {row.text}"
        failure = RowFailed(f"division by zero{where}", "division by zero")
        failure.row, failure.search = row, None if row is not None else self
        return failure

    def find(self, remembered: FailedRow | None, seconds: float) -> RowFailed:
        version = self.program.store.refresh()
        newest = version.tables["a"].committed_epoch
        behind = {name for name in ("one", "two") if version.tables[name].committed_epoch < newest}
        known = None if remembered is None else {ROW.key: ROW, OTHER.key: OTHER}[remembered.key]
        self.asked.append((known, behind))
        if self.broken:
            raise Unavailable("the store does not answer")
        if self.row is None:
            return self.build_error(None)
        return self.build_error(msgspec.structs.replace(self.row, epoch=newest, reason="division by zero"))


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """A program without faults: views bad, one and two over a."""
    program = Program(0, tmp_path)
    program.objects.plan.rate = 0.0
    for name in ("bad", "one", "two"):
        program._commit_view(name, "SELECT id, x * 2 AS x2 FROM a", {})
    write(program)
    program.flusher.run()
    return program


@pytest.fixture
def search(program: Program) -> Search:
    """From now on the view bad fails on a row."""
    search = Search(program)

    def before(task: FragmentTask) -> None:
        if task.fragment.table == "bad":
            raise search.build_error(None)

    program.flusher.executor._before = before  # type: ignore[attr-defined]
    write(program)
    return search


def write(program: Program) -> None:
    program.clock.sleep(1.0)
    rows = {name: pa.array(range(50), pa.int64()) for name in ("id", "g", "x")}
    program.store.ingest_batch({"a": [Put(pa.table(rows))]})


def failed(program: Program) -> str:
    """Run everything, and return the error of the view that fails; it is in the store as well."""
    error = program.flusher.run()["bad"].error
    assert error is not None and list_failures(program.store.refresh())["bad"].error == error
    return error


def test_the_row_is_asked_for_once_all_others_have_committed(program: Program, search: Search) -> None:
    assert ROW.text in failed(program)
    assert search.asked == [(None, set())]


def test_the_row_is_remembered_and_asked_for_by_itself_only_if_something_has_changed(
    program: Program, search: Search
) -> None:
    failed(program)
    search.asked.clear()
    assert ROW.text in failed(program) and search.asked == []
    write(program)
    assert ROW.text in failed(program) and search.asked == [(ROW, set())]
    write(program)
    search.row = OTHER
    assert OTHER.text in failed(program)
    write(program)
    assert OTHER.text in failed(program) and search.asked[-1] == (OTHER, set())
    assert list_failures(program.store.version)["bad"].attempts == 4


def test_another_process_knows_the_row_too(program: Program, search: Search) -> None:
    failed(program)
    search.asked.clear()
    executor = program.flusher.executor
    program._open()
    program.objects.plan.rate = 0.0
    program.flusher.executor._before = executor._before  # type: ignore[attr-defined]
    assert ROW.text in failed(program) and search.asked == []


def test_a_search_that_found_nothing_is_repeated_ever_more_rarely(program: Program, search: Search) -> None:
    search.row = None
    asked = []
    for _ in range(9):
        search.asked.clear()
        assert failed(program) == "division by zero"
        asked.append(len(search.asked))
        write(program)
    assert asked == [1, 1, 0, 1, 0, 0, 0, 1, 0]


def test_a_search_that_cannot_be_done_leaves_the_failure_as_it_is(program: Program, search: Search) -> None:
    search.broken = True
    assert failed(program) == "division by zero" and search.asked


def test_what_is_remembered_goes_when_the_view_commits(program: Program, search: Search) -> None:
    failed(program)
    program.flusher.executor._before = lambda task: None  # type: ignore[attr-defined]
    assert program.flusher.run()["bad"].error is None
    assert not list_failures(program.store.refresh())

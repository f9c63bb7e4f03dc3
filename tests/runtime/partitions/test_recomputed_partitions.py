"""Partitions that are computed again change a view although no input has changed: whoever reads the view sees it, at any moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.meta.domains.quarantine import read_quarantine
from engine.meta.epochs.barrier import find_open_barrier, find_recompute_epochs
from engine.runtime.domains import flush_planning
from engine.runtime.domains.flush import FlushRunner
from engine.runtime.executor import FragmentTask, TaskResult
from tests.crash.program.table_verbs import POISONOUS
from tests.crash.program.view_verbs import CHECKED
from tests.crash.views_in_memory import ViewsInMemory, hook_runs
from tests.runtime.domains.test_flush_races import before_barrier


@pytest.fixture
def views(tmp_path: Path) -> ViewsInMemory:
    """`cut` has a poisonous partition, which was mended but not tried again yet; `below` reads it and `t`."""
    made = ViewsInMemory(tmp_path)
    made.table("t", "id", "x")
    made.table("u", "id", "g", "x")
    made.view("cut", f"SELECT g, sum({CHECKED}) AS s FROM u GROUP BY g", partition_by="g")
    made.view(
        "below",
        "SELECT count(*) AS n, sum(k) AS s FROM (SELECT s AS k FROM cut UNION ALL SELECT x AS k FROM t) q",
    )
    made.put("u", id=1, g=1, x=1)
    made.put("u", id=2, g=2, x=POISONOUS)
    made.flusher.run().raise_for_errors()
    assert list(read_quarantine(made.store.version, "cut")) == ["2"]
    made.put("u", id=2, g=2, x=3)
    return made


class Died(BaseException):
    """The death of a process."""


def die_computing_again(run: FlushRunner) -> None:
    """Bring `cut` on, and die in the middle of computing its partition again."""
    compute = run.executor.compute

    def broken(task: FragmentTask) -> TaskResult:
        if task.again is not None:
            raise Died
        return compute(task)

    run.executor.compute = broken  # type: ignore[method-assign]
    with pytest.raises(Died):
        run.run(["cut"])


def test_what_reads_a_view_meanwhile_sees_the_partitions_that_are_computed_again(
    views: ViewsInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = views.process()
    hook_runs(monkeypatch, other, "_recompute_partitions", lambda *what: None)  # it finds nothing due

    def read_on() -> None:
        views.put("t", id=1, x=10)
        other.run(["below"]).raise_for_errors()
        assert list(read_quarantine(views.store.refresh(), "cut")) == ["2"]

    before_barrier(2, views.flusher, monkeypatch, read_on)
    views.flusher.run(["cut"]).raise_for_errors()
    assert not read_quarantine(views.store.refresh(), "cut")
    other.run().raise_for_errors()
    assert views.rows("below") == [{"n": 3, "s": 14}]


def test_while_partitions_are_computed_again_a_view_has_no_content_from_there_on(
    views: ViewsInMemory,
) -> None:
    die_computing_again(views.flusher)
    left = find_open_barrier(views.store.refresh(), "cut")
    assert left is not None and find_recompute_epochs(views.store.version)["cut"] == left.barrier.curr
    views.put("t", id=1, x=10)
    assert views.content().find_newest("cut", views.store.version.epoch) == left.barrier.curr - 1
    assert views.content().find_newest("t", views.store.version.epoch) == views.store.version.epoch


def test_a_recomputation_that_was_broken_off_is_made_above_all_that_was_read_since(
    views: ViewsInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    die_computing_again(views.flusher)
    views.put("t", id=1, x=10)
    other = views.process()
    hook_runs(monkeypatch, other, "_recompute_partitions", lambda *what: None)  # it finds nothing due
    other.run(["below"]).raise_for_errors()
    views.process().run().raise_for_errors()
    assert views.rows("below") == [{"n": 3, "s": 14}] and not find_recompute_epochs(views.store.refresh())


def test_a_broken_off_recomputation_does_not_hold_back_what_reads_the_view(
    views: ViewsInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    die_computing_again(views.flusher)
    written = views.put("t", id=1, x=10)
    monkeypatch.setattr(
        flush_planning, "find_due_partitions", lambda *what, **named: frozenset()
    )  # it is not due yet
    views.process().run(["below"]).raise_for_errors()
    assert list(read_quarantine(views.store.refresh(), "cut")) == ["2"]
    assert views.content().find_common(["below", "t"], views.store.version.epoch) == views.store.version.epoch
    assert views.store.version.tables["below"].committed_epoch >= written

"""Runs of two processes that meet at the worst moment: both go on, and what was written before a flush can be read after it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.meta.catalog.stored_catalog import load_catalog
from engine.meta.domains.failures import list_failures
from engine.meta.domains.quarantine import read_quarantine
from engine.meta.epochs.query_policy import choose_epochs
from engine.runtime.domains.flush import FlushRunner
from tests.crash.program.table_verbs import POISONOUS
from tests.crash.program.view_verbs import CHECKED
from tests.crash.views_in_memory import ViewsInMemory, hook_runs


@pytest.fixture
def views(tmp_path: Path) -> ViewsInMemory:
    made = ViewsInMemory(tmp_path)
    made.table("t", "id", "x")
    return made


def before_barrier(
    number: int, run: FlushRunner, monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]
) -> None:
    """Do something between what a run looks at and its `number`-th barrier."""
    count = iter(range(1, 1000))

    def hooked(mint, *what):  # type: ignore[no-untyped-def]
        if next(count) == number:
            act()
        return mint(*what)

    hook_runs(monkeypatch, run, "_mint_barrier", hooked)


def test_a_flush_whose_cut_was_refused_takes_the_newer_one(
    views: ViewsInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        views.view(name, "SELECT count(*) AS n FROM t")
    views.flusher.run().raise_for_errors()
    other = views.process()

    def pass_by() -> None:
        views.put("t", id=2, x=1)
        other.run(["b"]).raise_for_errors()

    written = views.put("t", id=1, x=1)
    before_barrier(1, views.flusher, monkeypatch, pass_by)
    views.flusher.run().raise_for_errors()
    version = views.store.refresh()
    read = choose_epochs(version, load_catalog(version), ("a", "b"))
    assert read["a"] >= written
    assert views.rows("a", read["a"]) == views.rows("b", read["b"])


def test_a_run_of_one_view_stops_where_a_run_of_all_is_on_its_way(
    views: ViewsInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        views.view(name, "SELECT count(*) AS n FROM t")
    views.view("on_b", "SELECT n FROM b")
    views.flusher.run().raise_for_errors()
    other = views.process()

    def pass_by() -> None:
        views.put("t", id=2, x=1)
        other.run(["on_b"]).raise_for_errors()

    written = views.put("t", id=1, x=1)
    before_barrier(3, views.flusher, monkeypatch, pass_by)
    views.flusher.run().raise_for_errors()
    version = views.store.refresh()
    assert choose_epochs(version, load_catalog(version), ("a", "on_b"))["a"] >= written


@pytest.mark.parametrize("mended", [True, False])
def test_a_quarantined_partition_is_tried_again_though_another_run_mints_a_cut(
    views: ViewsInMemory, monkeypatch: pytest.MonkeyPatch, mended: bool
) -> None:
    views.table("u", "id", "g", "x")
    views.view("other", "SELECT count(*) AS n FROM t")
    cut = f"SELECT g, sum({CHECKED}) AS s FROM u GROUP BY g"
    views.view("cut", cut, partition_by="g")
    views.put("u", id=1, g=1, x=1)
    views.flusher.run().raise_for_errors()
    views.put("u", id=2, g=2, x=POISONOUS)
    views.flusher.run().raise_for_errors()
    assert list(read_quarantine(views.store.version, "cut")) == ["2"]
    process = views.process()

    def pass_by() -> None:
        views.put("t", id=1, x=1)
        process.run(["other"]).raise_for_errors()

    views.put("u", id=1, g=1, x=2)
    if mended:
        views.put("u", id=2, g=2, x=3)
    before_barrier(2, views.flusher, monkeypatch, pass_by)
    views.flusher.run(["cut"]).raise_for_errors()
    version = views.store.refresh()
    assert "cut" not in list_failures(version) and bool(read_quarantine(version, "cut")) is not mended
    assert views.rows("other") == [{"n": 1}], "the other run came between"
    assert {"g": 2, "s": 3} in views.rows("cut") or not mended

"""Runs of two processes that meet at the worst moment: both go on, and what was written before a flush can be read after it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.meta.catalog_store import load
from engine.meta.policy import epochs_of
from engine.runtime.flush import FlushRun
from tests.crash.views_in_memory import ViewsInMemory


@pytest.fixture
def views(tmp_path: Path) -> ViewsInMemory:
    made = ViewsInMemory(tmp_path)
    made.table("t", "id", "x")
    return made


def before_barrier(
    number: int, run: FlushRun, monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]
) -> None:
    """Do something between what a run looks at and its `number`-th barrier."""
    mint, count = run._mint, iter(range(1, 1000))

    def hooked(*what):  # type: ignore[no-untyped-def]
        if next(count) == number:
            act()
        return mint(*what)

    monkeypatch.setattr(run, "_mint", hooked)


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
    read = epochs_of(version, load(version), ("a", "b"))
    assert read["a"] >= written
    assert views.rows("a", read["a"]) == views.rows("b", read["b"])

"""A backfill whose domain another process has claimed waits for that process as long as one step is worth, not the whole backfill."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from engine.runtime.executor import FragmentTask, TaskResult
from tests.crash.views_in_memory import ViewsInMemory


@pytest.mark.long
def test_a_backfill_that_was_overtaken_by_a_process_that_died_goes_on_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = ViewsInMemory(tmp_path)
    views.table("t", "id", "x")
    for number in range(100):
        views.put("t", id=number, x=number)
    views.view("v", "SELECT id, x FROM t", background="true", backfill_rate_limit="1")
    run, other = views.flusher, views.process()
    compute, began = run.executor.compute, list[float]()

    def overtaken(task: FragmentTask) -> TaskResult:
        began.append(views.clock.monotonic())
        if len(began) == 50:
            other.store.claim("v")  # and that was the last that was heard of it
        return compute(task)

    monkeypatch.setattr(run.executor, "compute", overtaken)
    run.run(background_seconds=1000.0).raise_for_errors()
    assert began[49] - began[0] > 40 and len(views.rows("v")) == 100
    assert max(after - before for before, after in pairwise(began)) < 5

"""A plan foretells what partitions that are computed again do to the domains after them."""

from __future__ import annotations

from pathlib import Path

from engine.meta.domains.quarantine import read_quarantine
from engine.meta.epochs.flush_plan import RECOMPUTE
from tests.crash.planned import check_planned, plan_last_run
from tests.crash.program.table_verbs import POISONOUS
from tests.crash.program.view_verbs import CHECKED
from tests.crash.views_in_memory import ViewsInMemory
from tests.runtime.partitions.test_recomputed_partitions import die_computing_again


def test_a_plan_knows_where_a_view_stops_after_partitions_of_another_were_tried_again(tmp_path: Path) -> None:
    views = ViewsInMemory(tmp_path)
    views.table("u", "id", "g", "x")
    views.view("cut", f"SELECT g, sum({CHECKED}) AS s FROM u GROUP BY g", partition_by="g")
    views.view("late", "SELECT count(*) AS n FROM u")
    views.put("u", id=1, g=1, x=1)
    views.flusher.run().raise_for_errors()
    views.put("u", id=2, g=2, x=POISONOUS)
    views.flusher.run(["cut"]).raise_for_errors()
    assert list(read_quarantine(views.store.version, "cut")) == ["2"]
    views.put("u", id=3, g=2, x=1)

    report = views.flusher.run()
    works = {name: [step.work for step in steps] for name, steps in views.flusher.executed.items()}
    assert works == {"cut": ["epoch", RECOMPUTE], "late": ["epoch", "epoch"]}
    check_planned(views.flusher, report)
    assert [step.work for step in plan_last_run(views.flusher)["late"].steps] == works["late"]


def test_a_plan_stops_at_the_cut_of_a_recomputation_that_was_broken_off(tmp_path: Path) -> None:
    views = ViewsInMemory(tmp_path)
    views.table("u", "id", "g", "x")
    views.view("cut", f"SELECT g, sum({CHECKED}) AS s FROM u GROUP BY g", partition_by="g")
    views.view("below", "SELECT g, s FROM cut")
    views.put("u", id=1, g=1, x=1)
    views.put("u", id=2, g=2, x=POISONOUS)
    views.flusher.run().raise_for_errors()
    views.put("u", id=2, g=2, x=3)
    views.put("u", id=1, g=1, x=2)
    die_computing_again(views.flusher)

    run = views.process()
    report = run.run()
    check_planned(run, report)
    works = {name: [(step.work, step.stop) for step in steps] for name, steps in run.executed.items()}
    assert len(works["below"]) == 2
    assert [(step.work, step.stop) for step in plan_last_run(run)["below"].steps] == works["below"]

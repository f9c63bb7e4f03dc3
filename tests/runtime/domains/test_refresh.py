"""A view with a refresh of its own rests until its time comes, or until somebody asks for it by its name."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from engine.errors import EpochExpired
from engine.meta.catalog.stored_catalog import load_catalog
from engine.meta.epochs.query_policy import choose_epochs, find_global_epoch
from engine.meta.status.waits import DomainWait, list_waits
from engine.runtime.epoch.mutation_run import request_mutation
from tests.crash.views_in_memory import ViewsInMemory

TOTAL = "SELECT count(*) AS n, sum(x) AS s FROM t"
DAYS = 24 * 3600.0


@pytest.fixture
def views(tmp_path: Path) -> ViewsInMemory:
    made = ViewsInMemory(tmp_path)
    made.table("t", "id", "x")
    made.put("t", id=1, x=1)
    return made


def map_waits(views: ViewsInMemory) -> Mapping[str, DomainWait]:
    version = views.store.refresh()
    return {wait.domain: wait for wait in list_waits(version, load_catalog(version), views.clock())}


def total(views: ViewsInMemory, name: str = "v") -> tuple[int, int]:
    [row] = views.rows(name)
    return row["n"], row["s"]


def moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S")


@pytest.mark.parametrize("eager", [True, False])
def test_a_view_that_is_refreshed_by_hand_gets_its_first_content_and_then_rests(
    views: ViewsInMemory, eager: bool
) -> None:
    views.view("v", TOTAL, refresh="manual")
    views.view("free", TOTAL)
    views.flusher.run(eager=eager).raise_for_errors()
    assert total(views) == (1, 1)
    views.put("t", id=2, x=2)
    report = views.flusher.run(eager=eager)
    report.raise_for_errors()
    assert (total(views), total(views, "free")) == ((1, 1), (2, 3))
    assert report["v"].waits_for == "it is brought on by REFRESH MATERIALIZED VIEW v only"
    wait = map_waits(views)["v"]
    assert (wait.kind, wait.goes_on, wait.reason) == ("refresh", False, report["v"].waits_for)
    assert wait.until is not None and wait.until - views.clock() == pytest.approx(7 * DAYS, abs=1.0)


def test_its_name_brings_it_on_by_the_net_change_of_what_it_reads(views: ViewsInMemory) -> None:
    views.view("v", TOTAL, refresh="manual")
    views.flusher.run().raise_for_errors()
    for x in (5, 6, 7):
        views.put("t", id=1, x=x)
        views.flusher.run().raise_for_errors()
    report = views.flusher.run(["v"])
    report.raise_for_errors()
    assert (report["v"].updated, report["v"].rows_out, report["v"].rebuilt) == (1, 1, None)
    assert total(views) == (1, 7) and map_waits(views) == {}


def test_a_run_that_nobody_asked_for_by_hand_leaves_it_alone_though_it_names_it(views: ViewsInMemory) -> None:
    views.view("v", TOTAL, refresh="manual")
    views.flusher.run().raise_for_errors()
    views.put("t", id=2, x=2)
    assert views.flusher.run(["v"], eager=False)["v"].waits_for is not None
    assert total(views) == (1, 1)


@pytest.mark.parametrize(("schedule", "step"), [("every 1 hour", 3600), ("*/10 * * * *", 600)])
def test_a_view_on_a_schedule_is_due_at_the_first_of_its_times_after_a_change(
    views: ViewsInMemory, schedule: str, step: int
) -> None:
    views.view("v", TOTAL, refresh=schedule)
    views.flusher.run().raise_for_errors()
    views.clock.sleep(3 * step)  # times without a change are none
    views.put("t", id=2, x=2)
    due = (views.clock() // step + 1) * step
    wait = map_waits(views)["v"]
    assert wait.until == due and f"{moment(due)} UTC ({schedule})" in wait.reason
    views.clock.sleep(due - views.clock() - 1.0)
    views.flusher.run()
    views.flusher.run(eager=False)
    assert total(views) == (1, 1)
    views.clock.sleep(1.0)
    assert map_waits(views)["v"].goes_on
    views.flusher.run(eager=False).raise_for_errors()
    assert total(views) == (2, 3) and map_waits(views) == {}
    views.put("t", id=3, x=3)
    assert map_waits(views)["v"].until == due + step


def test_what_reads_a_resting_view_follows_it_and_rests_with_it(views: ViewsInMemory) -> None:
    views.view("v", TOTAL, refresh="manual")
    views.view("below", "SELECT n, s FROM v WHERE n > 0")
    views.flusher.run().raise_for_errors()
    views.put("t", id=2, x=2)
    report = views.flusher.run(["below"])  # which asks for what it reads as it stands
    assert report["v"].waits_for is not None and "waits for v" in str(report["below"].waits_for)
    assert map_waits(views)["below"].kind == "upstream" and not map_waits(views)["below"].goes_on
    views.flusher.run(["v"]).raise_for_errors()
    views.put("t", id=3, x=3)  # v rests again, and has come nearer
    assert map_waits(views)["below"].goes_on
    views.flusher.run(eager=False).raise_for_errors()
    assert (total(views), total(views, "below")) == ((2, 3), (2, 3))


def test_a_view_that_failed_is_not_tried_again_before_its_time(
    views: ViewsInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    views.view("v", TOTAL, refresh="manual")
    views.flusher.run().raise_for_errors()
    views.put("t", id=2, x=2)
    with monkeypatch.context() as broken:
        broken.setattr(views.flusher.executor, "compute", lambda task: 1 / 0)
        assert views.flusher.run(["v"]).failed
    views.clock.sleep(1000.0)
    assert not views.flusher.run(eager=False).failed
    wait = map_waits(views)["v"]
    assert wait.kind == "refresh" and "the last time it failed: ZeroDivisionError" in wait.reason
    views.flusher.run(["v"]).raise_for_errors()
    assert total(views) == (2, 3)


def test_a_mutation_is_taken_and_the_view_rests_on(views: ViewsInMemory) -> None:
    views.view("v", TOTAL, refresh="manual")
    views.flusher.run().raise_for_errors()
    views.put("t", id=2, x=2)
    request_mutation(views.store, "v", "update", 4, views.clock())
    report = views.flusher.run()
    assert len(report["v"].mutations) == 1
    assert total(views) == (1, 1) and map_waits(views)["v"].kind == "refresh"


def test_a_read_of_it_and_its_input_is_one_epoch_until_the_past_is_let_go_and_then_told(
    views: ViewsInMemory,
) -> None:
    views.view("v", TOTAL, refresh="manual")
    views.flusher.run().raise_for_errors()
    change = views.put("t", id=2, x=2)
    version = views.store.refresh()
    stored = load_catalog(version)
    read = choose_epochs(version, stored, ["v", "t"])
    assert read["v"] == read["t"] == change - 1
    assert choose_epochs(version, stored, ["t"])["t"] == version.epoch
    views.clock.sleep(8 * DAYS)
    views.put("t", id=3, x=3)
    views.flusher.run(eager=False)
    views.clock.sleep(3600.0)
    views.store.compact("t")
    views.store.gc(grace_seconds=0)
    version = views.store.refresh()
    with pytest.raises(EpochExpired, match="run REFRESH MATERIALIZED VIEW v, or read each at its own newest"):
        choose_epochs(version, load_catalog(version), ["v", "t"])
    report = views.flusher.run(["v"])
    report.raise_for_errors()
    assert report["v"].rebuilt is not None and total(views) == (3, 6)


def test_the_epoch_of_all_views_leaves_those_out_that_rest(views: ViewsInMemory) -> None:
    views.view("v", TOTAL, refresh="manual")
    views.view("below", "SELECT n FROM v")
    views.view("free", TOTAL)
    views.flusher.run().raise_for_errors()
    views.put("t", id=2, x=2)
    views.flusher.run().raise_for_errors()
    version = views.store.refresh()
    assert find_global_epoch(version, load_catalog(version)) == version.epoch

"""What a run would do, told by a value that is made from a version alone; and the run does it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from engine.errors import EpochExpired, EpochFailed, SqlError
from engine.hummock import Commit, Put
from engine.meta.domains.failures import list_failures
from engine.meta.domains.mutation import Mutation
from engine.meta.domains.quarantine import read_quarantine
from engine.meta.epochs.flush_plan import DomainPlan, FlushPlan
from engine.runtime.domains import flush_planning
from engine.runtime.domains.flush import FlushRunner
from engine.runtime.epoch.mutation_run import request_mutation
from engine.runtime.executor import FragmentTask
from tests.crash.planned import check_planned, plan_last_run
from tests.crash.program.table_verbs import POISONOUS
from tests.crash.program.view_verbs import CHECKED
from tests.crash.views_in_memory import ViewsInMemory

GROUPS = "SELECT g, count(*) AS n, sum(x) AS s FROM t GROUP BY g"


@pytest.fixture
def views(tmp_path: Path) -> ViewsInMemory:
    """`groups` reads `t`, `below` reads `groups`; both are current."""
    made = ViewsInMemory(tmp_path)
    made.table("t", "id", "g", "x")
    made.view("groups", GROUPS)
    made.view("below", "SELECT n, s FROM groups WHERE n > 0")
    made.put("t", id=1, g=1, x=1)
    made.flusher.run().raise_for_errors()
    return made


def plan(world: ViewsInMemory, eager: bool = True, **asked: object) -> FlushPlan:
    return world.flusher.plan(world.flusher.build_request(eager=eager, **asked))  # type: ignore[arg-type]


def works(plan: DomainPlan) -> list[str]:
    return [step.work for step in plan.steps]


def run(views: ViewsInMemory, **asked: object) -> FlushRunner:
    """Run what is pending, and see that it is what the plan has said."""
    planned = plan(views, **asked)
    report = views.flusher.run(background_seconds=600.0, **asked)  # type: ignore[arg-type]
    assert plan_last_run(views.flusher).domains == planned.domains
    check_planned(views.flusher, report)
    return views.flusher


def fail(views: ViewsInMemory, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    compute = views.flusher.executor.compute

    def broken(task: FragmentTask):  # type: ignore[no-untyped-def]
        if task.fragment.table == name:
            raise EpochFailed(f"{name} is made to fail")
        return compute(task)

    monkeypatch.setattr(views.flusher.executor, "compute", broken)


def poisoned(views: ViewsInMemory) -> None:
    """Make a view that is cut, and whose partition 2 is in quarantine."""
    views.view("cut", f"SELECT g, sum({CHECKED}) AS s FROM t GROUP BY g", partition_by="g")
    views.put("t", id=2, g=2, x=POISONOUS)
    views.flusher.run()
    assert list(read_quarantine(views.store.refresh(), "cut")) == ["2"]


def test_where_nothing_has_changed_there_is_nothing_to_do(views: ViewsInMemory) -> None:
    found = plan(views)
    assert [(one.name, one.due, one.steps, one.waits_for) for one in found.domains] == [
        ("groups", False, (), None),
        ("below", False, (), None),
    ]
    assert found.due == () and "groups: nothing" in str(found)


def test_an_epoch_goes_from_what_a_view_has_to_the_last_change_and_counts_the_rows_that_wait(
    views: ViewsInMemory,
) -> None:
    before = views.store.refresh().tables["groups"].committed_epoch
    first = views.put("t", id=2, g=1, x=1)
    last = views.put("t", id=3, g=2, x=1)
    found = plan(views)["groups"]
    (step,) = found.steps
    assert (step.work, step.label, step.oldest_change, step.rows) == ("epoch", last, first, 2)
    assert step.epoch.prev == before and plan(views).target_epoch == views.store.version.epoch == step.stop
    assert [(f.table, f.rule, f.how, f.previous) for f in step.fragments] == [
        ("groups", "aggregate", "epoch", before)
    ]
    run(views)
    assert views.store.refresh().tables["groups"].committed_epoch == last


def test_what_reads_a_view_that_is_brought_on_follows_it_and_does_not_know_its_rows(
    views: ViewsInMemory,
) -> None:
    last = views.put("t", id=2, g=1, x=1)
    found = plan(views)["below"]
    (step,) = found.steps
    assert (step.work, step.label, step.rows, found.reads) == ("epoch", last, 0, ("groups",))
    assert step.fragments[-1].unknown == ("groups",) and "what comes of groups" in str(plan(views))


def test_a_change_that_cancels_out_leaves_less_to_do_than_planned(views: ViewsInMemory) -> None:
    views.put("t", id=2, g=2, x=1)
    views.delete("t", id=2)
    assert works(plan(views)["below"]) == ["epoch"]
    assert "below" in run(views).executed and run(views).executed.get("below", ()) == ()


def test_new_views_get_their_first_content_inputs_first(views: ViewsInMemory) -> None:
    views.view("later", GROUPS)
    views.view("on_later", "SELECT s FROM later")
    found = plan(views)
    assert [one.name for one in found.due] == ["later", "on_later"]
    assert works(found["later"]) == works(found["on_later"]) == ["first content"]
    assert found["later"].steps[0].rows == 1 and found["later"].steps[0].epoch.kind == "initial"
    run(views)


def test_only_what_is_asked_for_is_planned_with_what_it_reads(views: ViewsInMemory) -> None:
    views.put("t", id=2, g=1, x=1)
    assert [one.name for one in plan(views, views=["below"]).domains] == ["groups", "below"]
    assert [one.name for one in plan(views, views=["groups"]).domains] == ["groups"]
    with pytest.raises(SqlError, match="nothing"):
        plan(views, views=["nothing"])


def test_a_large_view_and_one_in_the_background_are_built_in_steps_after_all_others(
    views: ViewsInMemory,
) -> None:
    rows = pa.table({"id": range(100, 200), "g": [3] * 100, "x": [1] * 100})
    views.view("large", "SELECT id, x FROM t")
    views.store.ingest_batch({"t": [Put(rows)]})
    found = plan(views)
    assert works(found["large"]) == ["backfill step"] and found["large"].steps[0].rows == 101
    assert [one.name for one in found.due] == ["groups", "below", "large"]
    run(views)


def test_a_backfill_that_was_broken_off_goes_on_from_its_snapshot_and_follows_the_log(
    views: ViewsInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    views.view("large", "SELECT id, x FROM t", background="true")
    views.store.ingest_batch({"t": [Put(pa.table({"id": range(100, 200), "g": [3] * 100, "x": [1] * 100}))]})
    snapshot = views.store.refresh().epoch
    views.flusher.backfill.largest_step = 20
    step = views.flusher.backfill._run_step

    def slow(*what):  # type: ignore[no-untyped-def]
        views.clock.sleep(10.0)
        return step(*what)

    with monkeypatch.context() as patch:
        patch.setattr(views.flusher.backfill, "_run_step", slow)
        views.flusher.run(background_seconds=15.0)
    last = views.put("t", id=300, g=3, x=1)
    found = plan(views)["large"]
    assert [(s.work, s.label) for s in found.steps] == [("backfill step", snapshot), ("epoch", last)]
    assert "backfilling" in found.notes[0]
    assert [s.work for s in run(views).executed["large"]] == ["backfill step", "epoch"]


def test_a_view_whose_history_was_let_go_is_computed_whole(views: ViewsInMemory) -> None:
    views.store.alter_table("t", retention_seconds=0.001)
    views.store.commit(Commit(acks={"t": {"groups": None}}))
    views.put("t", id=2, g=1, x=1)
    views.clock.sleep(10.0)
    views.store.compact("t")
    views.store.gc(grace_seconds=0)
    assert views.store.refresh().tables["t"].safe_epoch > views.store.version.tables["groups"].committed_epoch
    (step,) = plan(views)["groups"].steps
    assert step.work == "computed whole" and step.fragments[0].how == "computed whole"
    run(views)


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_mutations_come_first_and_what_they_put_in_force_holds_for_the_rest(
    views: ViewsInMemory, verb: Mutation
) -> None:
    if verb == "resume":
        request_mutation(views.store, "groups", "pause", None, views.clock())
        views.flusher.run()
    request_mutation(views.store, "groups", verb, None, views.clock())
    views.put("t", id=2, g=1, x=1)
    found = plan(views)
    assert found["groups"].steps[0].mutations == (f"{verb} groups",)
    if verb == "pause":
        assert works(found["groups"]) == ["mutation"] and "RESUME" in str(found["groups"].waits_for)
        assert works(found["below"]) == []
        assert str(found["below"].waits_for).startswith("waits for groups: paused")
    else:
        assert works(found["groups"]) == ["mutation", "epoch"] and works(found["below"]) == ["epoch"]
    run(views)


def test_what_has_failed_is_tried_by_hand_at_once_and_else_waits_with_all_that_reads_it(
    views: ViewsInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    views.put("t", id=2, g=1, x=1)
    fail(views, monkeypatch, "groups")
    run(views)
    by_hand, scheduled = plan(views), plan(views, eager=False)
    assert works(by_hand["groups"]) == ["epoch"] and "failed once" in by_hand["groups"].notes[0]
    assert by_hand["groups"].steps[0].minting == "again"
    assert scheduled.due == () and "made to fail" in str(scheduled["groups"].waits_for)
    assert str(scheduled["below"].waits_for).startswith("waits for groups: groups is made to fail")
    run(views, eager=False)
    views.clock.sleep(200.0)
    assert works(plan(views, eager=False)["groups"]) == ["epoch"]


def test_what_fails_by_hand_again_over_the_same_leaves_no_trace(
    views: ViewsInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    views.view("new", GROUPS)
    views.put("t", id=2, g=1, x=1)
    with monkeypatch.context() as broken:
        for name in ("groups", "new"):
            fail(views, broken, name)
        run(views)
        before = views.store.refresh().number
        for _ in range(10):
            views.clock.sleep(60.0)
            failed = {report.view: str(report.error) for report in views.flusher.run().failed}
            assert failed == {name: f"{name} is made to fail" for name in ("groups", "new")}
        assert views.store.refresh().number == before
        views.flusher.run(eager=False)  # which counts, so that it is tried ever more rarely
        assert views.store.refresh().number > before
        fail(views, broken, "new")
        views.put("t", id=3, g=1, x=1)
        before = views.store.refresh().number
        run(views)
        assert views.store.refresh().number > before
        before = views.store.version.number
        run(views)
        assert views.store.refresh().number == before
    run(views)
    assert views.rows("below") == [{"n": 3, "s": 3}] and len(views.rows("new")) == 1
    assert not list_failures(views.store.refresh())


def test_another_failure_over_the_same_is_told(views: ViewsInMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    views.put("t", id=2, g=1, x=1)
    with monkeypatch.context() as broken:
        fail(views, broken, "groups")
        run(views)
    monkeypatch.setattr(views.flusher.executor, "compute", lambda task: 1 / 0)
    run(views)
    (failure,) = list_failures(views.store.refresh()).values()
    assert failure.error.startswith("ZeroDivisionError") and failure.attempts == 2


def test_a_quarantined_partition_is_computed_again_when_its_inputs_have_changed(views: ViewsInMemory) -> None:
    poisoned(views)
    assert plan(views).due == () and "partition 2" in plan(views)["cut"].notes[0]
    views.put("t", id=2, g=2, x=POISONOUS + 1)
    run(views)  # it fails once more, and waits longer
    mended = views.put("t", id=2, g=2, x=3)
    found = plan(views)["cut"]
    assert works(found) == ["epoch", "recompute partitions"]
    assert found.steps[0].label == mended and found.notes == ()
    (again,) = found.steps[1].again
    assert (again.view, again.due, again.requested) == ("cut", {"2"}, frozenset())
    assert works(plan(views, eager=False)["cut"]) == ["epoch"], "its wait is not over"
    run(views)
    assert not read_quarantine(views.store.refresh(), "cut")


def test_partitions_that_are_asked_for_are_computed_again_whatever_has_changed(views: ViewsInMemory) -> None:
    poisoned(views)
    views.table("other", "id")
    views.put("other", id=1)
    found = plan(views, partitions={"cut": ["1"]})["cut"]
    assert [(step.work, step.again[0].requested) for step in found.steps] == [("recompute partitions", {"1"})]
    assert "partitions of cut as a whole: 1 as asked" in str(plan(views, partitions={"cut": ["1"]}))
    assert [s.work for s in run(views, partitions={"cut": ["1"]}).executed["cut"]] == ["recompute partitions"]


def test_inputs_that_have_content_at_no_epoch_together_are_told(views: ViewsInMemory) -> None:
    request_mutation(views.store, "groups", "pause", None, views.clock())
    views.put("t", id=2, g=1, x=1)
    views.view("later", GROUPS)
    views.flusher.run()
    views.view("both", "SELECT groups.n, later.s FROM groups JOIN later ON groups.g = later.g")
    found = plan(views)["both"]
    assert works(found) == [] and str(found.waits_for).startswith("waits for groups: paused")
    assert str(found.waits_for).endswith(
        "no epoch yet at which all that it reads has content (groups, later)"
    )
    assert works(plan(views)["later"]) == []
    run(views)
    request_mutation(views.store, "groups", "resume", None, views.clock())
    assert works(plan(views)["both"]) == ["first content"]
    run(views)


def test_a_domain_that_cannot_be_planned_fails_alone(
    views: ViewsInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    views.view("later", GROUPS)
    label_of = flush_planning.choose_label

    def broken(domain, *what):  # type: ignore[no-untyped-def]
        if domain.name == "groups":
            raise EpochExpired("the log of t is gone")
        return label_of(domain, *what)

    monkeypatch.setattr(flush_planning, "choose_label", broken)
    views.put("t", id=2, g=1, x=1)
    assert plan(views)["groups"].waits_for == "it cannot be planned: the log of t is gone"
    assert works(plan(views)["later"]) == ["first content"]
    report = views.flusher.run()
    assert [(view.view, view.error) for view in report.failed] == [("groups", "the log of t is gone")]
    assert views.rows("later") == [{"g": 1, "n": 2, "s": 2}]


@pytest.mark.parametrize(
    "trouble",
    [
        lambda views: views.put("t", id=2, g=1, x=1),
        lambda views: views.view("later", GROUPS),
        lambda views: request_mutation(views.store, "groups", "pause", None, views.clock()),
        poisoned,
    ],
    ids=["epoch", "first content", "mutation", "partitions"],
)
def test_making_a_plan_changes_nothing_and_computes_nothing(
    views: ViewsInMemory, monkeypatch: pytest.MonkeyPatch, trouble: Callable[[ViewsInMemory], object]
) -> None:
    trouble(views)
    before = views.store.refresh()
    objects = {info.path for info in views._objects.list("")}
    other = views.process()
    monkeypatch.setattr(other, "executor", None)
    first, second = (other.plan(other.build_request(partitions={"groups": ["1"]})) for _ in range(2))
    assert first == second
    assert other.generations == {} and views.store.refresh() is before
    assert {info.path for info in views._objects.list("")} == objects


def test_a_domain_of_several_views_is_planned_as_one(views: ViewsInMemory) -> None:
    views.view("a", GROUPS, domain="red")
    views.view("b", "SELECT sum(s) AS s FROM a", domain="red")
    assert [(f.table, f.how) for f in plan(views)["red"].steps[0].fragments] == [
        ("a", "first content"),
        ("b", "first content"),
    ]
    run(views)
    views.put("t", id=2, g=1, x=1)
    a, b = plan(views)["red"].steps[0].fragments
    assert (a.rows, a.unknown, b.rows, b.unknown) == (1, (), 0, ("a",))
    run(views)

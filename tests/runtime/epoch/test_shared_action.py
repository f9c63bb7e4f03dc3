"""Small epochs of a run are computed by one action before their turn; each domain still checks, commits and fails by itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.operators.grouping import touched_groups
from engine.operators.shared_task import NO_TIME
from engine.runtime.epoch import prepared_frames, shared_action
from engine.runtime.epoch.shared_action import SharedActions, SharedResult
from engine.runtime.epoch.shared_schedule import plan_actions
from engine.runtime.epoch.spark_executor import SparkExecutor
from engine.session import Session
from tests.oracle.batch import assert_equal, by_duckdb, content
from tests.runtime.epoch.chain_of_views import (
    VIEWS,
    bids,
    check,
    create,
    list_shared,
    start,
    step,
)


def test_a_chain_of_views_is_computed_by_one_action(session: Session) -> None:
    start(session)
    report = step(session, 2)
    assert list_shared(report) == set(VIEWS)
    assert not any("spark" in view.stages for view in report.views)
    assert {table: way for view in report.views for table, way in view.ways.items()} == dict.fromkeys(
        VIEWS, "shared action"
    )


def test_reports_say_where_an_epoch_was_computed_and_why(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(touched_groups, "MOST_ROWS_OF_A_GROUP", 0)
    session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, price BIGINT, word STRING)")
    session.sql("INSERT INTO bid VALUES (1, 1, 'one')")
    session.sql("CREATE MATERIALIZED VIEW sounds AS SELECT id, upper(soundex(word)) AS sound FROM bid")
    session.sql("INSERT INTO bid VALUES (2, 2, 'two')")
    assert session.flush()["sounds"].ways == {
        "sounds": "own action with Spark: it computes soundex(`bid:word`)"
    }
    session.sql(
        "CREATE MATERIALIZED VIEW dearest AS SELECT id, price FROM bid ORDER BY price LIMIT 1 OFFSET 1"
    )
    session.sql("CREATE MATERIALIZED VIEW prices AS SELECT price, count(*) AS n FROM bid GROUP BY price")
    session.flush().raise_for_errors()
    session.sql("INSERT INTO bid VALUES (3, 2, 'two')")
    report = session.flush()
    assert report["prices"].ways["prices"] == "shared action"
    assert report["dearest"].ways["_state_dearest_1"] == (
        "own action with Spark: the whole query is compared with the table"
    )
    session.sql("INSERT INTO bid VALUES (4, 2, 'two')")
    assert session.flush(["prices"])["prices"].ways == {
        "prices": "own action on Arrow: nothing else that Arrow computes alone was due in the run"
    }


def test_the_first_epoch_of_a_project_is_computed_by_one_action_whatever_has_changed(
    session: Session,
) -> None:
    create(session)
    assert list_shared(step(session, 1)) == set(VIEWS)
    session.sql("UPDATE auction SET seller = 5 WHERE id < 3")
    report = session.flush()
    check(session)
    assert list_shared(report) == {"named", "sellers"}
    assert not any("spark" in view.stages for view in report.views)


def test_of_a_frame_for_all_inputs_spark_may_have_a_part_where_it_has_none_for_some(session: Session) -> None:
    session.sql("CREATE TABLE word (id BIGINT PRIMARY KEY, text STRING)")
    session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, price BIGINT)")
    session.sql("INSERT INTO bid VALUES (1, 1)")
    session.sql("INSERT INTO word VALUES (1, 'one')")
    session.sql(
        "CREATE MATERIALIZED VIEW all_ids AS SELECT id FROM bid UNION ALL SELECT id FROM word WHERE soundex(text) > 'A'"
    )
    session.sql("CREATE MATERIALIZED VIEW prices AS SELECT price, count(*) AS n FROM bid GROUP BY price")
    session.flush().raise_for_errors()
    found = []
    for number in (2, 3):
        session.sql(f"INSERT INTO bid VALUES ({number}, 2)")
        found.append(session.flush()["all_ids"].ways["all_ids"])
    assert found == [
        "own action on Arrow: it is the first epoch in which these inputs have changed",
        "shared action",
    ]


def test_what_an_action_had_no_time_for_is_for_the_next_one(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(session)
    run_wave, ran = SharedActions._run_action, []

    def run_first(self, spark, call, planned, bodies):  # type: ignore[no-untyped-def]
        first, rest = (
            tuple(task[:1] for task in call.tasks),
            [one.table for task in call.tasks for one in task[1:]],
        )
        done = run_wave(self, spark, replace(call, tasks=first), planned, bodies)
        self._reasons |= dict.fromkeys(rest, "an input is computed in another way")
        self._reasons |= dict.fromkeys(rest[:1], NO_TIME)
        ran.append({one.table for task in first for one in task})
        return done

    monkeypatch.setattr(SharedActions, "_run_action", run_first)
    assert list_shared(step(session, 2)) == set(VIEWS)
    assert ran == [{"sums"}, {"named"}, {"sellers"}]
    monkeypatch.setattr(shared_action, "MOST_AHEAD_SECONDS", 0.0)
    assert list_shared(step(session, 3)) == set()


def test_what_was_in_an_action_that_failed_as_a_whole_is_computed_by_itself_until_that_works(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(session)

    def kill_worker(self, *arguments):  # type: ignore[no-untyped-def]
        raise RuntimeError("the worker is gone")

    monkeypatch.setattr(SharedActions, "_run_tasks", kill_worker)
    assert list_shared(step(session, 2)) == set()
    monkeypatch.undo()
    executor = session.epochs.runner.executor
    assert isinstance(executor, SparkExecutor)
    assert not executor._shared._broken  # each has been computed by itself
    executor._shared._broken = {"named"}
    report = step(session, 3)
    assert list_shared(report) == {"sums"}
    assert "failed as a whole" in report["named"].ways["named"]
    assert list_shared(step(session, 4)) == set(VIEWS)


@pytest.mark.long
def test_what_took_long_holds_up_no_other_until_it_is_fast_again(session: Session) -> None:
    start(session)
    for name in ("prices", "same_prices"):
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS SELECT price, count(*) AS n FROM bid GROUP BY price")
    step(session, 2)
    executor = session.epochs.runner.executor
    assert isinstance(executor, SparkExecutor)
    executor._shared._seconds["sums"] = 9.0
    report = step(session, 3)
    assert list_shared(report) == {"prices", "same_prices"}
    assert report["sums"].ways["sums"] == "own action on Arrow: it took 9.0 s last time"
    assert report["named"].ways["named"] == "own action on Arrow: an input is computed in another way"
    assert list_shared(step(session, 4)) == {*VIEWS, "prices", "same_prices"}


@pytest.mark.long
def test_rows_that_a_bound_passes_count_as_changed(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared_frames, "MOST_SHARED_ROWS", 20)
    session.sql("CREATE TABLE seen (id BIGINT PRIMARY KEY, moment TIMESTAMP)")
    session.sql("INSERT INTO seen SELECT id, timestamp_seconds(id * 3600) FROM range(100)")
    recent = "SELECT id FROM seen WHERE moment > (SELECT max(moment) FROM seen) - INTERVAL 60 HOURS"
    session.sql(f"CREATE MATERIALIZED VIEW recent AS {recent}")
    session.sql("CREATE MATERIALIZED VIEW moments AS SELECT moment, count(*) AS n FROM seen GROUP BY moment")
    session.flush().raise_for_errors()
    computed: list[set[str]] = []
    run = SharedActions.run

    def note(actions: SharedActions, spark, planned, tasks):  # type: ignore[no-untyped-def]
        found = run(actions, spark, planned, tasks)
        computed.append(set(actions._results))
        return found

    monkeypatch.setattr(SharedActions, "run", note)
    for hour in (101, 103, 105, 150):
        session.sql(f"INSERT INTO seen VALUES ({hour}, timestamp_seconds({hour} * 3600))")
        report = session.flush()
        report.raise_for_errors()
        assert_equal(
            content(session, "recent"), by_duckdb({"seen": content(session, "seen")}, recent), "recent"
        )
    assert computed[-2] - computed[-1] == {"recent"}
    assert "rows have changed for it, and 20 at most" in report["recent"].ways["recent"]


@pytest.mark.long
@pytest.mark.parametrize("is_local", [True, False])
def test_several_tasks_compute_what_does_not_read_each_other(
    session: Session, monkeypatch: pytest.MonkeyPatch, is_local: bool
) -> None:
    """Each begins where the ones before it have ended, a bound that moves with what one of them has written among them."""
    plans: list[list[int]] = []

    def plan_dear(fragments, seconds, tasks, **_):  # type: ignore[no-untyped-def]
        cost = dict.fromkeys((one.table for one in fragments), 1.0)
        actions = plan_actions(fragments, cost, 2, is_local=is_local)
        plans.append([len(action.tasks) for action in actions])
        return actions

    monkeypatch.setattr(shared_action, "plan_actions", plan_dear)
    session.sql("CREATE TABLE seen (id BIGINT PRIMARY KEY, moment TIMESTAMP)")
    session.sql("INSERT INTO seen SELECT id, timestamp_seconds(id * 3600) FROM range(100)")
    recent = "SELECT id FROM seen WHERE moment > (SELECT max(moment) FROM seen) - INTERVAL 1 DAY"
    session.sql(f"CREATE MATERIALIZED VIEW recent AS {recent}")
    session.sql(
        "CREATE MATERIALIZED VIEW late AS SELECT id % 3 AS k, count(*) AS n FROM recent GROUP BY id % 3"
    )
    start(session)
    both = "SELECT a.seller, a.n, b.n AS late FROM sellers a JOIN late b ON b.k = a.seller"
    session.sql(f"CREATE MATERIALIZED VIEW both_sides AS {both}")
    session.flush().raise_for_errors()
    for seed in range(2, 6):
        session.sql(
            f"INSERT INTO seen SELECT id, timestamp_seconds(id * 3600) FROM range({seed * 80}, {seed * 80 + 9})"
        )
        report = step(session, seed)
        tables = {"seen": content(session, "seen")}
        assert_equal(content(session, "recent"), by_duckdb(tables, recent), "recent")
    tables = {name: content(session, name) for name in ("sellers", "late")}
    assert_equal(content(session, "both_sides"), by_duckdb(tables, both), "both_sides")
    assert list_shared(report) == {*VIEWS, "recent", "late", "both_sides"}
    assert plans[-1] == [2] if is_local else 2 in plans[-1] and len(plans[-1]) > 1


def test_views_that_the_change_does_not_reach_are_left_out(session: Session) -> None:
    start(session)
    step(session, 2)
    session.sql("UPDATE bid SET auction = 99 WHERE auction = 3")  # of no auction there is
    session.flush().raise_for_errors()
    session.sql("UPDATE bid SET price = price + 1 WHERE auction = 99")
    report = session.flush()
    check(session)
    assert report["sums"].updated == 1
    assert not report["named"].rows_out


def test_a_view_that_fails_stops_no_other(session: Session) -> None:
    start(session)
    session.sql(
        "CREATE MATERIALIZED VIEW double AS SELECT id, price + 9223372036854775000 AS p FROM bid WHERE id < 5"
    )
    session.flush().raise_for_errors()
    step(session, 2)
    session.sql("UPDATE bid SET price = 900 WHERE id = 1")
    report = session.flush()
    assert [view.view for view in report.failed] == ["double"]
    assert "ARITHMETIC_OVERFLOW" in str(report["double"].error) or "overflow" in str(report["double"].error)
    assert list_shared(report) >= {"sums", "named"}
    check(session)
    session.sql("UPDATE bid SET price = 1 WHERE id = 1")
    session.flush().raise_for_errors()
    check(session)


def list_objects(session: Session) -> set[str]:
    return {info.path for info in session.store.objects.list("sst/")}


def test_what_a_task_writes_is_one_object_whatever_becomes_of_its_parts(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_action, "MOST_TASKS", 1)
    start(session)
    before = list_objects(session)
    monkeypatch.setenv("TIDELINE_VERIFY", "0")  # which writes what it computes again
    session.write("bid", bids(2), mode="upsert")
    written, puts = list_objects(session), session.store.counters.read_requests()["put"]
    report = session.flush()
    check(session)
    assert list_shared(report) == set(VIEWS)
    assert len(written - before) == 1
    (bundle,) = list_objects(session) - written
    of_views = {name: session.store.version.tables[name] for name in VIEWS}
    assert all(bundle in {sst.path for sst in table.live_ssts} for table in of_views.values())
    assert session.store.counters.read_requests()["put"] - puts == 1, "of all tasks"
    monkeypatch.delenv("TIDELINE_VERIFY")
    fits = SharedResult.fits
    monkeypatch.setattr(
        SharedResult, "fits", lambda self, task: self.table.name != "named" and fits(self, task)
    )
    assert list_shared(step(session, 3)) == {"sums"}  # it lies beside files that nobody has taken
    monkeypatch.setattr(SharedResult, "fits", lambda self, task: False)
    assert list_shared(step(session, 4)) == set()
    session.epochs.runner.executor.discard_ahead()
    referred = {sst.path for table in session.store.version.tables.values() for sst in table.live_ssts}
    assert referred <= list_objects(session)
    assert {path for path in list_objects(session) if path.endswith(".bundle")} <= referred


@pytest.mark.parametrize("is_taken", [True, False])
def test_a_run_that_ends_while_a_task_looks_at_its_result_deletes_no_object_of_others(
    session: Session, monkeypatch: pytest.MonkeyPatch, is_taken: bool
) -> None:
    start(session)
    executor, fits, late = session.epochs.runner.executor, SharedResult.fits, []
    assert isinstance(executor, SparkExecutor)

    def end_run(result: SharedResult, task) -> bool:  # type: ignore[no-untyped-def]
        found = fits(result, task)
        if result.table.name != ("sums" if is_taken else "sellers"):
            return found
        late.append(result.table.name)
        executor.discard_ahead()
        return found and is_taken

    monkeypatch.setattr(SharedResult, "fits", end_run)
    report = step(session, 2)
    assert late and list_shared(report) == ({"sums"} if is_taken else {"sums", "named"})
    executor.discard_ahead()
    tables = session.store.version.tables.values()
    assert {sst.path for table in tables for sst in table.live_ssts} <= list_objects(session)
    assert not executor._shared._objects


def test_without_a_folder_for_temporary_files_tasks_have_their_fragments_from_the_start(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(session)
    monkeypatch.setattr("engine.runtime.epoch.shared_schedule.ACTION_SECONDS", 0.0)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    assert list_shared(step(session, 2)) == set(VIEWS)

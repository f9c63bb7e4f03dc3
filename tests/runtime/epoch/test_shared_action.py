"""Small epochs of a run are computed by one action before their turn; each domain still checks, commits and fails by itself."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from msgspec.structs import replace as replace_plan

from engine.assumptions import COMPUTED_AHEAD
from engine.errors import StorageError
from engine.hummock.version import Generation, LogEntry, SstInfo, Table, TableOptions, TableVersion
from engine.operators.grouping import touched_groups
from engine.operators.shared_task import NO_TIME, identify_reads
from engine.runtime.epoch import prepared_frames, shared_action
from engine.runtime.epoch.report import FlushReport
from engine.runtime.epoch.shared_action import SharedActions, SharedResult
from engine.runtime.epoch.shared_schedule import plan_waves
from engine.runtime.epoch.spark_executor import SparkExecutor
from engine.runtime.executor import FragmentTask
from engine.session import Session
from engine.sql.expression.nodes import TRUE
from engine.sql.incremental.fragments import Fragment
from engine.sql.incremental.rules import Linear
from engine.sql.plan import Filter, Scan
from tests.oracle.batch import assert_equal, by_duckdb, content

SUMS = "SELECT auction, count(*) AS n, sum(price) AS total FROM bid GROUP BY auction"
NAMED = "SELECT a.id, a.seller, s.n, s.total FROM auction a JOIN sums s ON s.auction = a.id"
SELLERS = "SELECT seller, count(*) AS n, sum(total) AS total FROM named GROUP BY seller"
VIEWS = {"sums": SUMS, "named": NAMED, "sellers": SELLERS}
WHOLE = {
    "sums": SUMS,
    "named": f"SELECT a.id, a.seller, s.n, s.total FROM auction a JOIN ({SUMS}) s ON s.auction = a.id",
}
WHOLE["sellers"] = (
    f"SELECT seller, count(*) AS n, sum(total) AS total FROM ({WHOLE['named']}) GROUP BY seller"
)


def bids(seed: int, price: int | None = None) -> pa.Table:
    numbers = range(12)
    return pa.table(
        {
            "id": [(seed * 5 + i) % 40 for i in numbers],
            "auction": [(seed + i) % 7 for i in numbers],
            "price": [seed * 10 + i if price is None else price for i in numbers],
        }
    )


def create(session: Session) -> None:
    """Make a chain of three views, with their first content."""
    session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT)")
    session.sql("CREATE TABLE auction (id BIGINT PRIMARY KEY, seller BIGINT)")
    session.write("auction", pa.table({"id": range(7), "seller": [i % 3 for i in range(7)]}))
    session.write("bid", bids(0))
    for name, query in VIEWS.items():
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    session.flush().raise_for_errors()


def start(session: Session) -> None:
    """Make a chain of three views, and run it until its frames are known."""
    create(session)
    step(session, 1)


def step(session: Session, seed: int) -> FlushReport:
    session.write("bid", bids(seed), mode="upsert")
    report = session.flush()
    check(session)
    return report


def check(session: Session) -> None:
    tables = {name: content(session, name) for name in ("bid", "auction")}
    for name, query in WHOLE.items():
        assert_equal(content(session, name), by_duckdb(tables, query), name)


def list_shared(report: FlushReport) -> set[str]:
    return {view.view for view in report.views if "shared" in view.stages}


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
    run_wave, ran = SharedActions._run_wave, []

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

    monkeypatch.setattr(SharedActions, "_run_wave", run_first)
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
def test_several_tasks_compute_what_does_not_read_each_other(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each begins where the ones before it have ended, a bound that moves with what one of them has written among them."""
    plans: list[list[int]] = []

    def plan_dear(fragments, seconds, tasks):  # type: ignore[no-untyped-def]
        waves = plan_waves(fragments, dict.fromkeys((one.table for one in fragments), 1.0), 2)
        plans.append([len(wave) for wave in waves])
        return waves

    monkeypatch.setattr(shared_action, "plan_waves", plan_dear)
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
    assert 2 in plans[-1] and len(plans[-1]) > 1


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


def test_a_compaction_meanwhile_leaves_results_as_they_are(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(session)
    run = SharedActions.run

    def compact(actions: SharedActions, spark, planned, tasks):  # type: ignore[no-untyped-def]
        computed = run(actions, spark, planned, tasks)
        for name in (*VIEWS, "bid"):
            session.store.compact(session.store.table(name))
        return computed

    monkeypatch.setattr(SharedActions, "run", compact)
    for number in (2, 3):
        assert list_shared(step(session, number)) >= set(VIEWS)
        check(session)


def test_a_result_of_other_rows_is_computed_anew(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    start(session)
    run = SharedActions.run
    seen: list[tuple[str, str]] = []

    def read_others(actions: SharedActions, spark, planned, tasks):  # type: ignore[no-untyped-def]
        computed = run(actions, spark, planned, tasks)
        made = [
            (name, sst.path) for name, one in actions._results.items() for c in one.changes for sst in c.ssts
        ]
        seen.extend(made)
        actions._results["sums"] = replace(actions._results["sums"], identity=b"of other rows")
        return computed

    monkeypatch.setattr(SharedActions, "run", read_others)
    report = step(session, 2)
    assert "sums" not in list_shared(report)
    assert "its tables were others at its turn" in report["sums"].ways["sums"]
    assert {name for name, _ in seen} >= set(VIEWS)
    kept = {path for table in session.store.version.tables.values() for path in table.list_objects()}
    left = [
        (name, path)
        for name, path in seen
        if path not in kept and session.store.objects.head(path) is not None
    ]
    assert not left


@pytest.mark.long
def test_a_view_that_takes_the_name_of_another_is_not_computed_as_that_was(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the task knows of the old view, whose inputs changed together, is not for the new one."""
    start(session)
    for seed in (2, 3):
        session.sql(f"UPDATE auction SET seller = {seed} WHERE id = {seed}")
        step(session, seed)
    session.sql("DROP MATERIALIZED VIEW sellers")
    session.sql("DROP MATERIALIZED VIEW named")
    session.sql("CREATE MATERIALIZED VIEW named AS " + NAMED.replace("s.total", "s.total + 1 AS total"))
    session.sql(f"CREATE MATERIALIZED VIEW sellers AS {SELLERS}")
    session.flush().raise_for_errors()
    monkeypatch.setenv("TIDELINE_VERIFY", "0")
    session.write("bid", bids(4), mode="upsert")  # of the new view the task knows this much alone
    session.flush().raise_for_errors()
    for seed in (5, 6):
        session.sql(f"UPDATE auction SET seller = {seed} WHERE id = {seed}")
        session.write("bid", bids(seed), mode="upsert")
        session.flush().raise_for_errors()
        tables = {name: content(session, name) for name in ("bid", "auction")}
        query = WHOLE["named"].replace("s.total", "s.total + 1 AS total")
        assert_equal(content(session, "named"), by_duckdb(tables, query), "named")


def test_a_result_misses_no_change_of_an_input_that_it_did_not_read(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run may move the target on, so that an epoch takes in a change of which no frame is known yet."""
    monkeypatch.setenv("TIDELINE_VERIFY", "0")
    for name in ("one", "two"):
        session.sql(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, v BIGINT)")
        session.sql(f"INSERT INTO {name} VALUES (1, 1)")
        session.sql(f"CREATE MATERIALIZED VIEW of_{name} AS SELECT v, count(*) AS n FROM {name} GROUP BY v")
    both = "SELECT id, v FROM one UNION ALL SELECT id, v FROM two"
    session.sql(f"CREATE MATERIALIZED VIEW both_tables AS {both}")
    session.flush().raise_for_errors()
    for number in (2, 3):
        session.sql(f"INSERT INTO one VALUES ({number}, 1)")
        report = session.flush()
    assert list_shared(report) == {"of_one", "both_tables"}
    run = SharedActions.run

    def pass_by(actions: SharedActions, spark, planned, tasks):  # type: ignore[no-untyped-def]
        monkeypatch.setattr(SharedActions, "run", run)
        computed = run(actions, spark, planned, tasks)
        with Session(session.url, session.computing) as other:
            other.sql("INSERT INTO two VALUES (7, 7)")
            other.flush(["of_two"]).raise_for_errors()
        session.store.refresh()
        return computed

    monkeypatch.setattr(SharedActions, "run", pass_by)
    session.sql("INSERT INTO one VALUES (4, 1)")
    session.flush().raise_for_errors()
    session.flush().raise_for_errors()
    tables = {name: content(session, name) for name in ("one", "two")}
    assert_equal(content(session, "both_tables"), by_duckdb(tables, both), "both_tables")


def test_files_that_cannot_be_deleted_are_no_failure_of_a_view(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(session)
    run = SharedActions.run

    def read_others(actions: SharedActions, spark, planned, tasks):  # type: ignore[no-untyped-def]
        computed = run(actions, spark, planned, tasks)
        actions._results["sums"] = replace(actions._results["sums"], identity=b"of other rows")
        return computed

    def refuse(objects: object, paths: object) -> None:
        raise StorageError("no permission to delete")

    monkeypatch.setattr(SharedActions, "run", read_others)
    monkeypatch.setenv("TIDELINE_VERIFY", "0")  # a check deletes what it has computed, too
    with monkeypatch.context() as patch:
        patch.setattr(type(session.store.objects), "delete", refuse)
        report = step(session, 2)
    report.raise_for_errors()
    assert "sums" not in list_shared(report)


def test_an_interrupted_run_leaves_no_files_and_the_callers_thread_as_it_was(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(session)
    tags = session.computing.sparkContext.getJobTags()
    step(session, 2)
    assert session.computing.sparkContext.getJobTags() == tags
    run, known = SharedActions.run, list_left(session)

    def interrupt(actions: SharedActions, spark, planned, tasks):  # type: ignore[no-untyped-def]
        assert run(actions, spark, planned, tasks)
        raise KeyboardInterrupt

    monkeypatch.setattr(SharedActions, "run", interrupt)
    with pytest.raises(KeyboardInterrupt):
        step(session, 3)
    assert list_left(session) == known


def list_left(session: Session) -> set[str]:
    """Return the files that no version needs."""
    version = session.store.refresh()
    kept = {path for table in version.tables.values() for path in table.list_objects()}
    kept |= {path for _, path in version.garbage}
    return {found.path for found in session.store.objects.list("sst/")} - kept


def test_a_result_of_an_earlier_epoch_breaks_a_claim(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(session)
    run, kept = SharedActions.run, dict[str, SharedResult]()

    def mistake(actions: SharedActions, spark, planned, tasks):  # type: ignore[no-untyped-def]
        computed = run(actions, spark, planned, tasks)
        kept.update({name: one for name, one in actions._results.items() if name not in kept})
        actions._results.update(kept)
        return computed

    monkeypatch.setattr(SharedActions, "run", mistake)
    step(session, 2)
    monkeypatch.setattr(SharedResult, "fits", lambda result, task: True)
    session.write("bid", bids(3), mode="upsert")
    report = session.flush()
    assert COMPUTED_AHEAD.name in str(report["sums"].error)


def version(options: TableOptions = TableOptions()) -> TableVersion:
    table = Table("t", pa.schema([("id", pa.int64())]), ("id",), (), options)
    ssts = [SstInfo(f"sst/{n}", 0, 1, 1, 0, 0, 0, 0, 1) for n in range(3)]
    log = (LogEntry(10, (ssts[1],)), LogEntry(20, (ssts[2],)))
    return TableVersion(table, 1, 20, log, (Generation(5, ((ssts[0],),)),))


def test_what_is_read_is_known_by_the_files_of_its_log() -> None:
    one = version()
    assert identify_reads({"t": one}, 10, 20) == identify_reads({"t": one}, 10, 25)
    assert identify_reads({"t": one}, 10, 20) != identify_reads({"t": one}, 5, 20)
    merged = Generation(20, ((SstInfo("sst/merged", 0, 3, 3, 0, 0, 0, 0, 1),),))
    compacted = replace(one, generations=(*one.generations, merged))
    assert identify_reads({"t": one}, 10, 20) == identify_reads({"t": compacted}, 10, 20)
    later = replace(one, log=(*one.log, LogEntry(30, one.log[0].ssts)), committed_epoch=30)
    assert identify_reads({"t": later}, 12, 13) != identify_reads({"t": later}, 22, 23)
    other = replace(one, log=(LogEntry(10, one.generations[0].runs[0]), one.log[1]))
    assert identify_reads({"t": one}, 10, 20) != identify_reads({"t": other}, 10, 20)
    cut, later_cut = (replace(one, log=(), generations=(Generation(at, ()),)) for at in (20, 30))
    assert identify_reads({"t": cut}, 20, 25) != identify_reads({"t": later_cut}, 30, 35)
    assert identify_reads({"t": one}, 10, 20) != identify_reads({"t": replace(one, table_id=2)}, 10, 20)


def test_rows_that_hide_by_time_depend_on_the_epochs() -> None:
    hiding = version(TableOptions(ttl_seconds=1.0))
    assert identify_reads({"t": hiding}, 10, 20) != identify_reads({"t": hiding}, 10, 25)
    longer = version(TableOptions(ttl_seconds=2.0))
    assert identify_reads({"t": hiding}, 10, 20) != identify_reads({"t": longer}, 10, 20)
    compacted = replace(hiding, generations=(*hiding.generations, Generation(20, ())))
    assert identify_reads({"t": hiding}, 10, 20) != identify_reads({"t": compacted}, 10, 20)


def test_a_result_is_of_its_fragment_and_its_table_alone() -> None:
    """A partition may have gone into quarantine since, or the table may have got other options."""
    one, scan = version(), Scan("t", (("id", "id"),), ("id",), ("id",))
    fragment = Fragment("v", Linear(), scan, ("id",), ("id",), "")
    made = Table("v", one.schema, ("id",))
    task = FragmentTask(fragment, made, {"t": one}, 10, 20, 1)
    result = SharedResult(fragment, made, ("t",), identify_reads({"t": one}, 10, 20), (), 0.0)
    assert result.fits(task)
    assert not result.fits(replace(task, fragment=replace_plan(fragment, plan=Filter(scan, TRUE))))
    assert not result.fits(replace(task, table=replace(made, options=TableOptions(vnode_groups=2))))
    assert not result.fits(replace(task, tables={"t": replace(one, table_id=2)}))

"""A result of a shared action is taken only for the rows that it was computed from; others are computed anew, and leave no file."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from msgspec.structs import replace as replace_plan

from engine.assumptions import COMPUTED_AHEAD
from engine.errors import StorageError
from engine.hummock.version import Generation, LogEntry, SstInfo, Table, TableOptions, TableVersion
from engine.operators.shared_task import identify_reads
from engine.runtime.epoch.shared_action import SharedActions, SharedResult
from engine.runtime.executor import FragmentTask
from engine.session import Session
from engine.sql.expression.nodes import TRUE
from engine.sql.incremental.fragments import Fragment
from engine.sql.incremental.rules import Linear
from engine.sql.plan import Filter, Scan
from tests.oracle.batch import assert_equal, by_duckdb, content
from tests.runtime.epoch.chain_of_views import (
    NAMED,
    SELLERS,
    VIEWS,
    WHOLE,
    bids,
    check,
    list_shared,
    start,
    step,
)
from tests.runtime.epoch.conftest import AfterAction


def test_a_compaction_meanwhile_leaves_results_as_they_are(
    session: Session, after_action: AfterAction
) -> None:
    start(session)

    def compact(actions: SharedActions) -> None:
        for name in (*VIEWS, "bid"):
            session.store.compact(session.store.table(name))

    after_action(compact)
    for number in (2, 3):
        assert list_shared(step(session, number)) >= set(VIEWS)
        check(session)


def test_a_result_of_other_rows_is_computed_anew(session: Session, after_action: AfterAction) -> None:
    start(session)
    seen: list[tuple[str, str]] = []

    def read_others(actions: SharedActions) -> None:
        made = [
            (name, sst.path) for name, one in actions._results.items() for c in one.changes for sst in c.ssts
        ]
        seen.extend(made)
        actions._results["sums"] = replace(actions._results["sums"], identity=b"of other rows")

    after_action(read_others)
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
    session: Session, monkeypatch: pytest.MonkeyPatch, after_action: AfterAction
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
    passed: list[int] = []

    def pass_by(actions: SharedActions) -> None:
        if not passed:
            passed.append(1)
            with Session(session.url, session.computing) as other:
                other.sql("INSERT INTO two VALUES (7, 7)")
                other.flush(["of_two"]).raise_for_errors()
            session.store.refresh()

    after_action(pass_by)
    session.sql("INSERT INTO one VALUES (4, 1)")
    session.flush().raise_for_errors()
    session.flush().raise_for_errors()
    tables = {name: content(session, name) for name in ("one", "two")}
    assert_equal(content(session, "both_tables"), by_duckdb(tables, both), "both_tables")


def test_files_that_cannot_be_deleted_are_no_failure_of_a_view(
    session: Session, monkeypatch: pytest.MonkeyPatch, after_action: AfterAction
) -> None:
    start(session)

    def read_others(actions: SharedActions) -> None:
        actions._results["sums"] = replace(actions._results["sums"], identity=b"of other rows")

    def refuse(objects: object, paths: object) -> None:
        raise StorageError("no permission to delete")

    after_action(read_others)
    monkeypatch.setenv("TIDELINE_VERIFY", "0")  # a check deletes what it has computed, too
    with monkeypatch.context() as patch:
        patch.setattr(type(session.store.objects), "delete", refuse)
        report = step(session, 2)
    report.raise_for_errors()
    assert "sums" not in list_shared(report)


def test_an_interrupted_run_leaves_no_files_and_the_callers_thread_as_it_was(
    session: Session, after_action: AfterAction
) -> None:
    start(session)
    tags = session.computing.sparkContext.getJobTags()
    step(session, 2)
    assert session.computing.sparkContext.getJobTags() == tags
    known = list_left(session)

    def interrupt(actions: SharedActions) -> None:
        assert actions._results
        raise KeyboardInterrupt

    after_action(interrupt)
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
    session: Session, monkeypatch: pytest.MonkeyPatch, after_action: AfterAction
) -> None:
    start(session)
    kept: dict[str, SharedResult] = {}

    def mistake(actions: SharedActions) -> None:
        kept.update({name: one for name, one in actions._results.items() if name not in kept})
        actions._results.update(kept)

    after_action(mistake)
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

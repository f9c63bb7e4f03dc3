"""Committed epochs computed again: right ones give the same bytes, whatever the query; a wrong one is the one that differs."""

from __future__ import annotations

import dataclasses
import random

import pyarrow as pa
import pytest

from engine.errors import EpochFailed, SqlError
from engine.hummock import Commit, Hummock, Put, Version
from engine.runtime.epoch.spark_executor import SparkExecutor
from engine.runtime.executor import FragmentTask, TaskResult
from engine.runtime.oracle.epoch_replay import EpochReplay
from engine.session import Session
from tests.long_rest import mark_rest_long
from tests.runtime.oracle.conftest import VIEWS, create_views


def change(session: Session, rng: random.Random) -> None:
    """Write rows that come, go and change, and bring the views on."""
    some = [rng.randrange(330) for _ in range(12)]
    rows = {
        "k": some,
        "g": [rng.choice([None, *range(40)]) for _ in some],
        "i": pa.array([rng.randrange(9) for _ in some], pa.int32()),
        "x": [rng.random() * 10.0 ** rng.randrange(-9, 9) for _ in some],
        "s": [rng.choice([None, "a", "b", "s1"]) for _ in some],
    }
    session.write("t", pa.table(rows))
    session.sql(f"DELETE FROM t WHERE k IN ({rng.randrange(300)}, {rng.randrange(300)})")
    session.write("u", pa.table({"id": [rng.randrange(20, 70)], "name": [rng.choice(["n1", "x", "y"])]}))
    session.write("bag", pa.table({"v": [rng.randrange(6)]}))
    session.flush().raise_for_errors()


def list_objects(store: Hummock) -> set[str]:
    return {info.path for info in store.objects.list("sst/")}


def assert_same_bytes(found: list[EpochReplay]) -> None:
    assert {(one.outcome, one.reason) for one in found} == {("same bytes", "")}, found


SOME = ("by_group", "joined", "ranked", "over_view")


@pytest.mark.parametrize("views", mark_rest_long([(SOME,), (tuple(VIEWS),)]), ids=["some", "all"])
def test_epochs_of_every_operator_give_the_same_bytes(project: Session, views: tuple[str, ...]) -> None:
    create_views(project, *views)
    rng = random.Random(7)
    for _ in range(2):
        change(project, rng)
    before, number = list_objects(project.store), project.store.version.number
    for view in views:
        first, second, *_ = found = project.replay_epochs(view, last=3)
        assert_same_bytes(found)
        assert first.epoch > second.epoch
        assert {table.table for table in first.tables} >= {view}
    assert sum(one.rows for one in project.replay_epochs("joined", last=2)) > 10
    assert list_objects(project.store) == before and project.store.refresh().number == number


@pytest.mark.long
@pytest.mark.parametrize("options", ["domain = 'd'", "partition_by = 'g'", "refresh_policy = 'full'"])
def test_epochs_of_views_with_options_give_the_same_bytes(project: Session, options: str) -> None:
    project.sql(f"CREATE MATERIALIZED VIEW x WITH ({options}) AS {VIEWS['by_group']}")
    project.sql(f"CREATE MATERIALIZED VIEW y WITH (domain = 'd') AS {VIEWS['linear']}")
    project.flush().raise_for_errors()
    rng = random.Random(3)
    for _ in range(2):
        change(project, rng)
    assert_same_bytes(project.replay_epochs("x", last=3))
    tables = {table.table for table in project.replay_epochs("x")[0].tables}
    assert ("y" in tables) == (options == "domain = 'd'")


def spoil_next_commit(session: Session, view: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the next epoch of a view commit other rows than its run has computed."""
    store = session.epochs.store
    hand_over, done = type(store).hand_over, list[str]()

    def commit_wrong(self: Hummock, commit: Commit) -> Version:
        if view in commit.writes and not done:
            done.append(view)
            table = self.version.tables[view].table
            wrong = pa.Table.from_pylist([{"g": 7, "n": 1, "total": 4711, "best": 0.5}], table.schema)
            files = tuple(self.reader.write_run(table, wrong.append_column("_op", pa.array([0], pa.uint8()))))
            commit = dataclasses.replace(commit, writes={**commit.writes, view: files})
        return hand_over(self, commit)

    monkeypatch.setattr(type(store), "hand_over", commit_wrong)
    monkeypatch.setenv("TIDELINE_VERIFY", "0")


def test_the_epoch_in_which_a_row_became_wrong_is_found(
    project: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_views(project, "by_group")
    rng = random.Random(5)
    change(project, rng)
    with monkeypatch.context() as patch:
        spoil_next_commit(project, "by_group", patch)
        change(project, rng)
    change(project, rng)
    newest, wrong, older = project.replay_epochs("by_group", last=3)
    assert (newest.outcome, wrong.outcome, older.outcome) == ("same bytes", "other rows", "same bytes")
    (table,) = (one for one in wrong.tables if one.outcome != "same bytes")
    assert table.table == "by_group" and any("g = 7" in text and "4711" in text for text in table.examples)
    (again,) = project.replay_epochs("by_group", wrong.epoch)
    assert again.tables == wrong.tables


def test_what_no_run_has_computed_says_so(project: Session) -> None:
    create_views(project, "by_group")
    epoch = project.store.version.tables["by_group"].committed_epoch
    table = project.store.version.tables["by_group"].table
    row = pa.Table.from_pylist([{"g": 1000, "n": 1, "total": 1, "best": 0.5}], table.schema)
    written = project.store.ingest_batch({"by_group": Put(row)})
    newest, before, *_ = project.replay_epochs("by_group", last=2)
    assert (
        newest.epoch == written and newest.outcome is None and "a statement has written it" in newest.reason
    )
    assert before.epoch == epoch and before.outcome == "same bytes"
    with pytest.raises(
        SqlError, match=r"(?s)no commit has brought by_group to epoch .*the oldest that is known"
    ):
        project.replay_epochs("by_group", 17)
    with pytest.raises(SqlError, match="t is a table, not a materialized view: nothing computes it"):
        project.replay_epochs("t")


@pytest.mark.long
def test_history_that_is_gone_says_so(project: Session) -> None:
    create_views(project, "by_group")
    rng = random.Random(9)
    for _ in range(3):
        change(project, rng)
    for name in ("t", "by_group"):
        project.store.compact(name)
    assert_same_bytes(project.replay_epochs("by_group", last=3))  # compacted, and kept as history
    change(project, rng)
    with Hummock.open(project.url, retention_seconds=0.0, auto_compact="off") as other:
        for name in ("t", "by_group"):
            other.compact(name)
        other.gc(grace_seconds=0.0)
    project.store.refresh()
    found = project.replay_epochs("by_group", last=4)
    assert [one for one in found if one.outcome == "other rows"] == []
    assert any("files that it was computed from were deleted" in one.reason for one in found)


@pytest.mark.long
def test_partitions_in_quarantine_take_no_part(project: Session) -> None:
    project.sql(
        "CREATE MATERIALIZED VIEW x WITH (partition_by = 'g') AS "
        "SELECT g, sum(CAST(floor(100 / (i + 1)) AS BIGINT)) AS total FROM t GROUP BY g"
    )
    project.flush().raise_for_errors()
    project.sql("UPDATE t SET i = -1 WHERE k = 3")
    project.flush()
    assert [one.partition for one in project.partitions("x") if one.error] == ["3"]
    project.sql("UPDATE t SET i = 5 WHERE k IN (4, 43)")
    project.flush()
    assert_same_bytes(project.replay_epochs("x", last=2))
    project.sql("UPDATE t SET i = 1 WHERE k = 3")
    project.flush().raise_for_errors()
    again, *before = project.replay_epochs("x", last=4)
    assert "partitions were computed again" in again.reason
    assert {one.outcome for one in before} <= {"same bytes", None}


@pytest.mark.long
def test_a_view_that_was_renamed_and_one_with_the_clock(project: Session) -> None:
    create_views(project, "by_group")
    project.sql("CREATE TABLE e (id BIGINT PRIMARY KEY, at TIMESTAMP)")
    project.sql("INSERT INTO e SELECT k, now() - i * INTERVAL '3' MINUTE FROM t")
    project.sql(
        "CREATE MATERIALIZED VIEW late AS SELECT count(*) AS n FROM e WHERE at > now() - INTERVAL '10' MINUTE"
    )
    change(project, random.Random(1))
    project.sql("ALTER MATERIALIZED VIEW by_group RENAME TO groups")
    change(project, random.Random(2))
    found = project.replay_epochs("groups", last=9)
    assert len(found) >= 3
    assert_same_bytes([one for one in found if not one.reason])
    assert_same_bytes(project.replay_epochs("late", last=2))


@pytest.mark.parametrize(
    "error", mark_rest_long([EpochFailed, KeyboardInterrupt]), ids=["EpochFailed", "KeyboardInterrupt"]
)
def test_an_epoch_that_fails_or_is_interrupted_leaves_no_file(
    project: Session, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    project.sql(f"CREATE MATERIALIZED VIEW by_group WITH (domain = 'd') AS {VIEWS['by_group']}")
    project.sql(f"CREATE MATERIALIZED VIEW over_view WITH (domain = 'd') AS {VIEWS['over_view']}")
    change(project, random.Random(1))
    before, compute = list_objects(project.store), SparkExecutor.compute

    def break_off(self: SparkExecutor, task: FragmentTask) -> TaskResult:
        if task.table.name == "over_view":
            raise error("broken off")
        return compute(self, task)

    monkeypatch.setattr(SparkExecutor, "compute", break_off)
    if error is EpochFailed:
        (found,) = project.replay_epochs("over_view")
        assert found.outcome == "other rows"
        assert "computing it fails now: broken off" in found.tables[0].examples[0]
    else:
        with pytest.raises(error):
            project.replay_epochs("over_view")
    assert list_objects(project.store) == before

"""Cursors of SQL: FETCH gives rows in the order of their epochs, and what was fetched is acknowledged by the next FETCH or CLOSE."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.errors import SqlError, StorageError, SubscriptionError
from engine.hummock.epoch import seconds_of
from engine.log_store.changes import Changes
from engine.log_store.sink import read_changes
from engine.runtime.subscriptions import feed
from engine.session import Session
from engine.testing.manual_clock import ManualClock
from tests.runtime.subscriptions.judge import told


class BreakingRead:
    """Reads changes in parts of one change, and fails once, before part `at` of all that it reads."""

    def __init__(self, at: int) -> None:
        self.left = at

    def read(self, *arguments: Any) -> Iterator[Changes]:
        """Yield the changes of a range."""
        for changes in read_changes(*arguments):
            for at in range(len(changes)):
                self.left -= 1
                if self.left == 0:
                    raise StorageError("the bucket says 503: slow down")
                yield changes.filter(np.arange(len(changes)) == at)


def fetch(db: Session, count: int | str = "NEXT", cursor: str = "c") -> list[tuple[object, ...]]:
    """Fetch rows without their epochs."""
    found = db.sql(f"FETCH {count} FROM {cursor}")
    assert found is not None
    return [tuple(row.values()) for row in found.drop_columns(["epoch", "epoch_time"]).to_pylist()]


@pytest.fixture
def changed(db: Session, clock: ManualClock) -> Session:
    """A table with a subscription, and three epochs since, in another millisecond than what was before."""
    clock.sleep(1)
    db.sql("CREATE SUBSCRIPTION s FROM t WITH (retention = '1 day')")
    db.sql("UPDATE t SET v = 'x' WHERE id = 1")
    db.sql("INSERT INTO t VALUES (3, 'c'), (4, 'd'), (5, 'e')")
    db.sql("DELETE FROM t WHERE id = 2")
    return db


ALL = [
    (1, "a", "UpdateDelete"),
    (1, "x", "UpdateInsert"),
    (3, "c", "Insert"),
    (4, "d", "Insert"),
    (5, "e", "Insert"),
    (2, "b", "Delete"),
]


def test_fetch_gives_rows_with_their_operation_epoch_and_time(changed: Session) -> None:
    changed.sql("DECLARE c SUBSCRIPTION CURSOR FOR s")
    found = changed.sql("FETCH 2 FROM c")
    assert found is not None and found.column_names == ["id", "v", "op", "epoch", "epoch_time"]
    row = found.to_pylist()[1]
    assert (row["id"], row["v"], row["op"]) == (1, "x", "UpdateInsert")
    assert row["epoch_time"].timestamp() == pytest.approx(seconds_of(row["epoch"]), abs=1e-6)
    assert sorted(fetch(changed, 3), key=repr) == ALL[2:5]
    assert fetch(changed) == ALL[5:]
    empty = changed.sql("FETCH NEXT FROM c")
    assert empty is not None and empty.num_rows == 0 and empty.schema == found.schema
    changed.sql("INSERT INTO t VALUES (9, NULL)")
    assert fetch(changed) == [(9, None, "Insert")]


@pytest.mark.parametrize("count", [1, 2, 3, 5, 6, 100])
def test_any_number_of_rows_at_a_time(changed: Session, count: int) -> None:
    changed.sql("DECLARE c SUBSCRIPTION CURSOR FOR s")
    rows: list[tuple[object, ...]] = []
    while some := fetch(changed, count):
        rows += some
    assert [*rows[:2], *sorted(rows[2:5], key=repr), *rows[5:]] == ALL
    changed.sql("CLOSE c")
    assert told(changed, "s") == []


def test_only_whole_epochs_are_acknowledged_and_only_those_of_earlier_fetches(changed: Session) -> None:
    changed.sql("DECLARE c SUBSCRIPTION CURSOR FOR s")
    fetch(changed, 2)
    assert len(told(changed, "s", acknowledge=False)) == 6  # the answer may not have arrived
    fetch(changed, 1)
    assert len(told(changed, "s", acknowledge=False)) == 4
    changed.sql("CLOSE c")  # one row of three was fetched
    assert len(told(changed, "s", acknowledge=False)) == 4
    changed.sql("DECLARE c SUBSCRIPTION CURSOR FOR s")
    fetch(changed, 3)
    changed.sql("CLOSE c")
    assert len(told(changed, "s", acknowledge=False)) == 1


def test_a_session_that_ends_acknowledges_nothing(tmp_path: Path) -> None:
    url = (tmp_path / "store").as_uri()
    with Session(url) as db:
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
        db.sql("CREATE SUBSCRIPTION s FROM t")
        db.sql("INSERT INTO t VALUES (1, 'a')")
        db.sql("DECLARE c SUBSCRIPTION CURSOR FOR s")
        db.sql("DECLARE d SUBSCRIPTION CURSOR FOR t FULL")
        assert fetch(db) == fetch(db, cursor="d") == [(1, "a", "Insert")]
        assert len(db.store.version.tables["t"].pins) == 1
    with Session(url) as db:
        assert not db.store.version.tables["t"].pins
        db.sql("DECLARE c SUBSCRIPTION CURSOR FOR s")  # cursors are the session's
        assert fetch(db) == [(1, "a", "Insert")]


def test_since(changed: Session) -> None:
    times = [seconds_of(item.epoch) * 1000 for item in changed.subscribe("s", acknowledge=False)]
    for since, expected in {
        "SINCE now()": [],
        "SINCE begin()": ALL,
        f"SINCE {round(times[0])}": ALL,
        "SINCE FULL": [(1, "x", "Insert"), (3, "c", "Insert"), (4, "d", "Insert"), (5, "e", "Insert")],
        "FULL": [(1, "x", "Insert"), (3, "c", "Insert"), (4, "d", "Insert"), (5, "e", "Insert")],
    }.items():
        changed.sql(f"DECLARE c SUBSCRIPTION CURSOR FOR s {since}")
        assert sorted(fetch(changed, 100), key=repr) == sorted(expected, key=repr), since
        changed.sql("CLOSE c")


def test_two_cursors_and_those_over_tables(changed: Session) -> None:
    changed.sql("DECLARE c SUBSCRIPTION CURSOR FOR s")
    changed.sql("DECLARE d SUBSCRIPTION CURSOR FOR t")
    shown = changed.sql("SHOW CURSORS")
    assert shown is not None and [(row["name"], row["from"]) for row in shown.to_pylist()] == [
        ("c", "s"),
        ("d", "t"),
    ]
    changed.sql("UPDATE t SET v = 'y' WHERE id = 1")
    assert fetch(changed, 9, "d") == [(1, "x", "UpdateDelete"), (1, "y", "UpdateInsert")]
    assert len(fetch(changed, 9)) == 8
    changed.sql("CLOSE ALL")
    assert changed.sql("SHOW SUBSCRIPTION CURSORS").num_rows == 0
    assert not changed.store.version.tables["t"].pins


def test_fetch_waits_for_a_first_row_as_long_as_it_is_told(
    changed: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed.sql("DECLARE c SUBSCRIPTION CURSOR FOR s SINCE now()")
    found = changed.sql("FETCH NEXT FROM c WITH (timeout = '0.01 seconds')")
    assert found is not None and found.num_rows == 0
    waits: list[float] = []

    def rest(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            changed.sql("INSERT INTO t VALUES (9, 'i'), (10, 'j')")

    monkeypatch.setattr("engine.runtime.subscriptions.cursor.time.sleep", rest)
    found = changed.sql("FETCH 5 FROM c WITH (timeout = '1 hour')")
    assert found is not None and found.num_rows == 2 and len(waits) == 3  # and does not wait for five


def test_other_columns_end_a_cursor(changed: Session) -> None:
    changed.sql("DECLARE c SUBSCRIPTION CURSOR FOR s")
    changed.sql("ALTER TABLE t ADD COLUMN w INT")
    with pytest.raises(SubscriptionError, match="DECLARE the cursor again"):
        fetch(changed)
    changed.sql("CLOSE c")
    changed.sql("DECLARE c SUBSCRIPTION CURSOR FOR s")
    assert fetch(changed, 2)[1] == (1, "x", None, "UpdateInsert")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("FETCH NEXT FROM nothing", "there is no cursor nothing"),
        ("CLOSE nothing", "there is no cursor nothing"),
        ("DECLARE c SUBSCRIPTION CURSOR FOR s", "there is a cursor c"),
        ("DECLARE d SUBSCRIPTION CURSOR FOR nothing", "there is no subscription nothing"),
        ("DECLARE d SUBSCRIPTION CURSOR FOR s SINCE 99999999999999", "future"),
    ],
)
def test_wrong_statements_say_where_and_what_to_do(changed: Session, statement: str, message: str) -> None:
    changed.sql("DECLARE c SUBSCRIPTION CURSOR FOR s")
    with pytest.raises(SqlError, match=message) as raised:
        changed.sql(statement)
    assert raised.value.line == 1 and raised.value.hint


@pytest.mark.parametrize("count", [1, 2, 3, 4, 100])
def test_what_a_fetch_that_failed_had_read_comes_again(
    changed: Session, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Each epoch is read in parts of one row, and the store fails at one of them, once."""
    for fails_at in range(1, 6):
        changed.sql("DECLARE c SUBSCRIPTION CURSOR FOR s SINCE begin()")
        breaking = BreakingRead(fails_at)
        monkeypatch.setattr(feed, "read_changes", breaking.read)
        got: list[tuple[object, ...]] = []
        failures = 0
        while True:
            try:
                rows = fetch(changed, count)
            except StorageError:
                failures += 1
                continue
            if not rows:
                break
            got += rows
        assert failures == 1 and set(got) == set(ALL), fails_at
        monkeypatch.undo()
        changed.sql("CLOSE c")
        assert told(changed, "s") == []  # and all of it is acknowledged


def test_a_cursor_whose_last_rows_cannot_be_read_acknowledges_nothing(
    changed: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed.sql("DECLARE c SUBSCRIPTION CURSOR FOR s")
    monkeypatch.setattr(feed, "read_changes", BreakingRead(3).read)
    assert fetch(changed, 3)[:2] == ALL[:2]
    with pytest.raises(StorageError):
        changed.sql("CLOSE c")
    monkeypatch.undo()
    assert len(told(changed, "s")) == len(ALL)


def test_all_cursors_are_closed_also_if_a_subscription_of_one_is_gone(changed: Session) -> None:
    for name, source in (("c", "s"), ("d", "t"), ("e", "s")):
        changed.sql(f"DECLARE {name} SUBSCRIPTION CURSOR FOR {source} SINCE begin()")
        fetch(changed, 2, name)
    changed.sql("DROP SUBSCRIPTION s")
    with pytest.raises(SubscriptionError, match="subscription s was dropped"):
        changed.sql("CLOSE ALL")
    assert not changed.cursors and not changed.store.refresh().tables["t"].pins


def test_a_session_is_closed_with_its_cursors_when_its_branch_was_dropped(changed: Session) -> None:
    branch = changed.store.create_branch("try")
    with Session(branch.url) as tried:
        tried.sql("DECLARE c SUBSCRIPTION CURSOR FOR t")
        subscriber = tried.subscribe("t")
        changed.store.drop_branch("try")
        subscriber.close()
    assert not tried.cursors


def test_a_session_lets_go_of_its_store_if_a_cursor_cannot_be_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = []
    session = Session((tmp_path / "other").as_uri())
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")
    session.sql("DECLARE c SUBSCRIPTION CURSOR FOR t")
    monkeypatch.setattr(session.cursors["c"], "release", fail)
    monkeypatch.setattr(session.store, "close", lambda close=session.store.close: (closed.append(1), close()))
    with pytest.raises(StorageError, match="503"):
        session.close()
    assert closed and not session.cursors


def fail() -> None:
    """Do what a store that does not answer does."""
    raise StorageError("the bucket says 503: slow down")

"""Changes are kept for a subscription as long as its retention says; who fell behind is told, and nothing is left out silently."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest

from engine.errors import SubscriptionError
from engine.runtime.subscriptions import holds
from engine.runtime.subscriptions.upkeep import release_overdue_changes
from engine.session import Session
from engine.testing.manual_clock import ManualClock
from tests.runtime.subscriptions.judge import Bag, shown, told


def change(db: Session, clock: ManualClock, seconds: float, *statements: str) -> None:
    """Write some time later."""
    clock.sleep(seconds)
    for statement in statements:
        db.sql(statement)


def tidy(db: Session) -> list[tuple[str, bool]]:
    """Do what the upkeep of a store does, and tell which subscriptions let changes go."""
    found = release_overdue_changes(db.store)
    db.store.compact("t")
    db.store.maintenance.end_holds()
    db.store.maintenance.truncate()
    return [(one.subscription, one.lapsed) for one in found]


def test_a_subscription_keeps_its_changes_beyond_the_retention_of_the_store(
    db: Session, clock: ManualClock
) -> None:
    db.sql("CREATE SUBSCRIPTION s FROM t WITH (retention = '1 day')")
    change(db, clock, 3_600, "UPDATE t SET v = 'x' WHERE id = 1")
    change(db, clock, 3_600, "DELETE FROM t WHERE id = 2")
    clock.sleep(20 * 3_600)
    assert tidy(db) == []
    assert told(db, "s") == [
        ("UpdateDelete", (1, "a")),
        ("UpdateInsert", (1, "x")),
        ("Delete", (2, "b")),
    ]
    assert tidy(db) == []
    assert told(db, "s", since="begin")[-1] == ("Delete", (2, "b"))  # taken, and kept all the same
    clock.sleep(4 * 3_600)
    assert tidy(db) == [("s", False)]
    assert told(db, "s", since="begin") == []
    assert told(db, "s") == []


def test_who_fell_behind_is_told_the_epoch_the_retention_and_what_to_do(
    db: Session, clock: ManualClock
) -> None:
    db.sql("CREATE SUBSCRIPTION s FROM t WITH (retention = '2 hours')")
    stood = db.sql("SHOW SUBSCRIPTIONS").to_pylist()[0]["epoch"]
    change(db, clock, 60, "UPDATE t SET v = 'x' WHERE id = 1")
    change(db, clock, 3_600, "INSERT INTO t VALUES (3, 'c')")
    clock.sleep(3_600)
    assert tidy(db) == [("s", True)]
    with pytest.raises(SubscriptionError, match="2 hours") as raised:
        db.subscribe("s")
    assert (
        str(stood) in str(raised.value) and "SINCE now()" in str(raised.value) and "FULL" in str(raised.value)
    )
    shown_row = db.sql("SHOW SUBSCRIPTIONS").to_pylist()[0]
    assert shown_row["phase"] == "lapsed" and shown_row["error"] == str(raised.value)
    status = {one.name: one for one in db.status()}["s"]
    assert status.kind == "subscription" and status.last_error == str(raised.value)
    with pytest.raises(SubscriptionError, match="fell behind"):
        db.sql("DECLARE c SUBSCRIPTION CURSOR FOR s")
    assert told(db, "s", since="begin") == [("Insert", (3, "c"))]  # what is still kept
    assert told(db, "s") == []
    bag = Bag()
    for item in db.subscribe("s", since="full"):
        assert item.snapshot
        bag.apply(item.changes)
    assert bag.listed() == shown(db, "t")


def test_one_that_stands_where_nothing_changed_has_not_fallen_behind(db: Session, clock: ManualClock) -> None:
    db.sql("CREATE SUBSCRIPTION s FROM t WITH (retention = '1 hour')")
    change(db, clock, 60, "UPDATE t SET v = 'x' WHERE id = 1")
    assert len(told(db, "s")) == 2
    clock.sleep(90 * 3_600)
    assert tidy(db) == [("s", False)]
    assert tidy(db) == []  # no commit where nothing is let go of
    change(db, clock, 60, "UPDATE t SET v = 'y' WHERE id = 1")
    assert told(db, "s") == [("UpdateDelete", (1, "x")), ("UpdateInsert", (1, "y"))]


def test_all_rows_that_nobody_took_lapse_as_well(db: Session, clock: ManualClock) -> None:
    db.sql("CREATE SUBSCRIPTION s FROM t WITH (retention = '1 hour')")
    subscriber = db.subscribe("s", since="full")
    assert next(subscriber).snapshot  # and not acknowledged
    change(db, clock, 60, "UPDATE t SET v = 'x' WHERE id = 1")
    change(db, clock, 7_200)
    assert tidy(db) == [("s", True)]
    assert not db.store.version.tables["t"].pins
    with pytest.raises(SubscriptionError, match="fell behind"):
        next(subscriber)
    with pytest.raises(SubscriptionError, match="fell behind"):
        db.subscribe("s")


def test_each_subscription_has_its_own_retention(db: Session, clock: ManualClock) -> None:
    db.sql("CREATE SUBSCRIPTION long FROM t WITH (retention = '1 day')")
    db.sql("CREATE SUBSCRIPTION short FROM t WITH (retention = 60)")
    change(db, clock, 1, "UPDATE t SET v = 'x' WHERE id = 1")
    clock.sleep(7_200)
    assert tidy(db) == [("short", True)]
    assert len(told(db, "long")) == 2


def test_a_follower_of_a_table_holds_history_until_its_pin_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Session((tmp_path / "store").as_uri()) as db:
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
        db.sql("INSERT INTO t VALUES (1, 'a')")
        db.store.alter_table("t", retention_seconds=0.001)
        subscriber = db.subscribe("t")
        (pin,) = db.store.version.tables["t"].pins
        db.sql("UPDATE t SET v = 'x' WHERE id = 1")
        tidy(db)
        assert next(subscriber).changes.num_rows == 2  # history is cut at once, but for the pin
        assert set(db.store.version.tables["t"].pins) == {pin}
        monkeypatch.setattr(holds, "PIN_SECONDS", 0.001)
        assert next(subscriber, None) is None  # asking renews, from now on for next to nothing
        (renewed,) = db.store.version.tables["t"].pins
        assert renewed != pin
        for value in "yz":
            db.sql(f"UPDATE t SET v = '{value}' WHERE id = 1")
            tidy(db)
        assert not db.store.version.tables["t"].pins  # a dead process holds nothing for ever
        with pytest.raises(SubscriptionError, match="not kept any more"):
            next(subscriber)
        subscriber.close()


def test_upkeep_beside_a_writer_takes_nothing_from_who_follows(tmp_path: Path) -> None:
    url, done = (tmp_path / "store").as_uri(), threading.Event()
    with Session(url) as db:
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT)")
        db.store.alter_table("t", retention_seconds=0.001)
        db.sql("CREATE SUBSCRIPTION s FROM t")

        def write() -> None:
            with Session(url) as other:
                for n in range(60):
                    other.write("t", pa.table({"id": [n % 7, 7 + n % 5], "v": [n, -n]}))
            done.set()

        def tend() -> None:
            with Session(url) as other:
                while not done.is_set():
                    tidy(other)
                    other.store.maintenance.delete_garbage(dry_run=False, grace_seconds=5)

        threads = [threading.Thread(target=work) for work in (write, tend)]
        bags, epochs = (Bag(), Bag()), 0
        with db.subscribe("t", follow=True, poll_seconds=0.01) as follower:
            for thread in threads:
                thread.start()
            for item in follower:
                bags[0].apply(item.changes)
                epochs += 1
                if epochs % 10 == 0:  # seldom, from another place in the log
                    for behind in db.subscribe("s"):
                        bags[1].apply(behind.changes)
                if epochs == 60:
                    break
            for thread in threads:
                thread.join()
        for behind in db.subscribe("s"):
            bags[1].apply(behind.changes)
        assert bags[0].listed() == bags[1].listed() == shown(db, "t")
        assert db.sql("SHOW SUBSCRIPTIONS").to_pylist()[0]["phase"] == "log"

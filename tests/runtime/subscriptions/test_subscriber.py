"""What a subscriber gets, and what comes again: the changes of each epoch, applied, are the rows of the table at that epoch."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.errors import SqlError, StorageError, SubscriptionError
from engine.hummock import Hummock
from engine.hummock.epoch import seconds_of
from engine.runtime.subscriptions import feed, holds
from engine.runtime.subscriptions.positions import acknowledge_epoch
from engine.session import Session
from engine.testing.manual_clock import ManualClock
from tests.runtime.subscriptions.judge import Bag, shown, told

CHANGED = [("UpdateDelete", (1, "a")), ("UpdateInsert", (1, "x"))]


def write_randomly(session: Session, rng: random.Random, step: int) -> None:
    """Insert, update and delete in a keyed table and a bag, with nulls and rows that stand twice, several epochs at once."""
    for _ in range(rng.randrange(1, 4)):
        ids = rng.sample(range(30), 5)
        values = [rng.choice([None, "", "a", "b", "ä"]) for _ in ids]
        numbers = [rng.choice([None, 0.0, -0.0, 1.5, float("nan")]) for _ in ids]
        columns = {"id": ids, "v": pa.array(values, pa.string()), "f": pa.array(numbers, pa.float64())}
        session.write("k", pa.table(columns))
        session.write("k", pa.table({"id": rng.sample(range(30), 2)}), mode="delete")
        rows = [(rng.randrange(3), rng.choice([None, "x", "y"])) for _ in range(4)]
        bag = {"a": [a for a, _ in rows], "b": pa.array([b for _, b in rows], pa.string())}
        session.write("b", pa.table(bag), mode="insert")
    if step % 3 == 0:
        session.sql(f"DELETE FROM b WHERE a = {rng.randrange(3)} AND b IS NULL")
    if step % 4 == 0:
        session.sql(f"UPDATE b SET b = 'z' WHERE a = {rng.randrange(3)}")


@pytest.mark.parametrize(
    ("seed", "steps"), [(0, 4), *(pytest.param(seed, 9, marks=pytest.mark.long) for seed in (1, 2, 3))]
)
def test_changes_applied_are_the_rows_at_every_epoch(
    tmp_path: Path, seed: int, steps: int, spark: SparkSession
) -> None:
    rng, url = random.Random(seed), (tmp_path / "store").as_uri()
    views = {
        "grouped": "SELECT v, count(*) AS n, sum(id) AS s, max(f) AS f FROM k GROUP BY v",
        "plain": "SELECT a, b FROM b WHERE a > 0",
        "both": "SELECT k.v, b.b FROM k JOIN b ON k.id = b.a",
        "distinct_b": "SELECT DISTINCT b FROM b",
    }
    if steps < 5:
        views = {"grouped": views["grouped"]}
    names = ("k", "b", *views)
    with Session(url, spark) as session:
        session.sql("CREATE TABLE k (id BIGINT PRIMARY KEY, v STRING, f DOUBLE)")
        session.sql("CREATE TABLE b (a BIGINT, b STRING)")
        for name, query in views.items():
            session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        for name in names:
            session.sql(f"CREATE SUBSCRIPTION s_{name} FROM {name}")
            session.sql(f"CREATE SUBSCRIPTION rare_{name} FROM {name}")
    bags = {name: Bag() for name in names}
    rare = {name: Bag() for name in names}
    for step in range(steps):
        with Session(url, spark) as session:  # another process each time, as far as the store can tell
            write_randomly(session, rng, step)
            session.flush().raise_for_errors()
            for name, bag in bags.items():
                seen = 0
                for item in session.subscribe(f"s_{name}"):
                    assert item.epoch > seen and item.changes.num_rows and not item.snapshot
                    seen = item.epoch
                    bag.apply(item.changes)
                    assert bag.listed() == shown(session, name, item.epoch)
                assert bag.listed() == shown(session, name)
                if step % 3 == 2:  # another one, that comes seldom, gets every epoch as well
                    for item in session.subscribe(f"rare_{name}"):
                        rare[name].apply(item.changes)
                    assert rare[name].listed() == shown(session, name)
                if step == steps - 1:
                    whole = Bag()
                    for item in session.subscribe(name, since="full"):
                        whole.apply(item.changes)
                    assert whole.listed() == bag.listed()


def test_an_epoch_is_acknowledged_when_the_next_is_asked_for(db: Session) -> None:
    db.sql("CREATE SUBSCRIPTION s FROM t")
    db.sql("UPDATE t SET v = 'x' WHERE id = 1")
    db.sql("DELETE FROM t WHERE id = 2")
    first = next(db.subscribe("s"))
    assert next(db.subscribe("s")).epoch == first.epoch  # it comes again: nobody has said that it was taken
    subscriber = db.subscribe("s")
    assert next(subscriber).epoch == first.epoch
    second = next(subscriber)
    again = next(db.subscribe("s"))
    assert again.epoch == second.epoch > first.epoch
    assert again.time == datetime.fromtimestamp(seconds_of(again.epoch), UTC)
    assert next(subscriber, None) is None
    assert told(db, "s") == []


def test_one_that_acknowledges_itself(db: Session) -> None:
    db.sql("CREATE SUBSCRIPTION s FROM t")
    for value in "xyz":
        db.sql(f"UPDATE t SET v = '{value}' WHERE id = 1")
    subscriber = db.subscribe("s", acknowledge=False)
    epochs = [item.epoch for item in subscriber]
    assert len(epochs) == 3 and len(told(db, "s", acknowledge=False)) == 6
    subscriber.acknowledge(epochs[1])
    subscriber.acknowledge(epochs[0])  # which takes nothing back
    assert [item.epoch for item in db.subscribe("s", acknowledge=False)] == epochs[2:]
    subscriber.acknowledge()
    assert told(db, "s") == []


@pytest.mark.parametrize("when", [1, 2, 3])
def test_an_epoch_comes_again_if_the_one_before_could_not_be_acknowledged(
    db: Session, monkeypatch: pytest.MonkeyPatch, when: int
) -> None:
    db.sql("CREATE SUBSCRIPTION s FROM t")
    for value in "xyz":
        db.sql(f"UPDATE t SET v = '{value}' WHERE id = 1")
    epochs = [item.epoch for item in db.subscribe("s", acknowledge=False)]
    left = when

    def acknowledge(store: Hummock, name: str, table_id: int, epoch: int) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise StorageError("the bucket says 503: slow down")
        acknowledge_epoch(store, name, table_id, epoch)

    monkeypatch.setattr(holds, "acknowledge_epoch", acknowledge)
    subscriber, got, failures = db.subscribe("s"), [], 0
    while True:
        try:
            item = next(subscriber, None)
        except StorageError:
            failures += 1
            continue
        if item is None:
            break
        got.append(item.epoch)
    assert failures == 1 and got == epochs
    assert told(db, "s") == []


@pytest.mark.long
def test_a_process_that_is_killed_before_it_acknowledges_gets_the_epoch_again(tmp_path: Path) -> None:
    url = (tmp_path / "store").as_uri()
    with Session(url) as db:
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
        db.sql("CREATE SUBSCRIPTION s FROM t")
        for id in range(3):
            db.sql(f"INSERT INTO t VALUES ({id}, 'a')")
        script = (
            "import os, sys\n"
            "from engine.session import Session\n"
            "changes = Session(sys.argv[1]).subscribe('s')\n"
            "print(next(changes).epoch, next(changes).epoch, flush=True)\n"
            "os.kill(os.getpid(), 9)\n"
        )
        died = subprocess.run(
            [sys.executable, "-c", script, url], capture_output=True, text=True, check=False
        )
        assert died.returncode == -9, died.stderr
        first, second = map(int, died.stdout.split())
        epochs = [item.epoch for item in db.subscribe("s")]
        assert epochs[0] == second > first and len(epochs) == 2


def test_two_readers_of_one_subscription_get_all_from_where_it_stood(db: Session) -> None:
    db.sql("CREATE SUBSCRIPTION s FROM t")
    one, other = db.subscribe("s"), db.subscribe("s")
    for value in "xyz":
        db.sql(f"UPDATE t SET v = '{value}' WHERE id = 1")
    epochs = [item.epoch for item in one]
    assert [next(other).epoch, next(other).epoch] == epochs[
        :2
    ]  # behind what was acknowledged: it moves nothing back
    assert told(db, "s") == []
    assert [item.epoch for item in other] == epochs[2:]


def test_following_beside_a_writer_blocks_nobody_and_ends_by_close(tmp_path: Path) -> None:
    url, writes = (tmp_path / "store").as_uri(), 30
    with Session(url) as db:
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT)")
        db.sql("CREATE SUBSCRIPTION s FROM t")

        def write() -> None:
            with Session(url) as other:
                for n in range(writes):
                    other.sql(f"INSERT INTO t VALUES ({n}, {n})")
                    if n % 5 == 4:
                        other.sql(f"DELETE FROM t WHERE id = {n - 2}")

        writer = threading.Thread(target=write)
        bag, epochs = Bag(), list[int]()
        with db.subscribe("s", follow=True, poll_seconds=0.01) as subscriber:
            writer.start()
            for item in subscriber:
                epochs.append(item.epoch)
                bag.apply(item.changes)
                if len(epochs) == writes + writes // 5:
                    break
            writer.join()
            assert bag.listed() == shown(db, "t")
            waiting = threading.Thread(target=lambda: epochs.extend(item.epoch for item in subscriber))
            waiting.start()
            subscriber.close()
            waiting.join(60)
            assert not waiting.is_alive()
        assert epochs == sorted(set(epochs))
        assert next(subscriber, None) is None


@pytest.mark.parametrize("since", ["now", "begin", "full", "epoch", "time"])
def test_since(db: Session, since: str) -> None:
    first = db.store.version.tables["t"].committed_epoch
    db.sql("UPDATE t SET v = 'x' WHERE id = 1")
    second = db.store.version.tables["t"].committed_epoch
    db.sql("DELETE FROM t WHERE id = 2")
    moments: dict[str, int | str] = {"epoch": first, "time": "now() - INTERVAL '3000' SECOND"}
    gone = [("Delete", (2, "b"))]
    came = [("Insert", (1, "a")), ("Insert", (2, "b"))]
    expected = {
        "now": [],
        "begin": [*came, *CHANGED, *gone],
        "full": [("Insert", (1, "x"))],
        "epoch": [*CHANGED, *gone],
        "time": [*came, *CHANGED, *gone],
    }[since]
    assert told(db, "t", since=moments.get(since, since)) == expected
    assert told(db, "t", since=second) == gone
    db.sql("CREATE SUBSCRIPTION s FROM t")
    if since != "begin":  # changes from before it was created are kept for nobody, but may be there
        assert told(db, "s", since=moments.get(since, since)) == expected
    db.sql("INSERT INTO t VALUES (9, 'i')")
    assert told(db, "s") == [("Insert", (9, "i"))]


def test_a_time_includes_its_own_millisecond(db: Session, clock: ManualClock) -> None:
    clock.sleep(1)
    db.sql("UPDATE t SET v = 'x' WHERE id = 1")
    epoch = db.store.version.tables["t"].committed_epoch
    at = datetime.fromtimestamp(seconds_of(epoch), UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    assert told(db, "t", since=at) == CHANGED


def test_seeking_moves_where_the_subscription_stands(db: Session) -> None:
    db.sql("CREATE SUBSCRIPTION s FROM t")
    db.sql("UPDATE t SET v = 'x' WHERE id = 1")
    assert told(db, "s") == CHANGED
    assert next(db.subscribe("s", since="begin")).changes.num_rows == 2  # broken off
    assert told(db, "s") == CHANGED  # it stands there by now
    db.sql("DELETE FROM t WHERE id = 1")
    db.subscribe("s", since="now")
    assert told(db, "s") == []


def test_all_rows_first_come_again_until_they_were_taken(db: Session) -> None:
    db.sql("CREATE SUBSCRIPTION s FROM t")
    assert next(db.subscribe("s", since="full")).snapshot
    db.sql("UPDATE t SET v = 'x' WHERE id = 1")
    subscriber = db.subscribe("s")
    assert (item := next(subscriber)).snapshot and item.changes.column("v").to_pylist() == ["a", "b"]
    assert not next(subscriber).snapshot
    assert [item.snapshot for item in db.subscribe("s")] == [False]
    db.sql("DELETE FROM t WHERE id < 9")
    assert told(db, "s", since="full") == []  # there are no rows
    assert told(db, "s") == []


def test_epochs_that_change_nothing_visible_are_no_items(db: Session) -> None:
    db.sql("CREATE SUBSCRIPTION s FROM t")
    db.sql("UPDATE t SET v = v")
    db.sql("DELETE FROM t WHERE id = 77")
    db.sql("INSERT INTO t VALUES (5, NULL)")
    db.sql("UPDATE t SET v = NULL WHERE id = 5")
    assert told(db, "s") == [("Insert", (5, None))]
    assert db.sql("SHOW SUBSCRIPTIONS").to_pylist()[0]["lag_rows"] == 0  # the empty ones count as taken


def test_values_of_all_types_come_as_select_gives_them(tmp_path: Path) -> None:
    with Session((tmp_path / "store").as_uri()) as db:
        db.sql(
            "CREATE TABLE x (id INT PRIMARY KEY, d DECIMAL(20, 4), at TIMESTAMP, day DATE, raw BINARY, l ARRAY<INT>, "
            "m MAP<STRING, INT>, s STRUCT<a: INT, b: STRING>, yes BOOLEAN)"
        )
        db.sql("CREATE SUBSCRIPTION s FROM x")
        rows = db.sql("SELECT * FROM x")
        assert rows is not None
        values = {
            "id": 1,
            "d": Decimal("12.5000"),
            "at": datetime(2026, 1, 31, 12, tzinfo=UTC),
            "day": datetime(2026, 1, 31).date(),
            "raw": b"\x00\xff",
            "l": [1, None],
            "m": [("k", 1)],
            "s": {"a": 1, "b": None},
            "yes": True,
        }
        db.write("x", pa.Table.from_pylist([values], rows.schema))
        (item,) = db.subscribe("s")
        assert item.changes.drop_columns(["op"]).equals(db.sql("SELECT * FROM x"))


def test_columns_that_are_others_are_told(db: Session) -> None:
    db.sql("CREATE SUBSCRIPTION s FROM t")
    subscriber = db.subscribe("s")
    db.sql("UPDATE t SET v = 'x' WHERE id = 1")
    assert next(subscriber).changes.column_names == ["id", "v", "op"]
    db.sql("ALTER TABLE t ADD COLUMN w INT DEFAULT 7")
    db.sql("INSERT INTO t VALUES (3, 'c', 8)")
    with pytest.raises(
        SubscriptionError, match=r"\(id bigint, v string\) became \(id bigint, v string, w int\)"
    ):
        next(subscriber)
    again = list(db.subscribe("s"))
    assert [item.changes.column_names for item in again] == [["id", "v", "w", "op"]] * len(again)
    assert again[-1].changes.to_pylist() == [{"id": 3, "v": "c", "w": 8, "op": "Insert"}]


def test_rows_that_leave_by_themselves_are_not_told(db: Session) -> None:
    db.sql(
        "CREATE TABLE e (at TIMESTAMP, v INT, WATERMARK FOR at AS at - INTERVAL '1' MINUTE WITH TTL) APPEND ONLY"
    )
    db.sql("CREATE SUBSCRIPTION s FROM e")
    db.sql("INSERT INTO e VALUES (TIMESTAMP '2026-01-01 00:00:00', 1)")
    db.sql("INSERT INTO e VALUES (TIMESTAMP '2026-01-01 01:00:00', 2)")
    assert db.sql("SELECT v FROM e").to_pylist() == [{"v": 2}]
    assert [(operation, row[1]) for operation, row in told(db, "s")] == [("Insert", 1), ("Insert", 2)]
    assert [(operation, row[1]) for operation, row in told(db, "e", since="full")] == [("Insert", 2)]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("nothing", {}, "there is no table or view nothing"),
        ("plain", {}, "plain is a view and keeps no changes"),
        ("taken", {}, "has a column op"),
        ("t", {"since": 1 << 60}, "future"),
        ("t", {"since": "yesterday"}, "no moment"),
        ("t", {"poll_seconds": 0.0}, "more than 0"),
    ],
)
def test_what_cannot_be_followed(db: Session, name: str, options: dict[str, object], message: str) -> None:
    db.sql("CREATE VIEW plain AS SELECT id FROM t")
    db.sql("CREATE TABLE taken (op INT PRIMARY KEY)")
    with pytest.raises((SqlError, SubscriptionError), match=message):
        db.subscribe(name, **options)  # type: ignore[arg-type]


def test_what_is_dropped_ends_with_an_error(db: Session) -> None:
    db.sql("CREATE SUBSCRIPTION s FROM t")
    followed, subscribed = db.subscribe("t", follow=True), db.subscribe("s", follow=True)
    db.sql("DROP SUBSCRIPTION s")
    with pytest.raises(SubscriptionError, match="subscription s was dropped"):
        next(subscribed)
    db.sql("DROP TABLE t CASCADE")
    with pytest.raises(SubscriptionError, match="t was dropped, or made anew"):
        next(followed)
    followed.close()


def test_a_reading_that_fails_comes_again(db: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    db.sql("CREATE SUBSCRIPTION s FROM t")
    db.sql("UPDATE t SET v = 'x' WHERE id = 1")
    subscriber, read = db.subscribe("s"), feed.read_changes

    def fail(*_: object) -> Iterator[object]:
        raise OSError("no route to host")

    monkeypatch.setattr(feed, "read_changes", fail)
    with pytest.raises(OSError, match="no route"):
        next(subscriber)
    monkeypatch.setattr(feed, "read_changes", read)
    assert next(subscriber).changes.num_rows == 2
    assert next(subscriber, None) is None

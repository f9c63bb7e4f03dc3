"""A sink that is reset, paused, dropped or created again, by this session or another process, while it delivers or not."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from engine.connectors.sinks.ddl import alter_sink
from engine.connectors.sinks.driver import SinkDriver
from engine.connectors.statements.create_view import execute_create_sink
from engine.hummock import Commit, Hummock, Version
from engine.runtime.statements.drop import drop_relation
from engine.session import Session
from engine.sql.statements import reader as st
from tests.connectors.sinks.conftest import Target, applied, delete, put
from tests.connectors.sinks.test_delivery import FILE_SINK, create
from tests.contexts import build_context
from tests.crash.delivered import replayed


class Outside:
    """Another process over the same store: what it says is not known to the session before it reads the store again."""

    def __init__(self, url: str) -> None:
        self.store = Hummock.open(url)

    def sql(self, text: str) -> None:
        match statement := st.parse_statement(text, "spark"):
            case st.CreateSink():
                execute_create_sink(statement, build_context(self.store))
            case st.AlterSink():
                alter_sink(self.store, statement)
            case st.Drop():
                drop_relation(self.store, statement)
            case _:
                raise AssertionError(text)


@pytest.fixture(params=["the session itself", "another process"])
def say(request: pytest.FixtureRequest, db: Session) -> Iterator[Callable[[str], None]]:
    """What alters the sink: the session that delivers, or another process."""
    if request.param == "the session itself":
        yield lambda text: create(db, text)
        return
    outside = Outside(db.url)
    yield outside.sql
    outside.store.close()


def beginnings(target: Target, sink: str = "s") -> list[list[dict]]:
    """The rows that a sink has written, by its beginnings, in the order of the files' names."""
    found: dict[str, Target] = {}
    for path in sorted(target.objects):
        if path.startswith(f"{sink}-"):
            found.setdefault(path.split("-")[1], Target()).put(path, target.get(path) or b"")
    return [part.rows() for part in found.values()]


def content(db: Session) -> dict[int, str]:
    db.store.refresh()
    return {row["id"]: row["v"] for batch in db.store.iter("t") for row in batch.to_pylist()}


def test_a_sink_that_was_reset_delivers_the_rows_as_they_are(
    db: Session, driver: SinkDriver, target: Target, say: Callable[[str], None]
) -> None:
    create(db)
    put(db, {1: "a", 2: "a"})
    driver.run()
    put(db, {2: "b"})
    driver.run()
    say("ALTER SINK s RESET")  # with nothing that was not delivered
    (report,) = driver.run()
    assert (report.rows, report.phase, report.error) == (2, "log", None)
    put(db, {3: "c"})
    say("ALTER SINK s RESET")  # with a change that was not
    delete(db, 1)
    driver.run()
    put(db, {4: "d"})
    (report,) = driver.run()
    assert report.lag_rows == 0 and not db.store.version.tables["t"].pins
    assert [applied(rows) for rows in beginnings(target)] == [
        {1: "a", 2: "b"},
        {1: "a", 2: "b"},
        {2: "b", 3: "c", 4: "d"},
    ]


def test_the_names_of_files_are_in_the_order_of_epochs_and_of_delivery(
    db: Session, target: Target, say: Callable[[str], None]
) -> None:
    create(db)
    written: list[str] = []
    for n in range(6):
        put(db, {n: "a"})
        if n % 2:
            say("ALTER SINK s RESET")
        driver = SinkDriver(db.store, open_target=lambda url: target, wait_seconds=60)  # as after a restart
        driver.run()
        driver.close()
        new = [path for path in target.objects if path not in written]
        assert new
        written += sorted(new)
    assert written == sorted(target.objects)
    epochs = [row["_epoch"] for row in target.rows()]
    assert epochs == sorted(epochs)


def test_every_reader_of_a_reset_sink_begins_anew(
    db: Session, driver: SinkDriver, target: Target, say: Callable[[str], None]
) -> None:
    create(db, FILE_SINK.replace("'jsonl'", "'jsonl', vnode_groups = 3"))
    put(db, {n: "a" for n in range(50)})
    driver.run()
    target.broken = lambda path: "-v085-" in path  # one of them is behind
    put(db, {n: "b" for n in range(60)})
    assert driver.run()[0].error
    say("ALTER SINK s RESET")
    target.broken = lambda path: False
    put(db, {n: "c" for n in range(20)})
    assert driver.run()[0].error is None
    assert applied(beginnings(target)[-1]) == content(db)


def test_a_reset_table_sink_writes_the_rows_as_they_are(
    db: Session, driver: SinkDriver, say: Callable[[str], None]
) -> None:
    db.sql("CREATE TABLE u (id BIGINT PRIMARY KEY, v STRING)")
    create(db, "CREATE SINK s INTO u FROM t")
    put(db, {1: "a", 2: "a"})
    driver.run()
    db.write("u", pa.table({"id": pa.array([1], pa.int64())}), mode="delete")
    say("ALTER SINK s RESET")
    (report,) = driver.run()
    assert report.rows == 2 and report.phase == "log"
    put(db, {2: "b"})
    driver.run()
    assert db.sql("SELECT id, v FROM u ORDER BY id").to_pylist() == [
        {"id": 1, "v": "a"},
        {"id": 2, "v": "b"},
    ]


def test_a_sink_without_snapshot_loses_no_change_after_its_reset(
    db: Session, driver: SinkDriver, target: Target, say: Callable[[str], None]
) -> None:
    create(db, FILE_SINK.replace("'jsonl'", "'jsonl', snapshot = false"))
    put(db, {1: "a"})
    driver.run()
    say("ALTER SINK s RESET")
    put(db, {2: "b"})  # before it is run again
    driver.run()
    assert applied(beginnings(target)[-1]) == {2: "b"}


@pytest.mark.parametrize("action", ["RESET", "PAUSE", "DROP and CREATE"])
def test_a_sink_that_is_changed_while_it_delivers_follows(
    db: Session, driver: SinkDriver, target: Target, say: Callable[[str], None], action: str
) -> None:
    create(db)
    put(db, {1: "a"})
    driver.run()
    put(db, {1: "b", 2: "b"})
    put(db, {3: "c"})
    attempts = target.attempts

    def at_the_second_file(path: str) -> bool:
        if target.attempts == attempts + 2:
            if action == "DROP and CREATE":
                say("DROP SINK s")
                say(FILE_SINK)
            else:
                say(f"ALTER SINK s {action}")
        return False

    target.broken = at_the_second_file
    (report,) = driver.run()
    assert report.error is None
    if action == "PAUSE":
        assert report.phase == "paused"
        say("ALTER SINK s RESUME")
    put(db, {1: "d"})
    (report,) = driver.run()
    assert report.error is None and report.phase == "log" and report.lag_rows == 0
    assert applied(beginnings(target)[-1]) == content(db)


def test_sinks_that_share_a_reading_follow_a_reset_of_one_of_them(
    db: Session, driver: SinkDriver, target: Target, say: Callable[[str], None]
) -> None:
    for name in ("s", "other"):
        create(db, FILE_SINK.replace("SINK s", f"SINK {name}"))
    put(db, {1: "a"})
    driver.run()
    for n in range(5):
        put(db, {n: "b"})
    said = threading.Event()

    def at_the_first_file(path: str) -> bool:
        if path.startswith("s-") and not said.is_set():
            said.set()
            say("ALTER SINK s RESET")
            put(db, {9: "c"})
        return False

    target.broken = at_the_first_file
    assert [report.error for report in driver.run()] == [None, None]
    assert [report.error for report in driver.run()] == [None, None]
    assert applied(beginnings(target)[-1]) == content(db)
    assert applied(beginnings(target, "other")[-1]) == content(db)


def test_a_shared_reading_that_a_reader_was_moved_away_from_is_read_by_itself(
    db: Session, driver: SinkDriver, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.connectors.sinks import driver as module

    for name in ("s", "other"):
        create(db, FILE_SINK.replace("SINK s", f"SINK {name}"))
    put(db, {1: "a"})
    driver.run()
    put(db, {2: "b"})
    share = module._share_logs

    def then_reset(*arguments) -> None:  # type: ignore[no-untyped-def]
        share(*arguments)  # the common reading begins here, and the reader is not where it was
        db.sql("ALTER SINK s RESET")
        for n in range(3):
            put(db, {n: "c"})

    monkeypatch.setattr(module, "_share_logs", then_reset)
    assert [report.error for report in driver.run()] == [None, None]
    assert applied(beginnings(target)[-1]) == applied(beginnings(target, "other")[-1]) == content(db)


@pytest.mark.parametrize("columns", ["the same", "others"])
def test_a_sink_that_is_dropped_and_created_again_begins_anew(
    db: Session, driver: SinkDriver, target: Target, say: Callable[[str], None], columns: str
) -> None:
    create(db)
    put(db, {1: "a"})
    driver.run()
    put(db, {1: "b"})
    driver.run()
    say("DROP SINK s")
    form = FILE_SINK if columns == "the same" else FILE_SINK.replace("'jsonl'", "'jsonl', type = 'upsert'")
    say(form)
    (report,) = driver.run()
    assert report.error is None and report.rows == 1
    assert [applied(rows) for rows in beginnings(target)] == [{1: "b"}, {1: "b"}]


def test_a_sink_created_again_with_other_rows_is_not_kept_from_its_folder(
    db: Session, driver: SinkDriver, target: Target
) -> None:
    create(db, FILE_SINK.replace("'jsonl'", "'jsonl', type = 'append-only', force_append_only = true"))
    put(db, {1: "a"})
    driver.run()
    db.sql("DROP SINK s")
    create(db)  # its first file would have the name of the other's
    (report,) = driver.run()
    assert report.error is None and applied(beginnings(target)[-1]) == {1: "a"}


def test_after_a_reset_a_failed_sink_is_tried_at_once_and_its_error_is_forgotten(
    db: Session, driver: SinkDriver, target: Target, say: Callable[[str], None]
) -> None:
    create(db)
    target.broken = lambda path: True
    put(db, {1: "a"})
    driver.run(eager=False)
    assert driver.collect_errors()
    target.broken = lambda path: False
    say("ALTER SINK s RESET")
    db.store.refresh()
    assert driver.collect_errors() == {}
    (report,) = driver.run(eager=False)
    assert report.error is None and report.rows == 1


def test_a_paused_sink_that_is_reset_stays_paused(
    db: Session, driver: SinkDriver, target: Target, say: Callable[[str], None]
) -> None:
    create(db)
    put(db, {1: "a"})
    driver.run()
    say("ALTER SINK s PAUSE")
    say("ALTER SINK s RESET")
    assert driver.run()[0].phase == "paused"
    say("ALTER SINK s RESUME")
    put(db, {2: "b"})
    driver.run()
    assert applied(beginnings(target)[-1]) == {1: "a", 2: "b"}


@pytest.mark.parametrize("action", ["reset", "drop"])
def test_a_sink_delivered_at_this_very_moment_leaves_nothing_that_holds_the_log(
    db: Session, driver: SinkDriver, target: Target, action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(db)
    put(db, {1: "a"})
    commit, said = db.store.commit, []

    def after_a_delivery(part):  # type: ignore[no-untyped-def]
        if not said:
            said.append(True)
            driver.run()  # the first rows are acknowledged between the look and the commit
        return commit(part)

    monkeypatch.setattr(db.store, "commit", after_a_delivery)
    db.sql("DROP SINK s" if action == "drop" else "ALTER SINK s RESET")
    table = db.store.refresh().tables["t"]
    if action == "drop":
        assert not table.acks and not table.pins
        return
    assert not table.acks and len(table.pins) == 1
    (report,) = driver.run()
    assert report.rows == 1 and [applied(rows) for rows in beginnings(target)] == [{1: "a"}] * 2


def test_a_sink_that_was_delivered_by_another_process_does_not_lapse(
    db: Session, target: Target, clock
) -> None:
    create(db, FILE_SINK.replace("'jsonl'", "'jsonl', retention = '2 hours'"))
    drivers = [
        SinkDriver(Hummock.open(db.url), open_target=lambda url: target, clock=clock, wait_seconds=60)
        for _ in range(2)
    ]
    put(db, {1: "a"})
    drivers[0].run()
    put(db, {2: "b"})
    clock.now += 2 * 3600 + 60
    said: list[bool] = []

    def fails_for_one(path: str) -> bool:
        if not said:
            said.append(True)
            drivers[1].run()
            return True
        return False

    target.broken = fails_for_one
    drivers[0].run()
    (report,) = drivers[0].run()
    assert report.phase == "log" and report.error is None
    assert applied(target.rows()) == {1: "a", 2: "b"}
    for one in drivers:
        one.close()


def test_a_sink_that_is_created_anew_while_its_old_delivery_hangs_gets_its_own_rows(
    db: Session, clock, tmp_path: Path
) -> None:
    stuck, started = threading.Event(), threading.Event()
    targets = {"s3://sinks/out": Target(), "s3://sinks/new": Target()}

    def hangs(path: str) -> bool:
        started.set()
        assert stuck.wait(60)
        return False

    targets["s3://sinks/out"].broken = hangs
    create(db)
    driver = SinkDriver(db.store, open_target=targets.__getitem__, clock=clock, wait_seconds=0.1)
    put(db, {1: "a"})
    driver.run()
    assert started.wait(60)
    old = dict(driver._running)
    db.sql("DROP SINK s")
    create(db, FILE_SINK.replace("/out", "/new"))
    put(db, {2: "b"})
    driver.run(wait_seconds=60)
    stuck.set()
    old["s"].result()
    driver.wait(60)
    driver.run(wait_seconds=60)
    assert applied(targets["s3://sinks/new"].rows()) == {1: "a", 2: "b"}
    assert not driver.collect_errors()
    driver.close()


def test_a_sink_begins_after_one_of_its_name_that_came_and_went_meanwhile(
    db: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of a later beginning are the newest by their names, so a CREATE may not commit a number that it read before."""
    text = "CREATE SINK s FROM t WITH (connector = 'file', url = 's3://sinks/s', format = 'jsonl')"
    target, other = Target(), Hummock.open(db.url)
    put(db, {1: "a", 2: "b"})
    commit, passed = Hummock.commit, []

    def later(store: Hummock, made: Commit) -> Version:
        if store is db.store and "relation/s" in made.catalog and not passed:
            passed.append("one of the same name")
            put(db, {3: "x"})
            execute_create_sink(st.parse_statement(text, "spark"), build_context(other))  # type: ignore[arg-type]
            driver = SinkDriver(other, open_target=lambda url: target, wait_seconds=60)
            assert driver.run()[0].rows == 3
            driver.close()
            delete(db, 3)
            drop_relation(other, st.Drop("sink", "s", True, False, ""))
            store.refresh()
        return commit(store, made)

    monkeypatch.setattr(Hummock, "commit", later)
    execute_create_sink(st.parse_statement(text, "spark"), build_context(db.store))  # type: ignore[arg-type]
    assert passed
    put(db, {1: "c"})
    driver = SinkDriver(db.store, open_target=lambda url: target, wait_seconds=60)
    assert driver.run()[0].error is None
    driver.close()
    assert replayed("s", target.objects, ("id",)) == Counter({(1, "c"): 1, (2, "b"): 1})

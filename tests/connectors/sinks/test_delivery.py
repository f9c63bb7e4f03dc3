"""Each change once and in order, whatever fails; no view and no other sink waits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as hs

from engine.connectors.sinks import delivery
from engine.connectors.sinks.contract import DeliveryResult
from engine.connectors.sinks.driver import SinkDriver
from engine.connectors.sinks.files import FileSinkConnector
from engine.connectors.statements.create_view import execute_create_sink
from engine.errors import Conflict
from engine.hummock import Hummock, TableVersion
from engine.log_store.changes import Changes
from engine.log_store.sink import LogRange, SinkLogStore
from engine.meta.status.sinks import NEWEST_START
from engine.runtime.statements.create import relations
from engine.runtime.writes.dml import write_rows
from engine.session import Session
from engine.sql.statements.reader import CreateSink, CreateTable, parse_statement
from tests.connectors.sinks.conftest import Clock, Target, applied, delete, put
from tests.contexts import build_context
from tests.log_store.faults import Crash, DyingClient, MemoryObjectStore

FILE_SINK = "CREATE SINK s FROM t WITH (connector = 'file', url = 's3://sinks/out', format = 'jsonl')"


def create(db: Session, text: str = FILE_SINK) -> None:
    """Create a sink without running it."""
    db.sql(text, build=False)


def test_a_sink_that_fails_for_200_epochs_then_delivers_each_change_once_and_in_order(
    db: Session, driver: SinkDriver, target: Target
) -> None:
    create(db)
    target.broken = lambda path: True
    for epoch in range(200):
        before = db.store.version.tables["t"].committed_epoch
        put(db, {epoch % 7: f"v{epoch}", 1000 + epoch: "new"})
        assert db.store.version.tables["t"].committed_epoch > before  # the view went on at once
        (report,) = driver.run()
        assert "no route to host" in (report.error or "")
    assert report.attempts == 200 and report.retry_at is not None and target.rows() == []
    assert report.lag_rows == 400 and report.lag_bytes > 0
    target.broken = lambda path: False
    (report,) = driver.run()
    assert report.error is None and report.lag_rows == report.lag_bytes == 0 and report.rows == 400
    rows = target.rows()
    assert len(rows) == 400
    assert [row["v"] for row in rows if row["id"] == 3] == [f"v{e}" for e in range(200) if e % 7 == 3]
    assert applied(rows) == {row["id"]: row["v"] for batch in db.store.iter("t") for row in batch.to_pylist()}


def test_the_log_goes_once_every_sink_has_delivered_it(tmp_path: Path, target: Target) -> None:
    with Session((tmp_path / "store").as_uri()) as db:
        db.store = Hummock.open(db.url, retention_seconds=0)
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
        create(db)
        driver = SinkDriver(db.store, open_target=lambda url: target, wait_seconds=60)
        target.broken = lambda path: True
        for n in range(20):
            put(db, {n: "x"})
            driver.run()
        db.compact("t")
        assert len(db.store.version.tables["t"].log) == 20  # held for the sink
        target.broken = lambda path: False
        (report,) = driver.run()
        assert report.lag_bytes == 0 and len(target.rows()) == 20
        put(db, {20: "x"})
        driver.run()
        db.compact("t")
        table = db.store.version.tables["t"]
        assert table.log == () and sum(sst.length for entry in table.log for sst in entry.ssts) == 0
        driver.close()


def test_a_sink_that_hangs_delays_no_view_and_no_other_sink(db: Session, clock) -> None:
    stuck, started = threading.Event(), threading.Event()

    class Hanging(Target):
        def put_if_absent(self, path: str, data: bytes) -> bool:
            if path.startswith("slow"):
                started.set()
                assert stuck.wait(60)
            return super().put_if_absent(path, data)

    target = Hanging()
    create(db, FILE_SINK)
    create(db, FILE_SINK.replace("SINK s", "SINK slow"))
    driver = SinkDriver(db.store, open_target=lambda url: target, clock=clock, wait_seconds=0.2)
    put(db, {1: "a"})
    driver.run()
    assert started.wait(60)
    for n in range(2, 6):
        put(db, {n: "b"})
        fast, slow = driver.run()
        assert slow.phase == "delivering" and slow.epoch is None
        if fast.phase == "delivering":  # a loaded machine: what counts is that it goes on beside the other
            driver._running["s"].result()
    stuck.set()
    driver.wait(60)
    driver.run()
    driver.wait(60)
    assert sorted(r["id"] for r in target.rows()) == sorted([*range(1, 6)] * 2)
    driver.close()


def test_a_sink_that_was_slow_and_has_caught_up_is_waited_for_again(db: Session, clock: Clock) -> None:
    free = threading.Event()

    class Slow(Target):
        def put_if_absent(self, path: str, data: bytes) -> bool:
            assert free.wait(60)
            return super().put_if_absent(path, data)

    create(db, FILE_SINK)
    driver = SinkDriver(db.store, open_target=lambda url: target, clock=clock, wait_seconds=0.2)
    target = Slow()
    put(db, {1: "a"})
    assert driver.run()[0].phase == "delivering"
    free.set()
    driver.wait(60)
    free.clear()
    put(db, {2: "b"})
    threading.Timer(0.5, free.set).start()
    (report,) = driver.run(wait_seconds=60)
    assert report.phase == "log" and report.lag_rows == 0
    assert report.rows == 2  # what it had delivered when nobody waited for it any more is reported, too
    assert driver.run()[0].rows == 0
    driver.close()


def test_the_reports_of_a_slow_sink_add_up_to_what_it_has_delivered(
    db: Session, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report in the middle of a delivery of several commits is silent of those that were made; the next one says them all."""
    monkeypatch.setattr(delivery, "RANGES_PER_COMMIT", 1)
    free, reached = threading.Event(), threading.Event()

    class SlowFromTheThirdOn(Target):
        def put_if_absent(self, path: str, data: bytes) -> bool:
            if len(self.rows()) >= 2:
                reached.set()
                assert free.wait(60)
            return super().put_if_absent(path, data)

    target = SlowFromTheThirdOn()
    create(db, FILE_SINK)
    driver = SinkDriver(db.store, open_target=lambda url: target, clock=clock, wait_seconds=0.0)
    put(db, {0: "begin"})
    reports = [driver.run()[0]]
    driver.wait(60)
    for n in range(1, 5):
        put(db, {n: "a"})
    reports.append(driver.run()[0])
    assert reached.wait(60)
    reports.append(driver.run()[0])
    assert (reports[-1].phase, reports[-1].rows) == ("delivering", 0)
    free.set()
    driver.wait(60)
    reports += [driver.run()[0], driver.run()[0]]
    assert sum(report.rows for report in reports) == len(target.rows()) == 5
    assert sum(report.files for report in reports) == 5
    driver.close()


def test_two_processes_deliver_each_change_once_between_them(db: Session, target: Target) -> None:
    create(db)
    other = Hummock.open(db.url)
    drivers = [SinkDriver(s, open_target=lambda url: target, wait_seconds=60) for s in (db.store, other)]
    for n in range(10):
        put(db, {n: "a"})
        threads = [threading.Thread(target=driver.run) for driver in drivers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert all(not driver.collect_errors() for driver in drivers)
    assert sorted(row["id"] for row in target.rows()) == list(range(10))
    for driver in drivers:
        driver.close()


def test_groups_of_vnodes_fail_and_recover_apart(db: Session, driver: SinkDriver, target: Target) -> None:
    create(db, FILE_SINK.replace("'jsonl'", "'jsonl', vnode_groups = 2"))
    target.broken = lambda path: "-v128-255-" in path
    put(db, {n: "a" for n in range(100)})
    (report,) = driver.run()
    first = {row["id"] for row in target.rows()}
    assert report.error and 20 < len(first) < 80 and report.epoch is None
    target.broken = lambda path: False
    put(db, {n: "b" for n in range(100)})
    (report,) = driver.run()
    assert report.error is None and applied(target.rows()) == {n: "b" for n in range(100)}


def test_without_eager_a_failed_sink_is_left_alone_until_its_time(
    db: Session, driver: SinkDriver, target: Target, clock
) -> None:
    create(db)
    target.broken = lambda path: True
    put(db, {1: "a"})
    driver.run(eager=False)
    attempts = target.attempts
    (report,) = driver.run(eager=False)
    assert target.attempts == attempts and report.error
    clock.now = report.retry_at
    driver.run(eager=False)
    assert target.attempts > attempts


def test_past_its_retention_a_sink_lets_go_of_the_log_and_says_what_to_do(
    db: Session, driver: SinkDriver, target: Target, clock
) -> None:
    create(db, FILE_SINK.replace("'jsonl'", "'jsonl', retention = '2 hours'"))
    driver.run()
    target.broken = lambda path: True
    put(db, {1: "a"})
    driver.run()
    assert db.store.version.tables["t"].acks
    clock.now += 2 * 3600 + 60
    (report,) = driver.run()
    assert report.phase == "lapsed" and not db.store.version.tables["t"].acks
    assert "ALTER SINK s RESET" in (report.error or "") and "7200 s" in (report.error or "")
    assert "RESET" in db.sql("SHOW SINKS").to_pylist()[0]["error"]
    target.broken = lambda path: False
    put(db, {2: "b"})
    driver.run()
    assert target.rows() == []
    db.sql("ALTER SINK s RESET")
    (report,) = driver.run()
    assert report.error is None and applied(target.rows()) == {1: "a", 2: "b"}


def test_a_paused_sink_holds_its_place_and_goes_on_where_it_was(
    db: Session, driver: SinkDriver, target: Target
) -> None:
    create(db)
    put(db, {1: "a"})
    driver.run()
    db.sql("ALTER SINK s PAUSE")
    put(db, {1: "b"})
    (report,) = driver.run()
    assert report.phase == "paused" and report.lag_rows == 1 and len(target.rows()) == 1
    db.sql("ALTER SINK s RESUME")
    driver.run()
    assert applied(target.rows()) == {1: "b"}


def test_a_dropped_sink_frees_the_log_and_leaves_nothing_behind(db: Session, driver: SinkDriver) -> None:
    create(db)
    put(db, {1: "a"})
    driver.run()
    assert db.store.version.tables["t"].acks
    db.sql("DROP SINK s")
    table, catalog = db.store.version.tables["t"], db.store.version.catalog
    assert not table.acks and not table.pins
    assert [key for key in catalog if "sink" in key] == [
        NEWEST_START
    ]  # one number, of all sinks there ever were
    assert driver.run() == ()
    db.sql("DROP SINK IF EXISTS s")


def test_a_sink_without_snapshot_begins_with_the_next_change(
    db: Session, driver: SinkDriver, target: Target
) -> None:
    put(db, {1: "a", 2: "b"})
    create(db, FILE_SINK.replace("'jsonl'", "'jsonl', snapshot = false"))
    put(db, {2: "c", 3: "d"})
    delete(db, 1)
    driver.run()
    changes = [(row["_op"], row["id"], row["v"]) for row in target.rows()]
    assert sorted(changes) == [("delete", 1, "a"), ("insert", 3, "d"), ("update", 2, "c")]


def test_a_file_of_somebody_else_under_the_same_name_is_not_taken_for_ones_own(
    db: Session, driver: SinkDriver, target: Target
) -> None:
    create(db)
    put(db, {1: "a"})
    driver.run()
    (path,) = target.objects
    db.sql("ALTER SINK s RESET")
    put(db, {2: "b"})

    def occupied(path: str) -> bool:
        target.put(path, b"theirs")
        return False

    target.broken = occupied
    (report,) = driver.run()
    assert "is there with other rows" in (report.error or "") and target.objects[path] != b"theirs"


class World:
    """A store, a target, and a sink that is delivered by processes that die; the model is what was written."""

    def __init__(self, folder: Path, into: bool) -> None:
        self.memory, self.folder, self.target, self.into = MemoryObjectStore(), folder, Target(), into
        self.rows: dict[int, str] = {}
        store = self.open()
        self.run_sql(store, "CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
        self.run_sql(store, "CREATE TABLE u (id BIGINT PRIMARY KEY, v STRING)")
        self.run_sql(store, "CREATE SINK s FROM t INTO u" if into else FILE_SINK)
        self.writer = store

    def open(self, at: int | None = None, after: bool = False) -> Hummock:
        client = DyingClient(self.memory, at, after)
        return Hummock.open("memory://", cache_dir=self.folder, object_store=client)

    def run_sql(self, store: Hummock, text: str) -> None:
        statement = parse_statement(text, "spark")
        if isinstance(statement, CreateSink):
            execute_create_sink(statement, build_context(store))
        else:
            assert isinstance(statement, CreateTable)
            relations.create_table(statement, build_context(store))

    def write(self, rows: dict[int, str | None]) -> None:
        new = {key: value for key, value in rows.items() if value is not None}
        gone = [key for key, value in rows.items() if value is None]
        if new:
            table = pa.table({"id": pa.array(list(new), pa.int64()), "v": list(new.values())})
            write_rows("t", table, "upsert", build_context(self.writer))
        if gone:
            keys = pa.table({"id": pa.array(gone, pa.int64())})
            write_rows("t", keys, "delete", build_context(self.writer))
        self.rows = {k: v for k, v in {**self.rows, **rows}.items() if v is not None}

    def deliver(self, at: int | None, after: bool, target_at: int | None) -> None:
        """Run a process that dies at its `at`-th call to the store, or at its `target_at`-th file."""
        count = 0

        def broken(path: str) -> bool:
            nonlocal count
            count += 1
            return target_at is not None and count >= target_at

        self.target.broken = broken
        try:
            driver = SinkDriver(self.open(at, after), open_target=lambda url: self.target, wait_seconds=60)
            driver.run()
            driver.close()
        except Crash:
            return

    def check(self) -> None:
        self.deliver(None, False, None)
        if self.into:
            found = {r["id"]: r["v"] for batch in self.open().iter("u") for r in batch.to_pylist()}
            assert found == self.rows
        else:
            assert applied(self.target.rows()) == self.rows


WRITES = hs.dictionaries(hs.integers(0, 5), hs.none() | hs.sampled_from("abc"), min_size=1, max_size=4)
DEATHS = hs.tuples(hs.none() | hs.integers(1, 25), hs.booleans(), hs.none() | hs.integers(1, 4))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=hs.lists(hs.tuples(WRITES, hs.none() | DEATHS), max_size=8), into=hs.booleans())
def test_every_change_is_delivered_once_whatever_dies_at_any_call(tmp_path: Path, steps, into: bool) -> None:
    world = World(tmp_path, into)
    for rows, death in steps:
        world.write(rows)
        if death is not None:
            world.deliver(*death)
    world.check()


def test_rows_and_progress_of_a_table_sink_are_one_manifest(db: Session, driver: SinkDriver) -> None:
    db.sql("CREATE TABLE u (id BIGINT PRIMARY KEY, v STRING)")
    create(db, "CREATE SINK s INTO u FROM t")
    put(db, {1: "a"})
    driver.run()
    put(db, {1: "b", 2: "c"})
    delete(db, 1)
    before = db.store.version.number
    (report,) = driver.run()
    assert db.store.version.number == before + 1 and report.rows == 2
    assert db.sql("SELECT id, v FROM u").to_pylist() == [{"id": 2, "v": "c"}]


def test_a_row_that_does_not_fit_the_table_stops_the_sink_with_its_reason(
    db: Session, driver: SinkDriver
) -> None:
    db.sql("CREATE TABLE u (id BIGINT PRIMARY KEY, v STRING NOT NULL)")
    create(db, "CREATE SINK s INTO u FROM t")
    db.write("t", pa.table({"id": pa.array([1], pa.int64())}))
    (report,) = driver.run()
    assert "column v of u is NOT NULL" in (report.error or "") and report.lag_rows == 1
    put(db, {1: "a"})
    (report,) = driver.run()
    assert report.error is None and db.sql("SELECT v FROM u").to_pylist() == [{"v": "a"}]


def test_a_sink_is_refused_a_commit_after_somebody_else_moved_it(db: Session, target: Target) -> None:
    create(db)
    put(db, {1: "a"})
    driver = SinkDriver(db.store, open_target=lambda url: target, wait_seconds=60)
    driver.run()
    delivery = driver._deliveries["s"]
    reader, stale = delivery.readers[0], db.store.version
    put(db, {2: "b"})
    driver.run()
    table = stale.tables["t"]
    with pytest.raises(Conflict, match="moved on by another process"):
        delivery._acknowledge(reader, stale, table, table.committed_epoch, [DeliveryResult(0)])
    driver.close()


def test_what_a_target_holds_open_ends_with_its_use(
    db: Session, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[int] = []
    monkeypatch.setattr(FileSinkConnector, "close_target", lambda connector, one: closed.append(one.start))
    driver = SinkDriver(db.store, open_target=lambda url: target, wait_seconds=60)
    create(db)
    put(db, {1: "a"})
    driver.run()
    put(db, {2: "a"})
    driver.run()
    assert closed == []
    db.sql("ALTER SINK s RESET")
    driver.run()
    assert len(closed) == 1  # that of the beginning before
    put(db, {3: "a"})
    target.broken = lambda path: True
    driver.run()
    assert len(closed) == 2
    target.broken = lambda path: False
    driver.run()
    db.sql("DROP SINK s")
    driver.run()
    assert len(closed) == 3
    create(db)
    driver.run()
    driver.close()
    assert len(closed) == 4 and closed == sorted(closed)


def test_sinks_of_one_view_share_one_reading_of_its_log(
    db: Session, driver: SinkDriver, target: Target, monkeypatch
) -> None:
    for name in ("s", "other", "third"):
        create(db, FILE_SINK.replace("SINK s", f"SINK {name}"))
    put(db, {0: "a"})
    driver.run()
    reads: list[str] = []
    read = SinkLogStore.read

    def counted(self: SinkLogStore, table: TableVersion, part: LogRange) -> Iterator[Changes]:
        reads.append(self.consumer)
        return read(self, table, part)

    monkeypatch.setattr(SinkLogStore, "read", counted)
    for n in range(1, 11):
        put(db, {n: "b"})
    reports = driver.run()
    assert [report.rows for report in reports] == [10, 10, 10]
    assert len(reads) == 10
    for name in ("s", "other", "third"):
        files = {path: data for path, data in target.objects.items() if path.startswith(f"{name}-")}
        assert len(files) == 11

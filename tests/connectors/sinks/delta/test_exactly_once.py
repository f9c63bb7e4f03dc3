"""Each range of changes counts once in a Delta table, whatever dies between its commit and the acknowledgement."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.connectors.delta.sink.target import DeltaSink
from engine.connectors.sinks.contract import DeliveryResult, SinkBatch
from engine.connectors.sinks.ddl import alter_sink
from engine.connectors.sinks.driver import SinkDriver
from engine.connectors.statements.create_view import execute_create_sink
from engine.hummock import Hummock
from engine.runtime.statements.create import relations
from engine.runtime.statements.drop import drop_relation
from engine.runtime.writes.dml import write_rows
from engine.sql.statements.ddl.sink_statements import AlterSink
from engine.sql.statements.reader import CreateSink, CreateTable, Drop, parse_statement
from tests.connectors.sinks.delta.logs import operations, rows, versions
from tests.contexts import build_context
from tests.log_store.faults import Crash, DyingClient, MemoryObjectStore


class World:
    """A store in memory, a Delta table in a folder, and processes that die; the model is what was written."""

    def __init__(
        self, folder: Path, spark: SparkSession, options: str = "", given: dict[int, str | None] | None = None
    ) -> None:
        self.memory, self.folder, self.spark = MemoryObjectStore(), folder, spark
        self.table = folder / "copy"
        self.rows: dict[int, str] = {}
        self.writer = self.open()
        statement = parse_statement("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)", "spark")
        assert isinstance(statement, CreateTable)
        relations.create_table(statement, build_context(self.writer, lambda: spark))
        if given:
            self.write(given)
        self.create(options)

    def create(self, options: str = "") -> None:
        text = f"CREATE SINK s FROM t WITH (connector = 'delta', path = '{self.table}' {options})"
        statement = parse_statement(text, "spark")
        assert isinstance(statement, CreateSink)
        execute_create_sink(statement, build_context(self.writer, lambda: self.spark))

    def open(self, at: int | None = None, after: bool = False) -> Hummock:
        client = DyingClient(self.memory, at, after)
        return Hummock.open("memory://", cache_dir=self.folder / "cache", object_store=client)

    def write(self, changes: dict[int, str | None]) -> None:
        new = {key: value for key, value in changes.items() if value is not None}
        gone = [key for key, value in changes.items() if value is None]
        if new:
            table = pa.table({"id": pa.array(list(new), pa.int64()), "v": list(new.values())})
            write_rows("t", table, "upsert", build_context(self.writer, lambda: self.spark))
        if gone:
            keys = pa.table({"id": pa.array(gone, pa.int64())})
            write_rows("t", keys, "delete", build_context(self.writer, lambda: self.spark))
        self.rows = {k: v for k, v in {**self.rows, **changes}.items() if v is not None}

    def deliver(self, at: int | None = None, after: bool = False) -> None:
        """Run a process that dies at its `at`-th call to the store."""
        driver: SinkDriver | None = None
        try:
            driver = SinkDriver(self.open(at, after), lambda: self.spark, wait_seconds=120)
            for report in driver.run():
                assert at is not None or report.error is None, report.error
        except Crash:
            pass
        finally:
            if driver is not None:
                driver.close()

    def check(self) -> None:
        self.deliver()
        assert rows(self.table) == Counter((repr(k), repr(v)) for k, v in self.rows.items())
        found = versions(self.table)
        assert found == sorted(set(found)), "a transaction occurs twice in the log, or out of order"


@pytest.fixture
def world(tmp_path: Path, spark: SparkSession) -> Iterator[World]:
    yield World(tmp_path, spark, given={1: "a", 2: "b", 3: "c"})


@pytest.mark.long
def test_the_first_rows_are_one_write_and_changes_are_merged(world: World) -> None:
    world.check()
    world.write({1: "x", 2: None, 4: "d"})
    world.write({4: None, 5: "e"})
    world.check()
    assert operations(world.table) == ["CREATE OR REPLACE TABLE AS SELECT", "MERGE"]
    assert len(versions(world.table)) == 2


def test_nothing_is_committed_where_nothing_has_changed(world: World) -> None:
    world.check()
    world.write({4: "b"})
    world.write({4: None})
    world.check()
    world.write({1: "a"})
    world.check()
    assert operations(world.table) == ["CREATE OR REPLACE TABLE AS SELECT"]


@pytest.mark.parametrize(
    ("at", "after"),
    [pytest.param(at, at % 2 == 0, marks=() if at == 9 else pytest.mark.long) for at in range(6, 14)],
)
def test_a_process_may_die_at_any_call_to_the_store(world: World, at: int, after: bool) -> None:
    world.deliver(at, after)
    world.write({1: None, 3: "d"})
    world.write({3: None, 4: "d"})
    world.deliver(at, after)
    world.write({4: None, 2: "y"})
    world.check()


@pytest.mark.long
def test_a_row_that_came_and_went_around_a_crash_does_not_stay(world: World) -> None:
    """The range that was delivered is repeated as it was: with what came since, the row would be no change of it."""
    world.check()
    world.write({4: "b"})
    died = 0
    for at in range(1, 30):
        before = len(versions(world.table))
        world.deliver(at)
        if len(versions(world.table)) > before:
            died = at
            break
    assert died, "no process died behind the commit of the table"
    world.write({4: None})
    world.check()
    assert (repr(4), repr("b")) not in rows(world.table)


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2, 3)])
def test_random_changes_and_deaths_leave_the_rows_and_each_version_once(
    tmp_path: Path, spark: SparkSession, seed: int
) -> None:
    chance = random.Random(seed)
    world = World(tmp_path, spark, chance.choice(["", ", partition_by = 'v'", ", cluster_by = 'id'"]))
    for _ in range(6):
        for _ in range(chance.randint(0, 3)):
            world.write({chance.randint(0, 6): chance.choice(["a", "b", None]) for _ in range(3)})
        world.deliver(chance.choice([None, *range(1, 25)]), chance.random() < 0.5)
    world.check()


@pytest.mark.long
def test_a_range_of_an_old_beginning_that_comes_late_writes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that slept through a RESET, and through DROP and CREATE of the sink, has old rows to bring."""
    world.check()
    world.write({1: "old"})
    late: list[tuple[DeltaSink, SinkBatch]] = []
    take = DeltaSink.take

    def asleep(sink: DeltaSink, portion: SinkBatch) -> DeliveryResult:
        late.append((sink, portion))
        raise Crash("asleep")

    monkeypatch.setattr(DeltaSink, "take", asleep)
    world.deliver(at=10_000)
    monkeypatch.setattr(DeltaSink, "take", take)
    assert len(late) == 1
    world.write({1: "new"})
    alter_sink(world.writer, AlterSink("s", "reset", ""))
    world.deliver()
    drop_relation(world.writer, Drop("sink", "s", True, False, ""))
    world.create()
    world.write({2: None})
    world.check()
    before = operations(world.table)
    sink, portion = late[0]
    assert sink.take(portion).rows == 0 and operations(world.table) == before
    world.check()


@pytest.mark.long
def test_several_that_deliver_at_once_bring_each_range_once(world: World) -> None:
    drivers = [SinkDriver(world.open(), lambda: world.spark, wait_seconds=120) for _ in range(3)]
    for n in range(2):
        world.write({n: f"v{n}", 10 + n: "more"})
        threads = [threading.Thread(target=driver.run) for driver in drivers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [driver.collect_errors() for driver in drivers] == [{}, {}, {}]
    for driver in drivers:
        driver.close()
    world.check()

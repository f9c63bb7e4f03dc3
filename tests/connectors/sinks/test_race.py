"""Two processes deliver the same sinks while others reset, pause, drop and create them: what arrives is right all the same."""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from engine.connectors.sinks.ddl import alter_sink
from engine.connectors.sinks.driver import SinkDriver
from engine.connectors.statements.create_view import execute_create_sink
from engine.errors import Conflict, SqlError
from engine.hummock import Hummock
from engine.meta.catalog.stored_catalog import load_catalog
from engine.meta.status.sinks import list_sinks, read_sink_state
from engine.runtime.statements.create import relations
from engine.runtime.statements.drop import drop_relation
from engine.runtime.writes.dml import write_rows
from engine.sql.statements import reader as st
from tests.connectors.sinks.conftest import Target
from tests.contexts import build_context
from tests.crash.delivered import replayed
from tests.log_store.faults import MemoryObjectStore
from tests.long_rest import mark_rest_long

SEEDS = int(os.environ.get("TIDELINE_SINK_SEEDS", "100"))
STEPS = 25
NAMES = ("s0", "s1", "s2")


class Race:
    """One seed: who delivers, who writes, and who says something about the sinks are threads with stores of their own."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed, self.folder, self.memory = seed, folder, MemoryObjectStore()
        self.targets = {name: Target() for name in NAMES}
        self.failures: list[BaseException] = []
        self.writing = threading.Event()
        store = self.open()
        relations.create_table(
            st.parse_statement("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)", "spark"),
            build_context(store),
        )  # type: ignore[arg-type]
        self.store = store

    def open(self) -> Hummock:
        return Hummock.open("memory://race", cache_dir=self.folder, object_store=self.memory)

    def run(self) -> None:
        roles = [self.deliver, self.deliver, self.say, self.say, self.write]
        threads = [threading.Thread(target=self._guarded, args=(role, n)) for n, role in enumerate(roles)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.failures:
            raise self.failures[0]
        self.settle()

    def _guarded(self, role: Callable[[random.Random, Hummock], None], number: int) -> None:
        try:
            role(random.Random(f"{self.seed}/{number}"), self.open())
        except BaseException as error:
            self.failures.append(error)

    def write(self, chance: random.Random, store: Hummock) -> None:
        try:
            for n in range(STEPS):
                ids = chance.sample(range(20), chance.choice((1, 3, 8)))
                keys = pa.array(ids, pa.int64())
                if chance.random() < 0.3:
                    write_rows("t", pa.table({"id": keys}), "delete", build_context(store))
                else:
                    rows = pa.table({"id": keys, "v": [f"{n}"] * len(ids)})
                    write_rows("t", rows, "upsert", build_context(store))
        finally:
            self.writing.set()

    def deliver(self, chance: random.Random, store: Hummock) -> None:
        driver = self.driver(store)
        while not self.writing.is_set():
            for report in driver.run(eager=chance.random() < 0.8):
                assert report.error is None or "at the same time" in report.error, report.error
        driver.close()

    def driver(self, store: Hummock) -> SinkDriver:
        return SinkDriver(
            store, open_target=lambda url: self.targets[url.rpartition("/")[2]], wait_seconds=60
        )

    def say(self, chance: random.Random, store: Hummock) -> None:
        while not self.writing.is_set():
            name, word = (
                chance.choice(NAMES),
                chance.choice(("RESET", "RESET", "PAUSE", "RESUME", "DROP", "CREATE")),
            )
            try:
                if word == "DROP":
                    drop_relation(store, st.Drop("sink", name, True, False, ""))
                elif word == "CREATE":
                    text = (
                        f"CREATE SINK IF NOT EXISTS {name} FROM t WITH (connector = 'file', url = 's3://sinks/{name}', "
                        f"format = 'jsonl', vnode_groups = {chance.choice((1, 2))})"
                    )
                    execute_create_sink(st.parse_statement(text, "spark"), build_context(store))  # type: ignore[arg-type]
                else:
                    alter_sink(store, st.parse_statement(f"ALTER SINK {name} {word}", "spark"))  # type: ignore[arg-type]
            except (Conflict, SqlError) as error:
                assert "at the same time" in str(error) or "there is no sink" in str(error), error

    def settle(self) -> None:
        """Whoever is paused goes on, and then the newest beginning of each sink adds up to the table."""
        for relation in list_sinks(load_catalog(self.store.refresh())):
            if read_sink_state(self.store.version, relation.name).paused:
                alter_sink(self.store, st.parse_statement(f"ALTER SINK {relation.name} RESUME", "spark"))  # type: ignore[arg-type]
        driver = self.driver(self.store)
        reports = driver.run()
        assert [report.error for report in reports] == [None] * len(reports)
        assert not any(report.lag_rows or report.phase != "log" for report in reports)
        driver.close()
        rows = Counter((r["id"], r["v"]) for batch in self.store.iter("t") for r in batch.to_pylist())
        there = {relation.name for relation in list_sinks(load_catalog(self.store.refresh()))}
        for name, target in self.targets.items():
            found = replayed(name, target.objects, ("id",))
            assert name not in there or found == rows, f"seed {self.seed}: {name}"
        table = self.store.version.tables["t"]
        assert {name.split("/")[1] for name in (*table.acks, *table.pins)} == there


@pytest.mark.parametrize("seed", mark_rest_long(range(3)))
def test_whatever_is_said_about_sinks_by_others_each_beginning_is_delivered_right(
    seed: int, tmp_path: Path
) -> None:
    Race(seed, tmp_path).run()


@pytest.mark.crash
def test_many_races_about_sinks(tmp_path: Path) -> None:
    for seed in range(SEEDS):
        Race(seed, tmp_path / str(seed)).run()

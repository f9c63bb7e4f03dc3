"""From Delta tables through views into Delta tables, by a process that is killed: the targets are as a batch run over the sources."""

from __future__ import annotations

import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable as RustTable
from pyspark.sql import SparkSession

from engine.session import Session
from tests.connectors.delta_follower import versions_of
from tests.connectors.delta_tables import FEED, DeltaTable, SparkDeltaTable, follow, held
from tests.connectors.sinks.delta.logs import operations, versions
from tests.connectors.test_delta_random import Commits, by_batch

COLUMNS = "id BIGINT, k BIGINT, v STRING, n BIGINT"
QUERIES = {
    "joined": "SELECT a.id AS id, b.id AS other, a.v AS v, b.v AS w, b.n AS n FROM fed a JOIN plain b ON a.k = b.id",
    "summed": "SELECT k, count(*) AS c, sum(n) AS s, max(v) AS m FROM fed GROUP BY k",
}
EACH, SECONDS = 10, 240.0
UNEXPECTED = "a poll or a delivery failed by something else than a RESTORE"


class Follower:
    """A process that follows, and what it says."""

    def __init__(self, url: str, folders: tuple[str, ...]) -> None:
        self._folders = folders
        command = [sys.executable, "-W", "ignore", "-m", "tests.connectors.delta_follower", url, *folders]
        self._child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
        )
        self._said: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()
        try:
            self.await_line("ready")
        except BaseException:
            self.kill()
            raise

    def _listen(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            self._said.put(line.strip())
        self._said.put("ended")

    def await_line(self, line: str) -> None:
        """Return once it says a line."""
        deadline = time.monotonic() + SECONDS
        while (said := self._said.get(timeout=max(deadline - time.monotonic(), 0))) != line:
            assert said != "ended" and not said.startswith("error"), (UNEXPECTED, said)

    def catch_up(self) -> None:
        """Return once it has brought all that there is."""
        self.await_line(f"idle {versions_of(self._folders)}")

    def kill(self, after: float = 0.0) -> None:
        """End it, with its Java, after so many seconds."""
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(after)
        with suppress(ProcessLookupError):  # it has ended by itself, or was killed
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()


@contextmanager
def following(url: str, folders: tuple[str, ...]) -> Iterator[list[Follower]]:
    """Let a process follow; the last of the list works, and ends with the block."""
    running = [Follower(url, folders)]
    try:
        yield running
    finally:
        running[-1].kill()


def read_by_rust(folder: Path) -> list[tuple[Any, ...]]:
    rows = RustTable(str(folder)).to_pyarrow_table().to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=repr)


def make(session: Session, tables: dict[str, DeltaTable], out: Path) -> None:
    """Make tables that follow, a view with a Delta table of its own, and a view with a sink."""
    for name, there in tables.items():
        follow(session, there, "id BIGINT PRIMARY KEY, k BIGINT, v STRING, n BIGINT", name)
    session.sql(
        f"CREATE MATERIALIZED VIEW joined WITH (connector = 'delta', path = '{out / 'joined'}') "
        f"AS {QUERIES['joined']}",
        build=False,
    )
    session.sql(f"CREATE MATERIALIZED VIEW summed AS {QUERIES['summed']}", build=False)
    session.sql(
        f"CREATE SINK s FROM summed WITH (connector = 'delta', path = '{out / 'summed'}')", build=False
    )


@pytest.mark.parametrize(
    ("kind", "seed", "commits", "kills"),
    [
        pytest.param(DeltaTable, 0, 10, 1, id="short", marks=pytest.mark.long),
        *(
            pytest.param(SparkDeltaTable, n, 100, 5, id=f"long-{n}", marks=pytest.mark.oracle)
            for n in (20, 21)
        ),
    ],
)
@pytest.mark.timeout(1800)
def test_delta_tables_follow_delta_tables_by_a_process_that_is_killed(
    session: Session,
    spark: SparkSession,
    tmp_path: Path,
    kind: type[DeltaTable],
    seed: int,
    commits: int,
    kills: int,
) -> None:
    chance, out = random.Random(seed), tmp_path / "out"
    tables = {
        name: kind(spark, tmp_path / name).make(COLUMNS, properties=said)
        for name, said in (("fed", FEED), ("plain", ""))
    }
    writers = {name: Commits(there, chance) for name, there in tables.items()}
    for writer in writers.values():
        writer.append()
    make(session, tables, out)
    killed = set(chance.sample(range(commits), kills))
    done: list[tuple[str, str]] = []
    folders = tuple(str(there.path) for there in tables.values())
    with following(session.url, folders) as running:
        for number in range(commits):
            name = chance.choice(list(tables))
            done.append((name, writers[name].commit()))
            if number in killed:
                running[-1].kill(after=chance.uniform(0, 3))
                running.append(Follower(session.url, folders))
            if number % EACH == EACH - 1:
                running[-1].catch_up()
                session.store.refresh()
                for view, query in QUERIES.items():
                    expected = by_batch(tables, query)
                    assert held(session, view) == expected, (view, done)
                    assert read_by_rust(out / view) == expected, (view, done)
                    assert SparkDeltaTable(spark, out / view).rows() == expected, (view, done)
    for view in QUERIES:
        found = versions(out / view)
        assert found == sorted(set(found)), f"a transaction of {view} occurs twice, or out of order"
        assert operations(out / view)[0] == "CREATE OR REPLACE TABLE AS SELECT"

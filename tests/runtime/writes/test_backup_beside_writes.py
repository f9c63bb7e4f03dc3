"""A store is backed up while rows come in and its views follow: what each backup restores is whole and of one moment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from engine.hummock.backups.back_up import back_up
from engine.hummock.backups.backup_place import open_place
from engine.hummock.backups.restore import open_target, restore_backup
from engine.session import Session

GROUPS, RATE, PERIOD = 500, 1_000, 0.1
QUERY = "SELECT g, sum(n) AS total, max(n) AS most, count(*) AS c FROM t GROUP BY g"
JOINED = "SELECT t.id, t.n, d.name FROM t JOIN d ON d.g = t.g WHERE t.n >= 90"


@contextmanager
def repeat(work: Callable[[], None], period: float) -> Iterator[None]:
    """Do some work again and again in a thread meanwhile; what it raises is raised at the end."""
    ended = threading.Event()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            while not ended.wait(period):
                work()
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    for failure in failures:
        raise failure


class Writer:
    """Adds a thousand rows a second, and changes as many rows of those that are there."""

    def __init__(self, session: Session, rows: int) -> None:
        self._session, self._next, self._random = session, rows, np.random.default_rng(1)
        self._written = threading.Semaphore(0)

    def write(self) -> None:
        """Write what comes in one period."""
        count = int(RATE * PERIOD)
        ids = np.concatenate(
            [np.arange(self._next, self._next + count), self._random.choice(self._next, count, replace=False)]
        )
        self._next += count
        groups, values = (self._random.integers(0, below, len(ids)) for below in (GROUPS, 100))
        self._session.write("t", pa.table({"id": ids, "g": groups, "n": values}))
        self._written.release()

    def wait(self, writes: int) -> None:
        """Wait until so many more have come in."""
        for _ in range(writes):
            assert self._written.acquire(timeout=60)


def check_restored(url: str) -> int:
    """Check each table of a store against its fingerprint, and its views against DuckDB; returns the rows of the first table."""
    with Session(url) as session:
        tables = session.store.refresh().tables
        checks = [
            session.store.verify_fingerprint(name) for name, t in tables.items() if t.table.has_fingerprint
        ]
        assert {check.table for check in checks} >= {"t", "d", "v", "joined"}
        assert all(check.expected == check.found for check in checks)
        epoch = session.common_epoch("v", "joined")
        read = {
            name: session.sql(f"SELECT * FROM {name} FOR SYSTEM_TIME AS OF {epoch}")
            for name in ("t", "d", "v", "joined")
        }
    with duckdb.connect() as batch:
        for name in ("t", "d"):
            batch.register(name, read[name])
        for name, query in {"v": QUERY, "joined": JOINED}.items():
            expected = batch.sql(query).fetchall()
            found = read[name].select(batch.sql(query).columns)
            assert sorted(zip(*(column.to_pylist() for column in found.columns), strict=True)) == sorted(
                expected
            )
    return len(read["t"])


@pytest.mark.long
def test_each_backup_of_a_store_that_is_written_restores_one_moment(session: Session, tmp_path: Path) -> None:
    rows, rng = 50_000, np.random.default_rng(0)
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g BIGINT, n BIGINT)")
    session.sql("CREATE TABLE d (g BIGINT PRIMARY KEY, name STRING)")
    session.write("d", pa.table({"g": np.arange(GROUPS), "name": [f"group {g}" for g in range(GROUPS)]}))
    columns = {"id": np.arange(rows), "g": rng.integers(0, GROUPS, rows), "n": rng.integers(0, 100, rows)}
    session.write("t", pa.table(columns))
    session.sql(f"CREATE MATERIALIZED VIEW v AS {QUERY}")
    session.sql(f"CREATE MATERIALIZED VIEW joined AS {JOINED}")
    session.flush().raise_for_errors()
    place = open_place((tmp_path / "backups").as_uri(), create=True)
    with Session(session.store.url) as writing:
        writer = Writer(writing, rows)
        with repeat(writer.write, PERIOD), repeat(lambda: session.flush().raise_for_errors(), 0.02):
            numbers = []
            for compacts in (False, False, False, True, False, True):
                writer.wait(5)
                if compacts:
                    session.store.compact("t")
                numbers.append(back_up(session.store, place).summary.number)
    found = []
    for number in numbers:
        restored = restore_backup(place, open_target((tmp_path / f"restored{number}").as_uri()), number)
        found.append(check_restored(restored.url))
    assert found == sorted(found) and rows <= found[0] < found[-1]

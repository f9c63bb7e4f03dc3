"""Sinks over a store and a target in memory; no Spark: views are tables that tests write."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.connectors.sinks.driver import SinkDriver
from engine.hummock.object_store import open_object_store
from engine.session import Session
from tests.log_store.faults import MemoryObjectStore


class Target(MemoryObjectStore):
    """Where the files of sinks go; `broken` makes every write fail, or those of the names that it is true for."""

    def __init__(self) -> None:
        super().__init__()
        self.broken: Callable[[str], bool] = lambda path: False
        self.attempts = 0

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self.attempts += 1
        if self.broken(path):
            raise OSError("no route to host")
        return super().put_if_absent(path, data)

    def rows(self) -> list[dict]:
        """All rows in the order of the files' names."""
        found: list[dict] = []
        for path in sorted(self.objects):
            if path.endswith(".parquet"):
                found += pq.read_table(io.BytesIO(self.objects[path])).to_pylist()
            else:
                found += [json.loads(line) for line in self.objects[path].splitlines()]
        return found


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="session", autouse=True)
def bucket(s3_server: str) -> None:
    """The bucket of the addresses of sinks: CREATE SINK looks whether it is there."""
    open_object_store("s3://sinks")


@pytest.fixture
def target() -> Target:
    return Target()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Session]:
    """A session that never needs Spark, with the table t (id, v)."""
    with Session((tmp_path / "store").as_uri()) as session:
        session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
        yield session


@pytest.fixture
def driver(db: Session, target: Target, clock: Clock) -> Iterator[SinkDriver]:
    made = SinkDriver(db.store, open_target=lambda url: target, clock=clock, wait_seconds=60)
    yield made
    made.close()


def put(session: Session, rows: dict[int, str]) -> None:
    session.write("t", pa.table({"id": pa.array(list(rows), pa.int64()), "v": list(rows.values())}))


def delete(session: Session, *ids: int) -> None:
    session.write("t", pa.table({"id": pa.array(ids, pa.int64())}), mode="delete")


def applied(changes: list[dict]) -> dict[int, str]:
    """What a reader of upsert files ends up with; each change must fit what came before it."""
    state: dict[int, str] = {}
    for change in changes:
        key = change["id"]
        assert (key in state) == (change["_op"] != "insert"), change
        if change["_op"] == "delete":
            assert state.pop(key) == change["v"]
        else:
            state[key] = change["v"]
    return state

"""Stores in temporary folders, with a clock that tests move themselves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from engine.hummock import Hummock, Table
from engine.hummock.clock import Clock
from tests.hummock.dated import DatedObjectStore

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])


class MovableClock(Clock):
    """Wall clock time plus what a test has added to it."""

    def __init__(self) -> None:
        self.added = 0.0

    def __call__(self) -> float:
        return time.time() + self.added


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture
def open_store(tmp_path: Path, clock: MovableClock) -> Callable[..., Hummock]:
    """Opens the test's store; each call is a new handle, as another process would have it."""

    def opened(**options: object) -> Hummock:
        folder = tmp_path / "store"
        given = {
            "cache_dir": tmp_path / "cache",
            "clock": clock,
            "object_store": DatedObjectStore(folder, clock),
        }
        return Hummock.open(folder.as_uri(), **{**given, **options})  # type: ignore[arg-type]

    return opened


@pytest.fixture
def store(open_store: Callable[..., Hummock]) -> Iterator[Hummock]:
    with open_store() as opened:
        yield opened


@pytest.fixture(params=["distributed", "ordered"])
def table(store: Hummock, request: pytest.FixtureRequest) -> Table:
    """A table of (id, v) with and without a distribution key."""
    return store.create_table("t", SCHEMA, ["id"], ["id"] if request.param == "distributed" else None)


def rows(values: dict[int, str | None]) -> pa.Table:
    """Rows of the test table."""
    return pa.table({"id": list(values), "v": list(values.values())}, schema=SCHEMA)


def keys(*ids: int) -> pa.Table:
    """Keys of the test table."""
    return pa.table({"id": pa.array(ids, pa.int64())})


def content(store: Hummock, table: Table | str = "t", epoch: int | None = None) -> dict[int, str]:
    """The table as a dict."""
    return {row["id"]: row["v"] for batch in store.iter(table, epoch=epoch) for row in batch.to_pylist()}


def log(store: Hummock, after: int, upto: int | None = None, table: str = "t") -> dict[int, tuple]:
    """The change log as id -> (op, new, old)."""
    found = {}
    for batch in store.iter_log(table, after, upto):
        for row in batch.to_pylist():
            assert row["id"] not in found
            assert row["_old_id"] in (None, row["id"])
            found[row["id"]] = (row["_op"], row["v"], row["_old_v"])
    return found

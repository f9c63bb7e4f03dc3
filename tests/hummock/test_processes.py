"""Several processes on one store, some of them killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

import pyarrow as pa
import pytest

from engine.hummock import Hummock, Put
from tests.hummock.conftest import SCHEMA, content

CONTEXT = multiprocessing.get_context("spawn")


def open_at(folder: str) -> Hummock:
    return Hummock.open(Path(folder, "store").as_uri(), cache_dir=Path(folder, "cache"))


def race(folder: str, part: int, commits: int) -> None:
    store = open_at(folder)
    for step in range(commits):
        ids = [part * 1000 + step * 2, part * 1000 + step * 2 + 1]
        store.ingest_batch({"t": [Put(pa.table({"id": ids, "v": [str(part)] * 2}))]})


def write_for_ever(folder: str, ready) -> None:
    store = open_at(folder)
    step = 0
    while True:
        ids = list(range(step * 10, step * 10 + 10))
        with store.epoch() as batch:
            batch.put("t", pa.table({"id": ids, "v": ["x"] * 10}))
            batch.put("u", pa.table({"id": ids, "v": ["x"] * 10}))
        step += 1
        if step == 5:
            ready.set()


@pytest.mark.parametrize(
    ("processes", "commits"),
    [pytest.param(2, 15, id="short"), pytest.param(16, 50, marks=pytest.mark.crash, id="long")],
)
def test_commits_of_racing_processes_are_all_there(tmp_path: Path, processes: int, commits: int) -> None:
    store = open_at(str(tmp_path))
    store.create_table("t", SCHEMA, ["id"], ["id"])
    racers = [CONTEXT.Process(target=race, args=(str(tmp_path), part, commits)) for part in range(processes)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
        assert racer.exitcode == 0
    store.refresh()
    assert len(content(store)) == processes * commits * 2
    assert store._chain.list_numbers() == list(range(1, store.version.number + 1))


def test_a_killed_writer_leaves_whole_epochs_only(tmp_path: Path) -> None:
    store = open_at(str(tmp_path))
    for name in ("t", "u"):
        store.create_table(name, SCHEMA, ["id"], ["id"])
    ready = CONTEXT.Event()
    for _ in range(2):
        ready.clear()
        writer = CONTEXT.Process(target=write_for_ever, args=(str(tmp_path), ready))
        writer.start()
        assert ready.wait(60)
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
        opened = open_at(str(tmp_path))
        found = content(opened)
        assert found == content(opened, "u")
        assert len(found) >= 50
        assert len(found) % 10 == 0
        opened.ingest_batch(
            {
                "t": [Put(pa.table({"id": [1], "v": ["after"]}))],
                "u": [Put(pa.table({"id": [1], "v": ["after"]}))],
            }
        )

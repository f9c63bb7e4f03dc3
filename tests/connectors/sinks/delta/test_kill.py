"""Processes that deliver to Delta tables are killed (SIGKILL) right behind a commit of a table, or work at the same time."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.session import Session
from tests.connectors.sinks.delta.logs import rows, versions
from tests.connectors.sinks.delta.stream import expected

SECONDS = 180.0


def started(store: str, folder: Path, who: int, batches: int) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "tests.connectors.sinks.delta.stream",
        store,
        str(folder),
        str(who),
        str(batches),
    ]
    return subprocess.Popen([*command, "local[2]"], stdout=subprocess.PIPE, text=True, start_new_session=True)


def commits(folder: Path) -> int:
    return len(list(folder.glob("*/_delta_log/*.json")))


def ended(child: subprocess.Popen[str], seconds: float) -> bool:
    """Tell whether a process ends within some seconds."""
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def killed_behind_a_commit(
    child: subprocess.Popen[str], folder: Path, more: int, seconds: float, java: bool
) -> bool:
    """Kill a process, with its Java or without, `seconds` after it has committed `more` times; False if it ended by itself."""
    before, deadline = commits(folder), time.monotonic() + SECONDS
    while commits(folder) < before + more and not ended(child, 0.001) and time.monotonic() < deadline:
        pass
    if ended(child, seconds):
        return False
    (os.killpg if java else os.kill)(child.pid, 9)
    child.wait()
    return True


def check(store: str, folder: Path, spark: SparkSession, writers: int, batches: int) -> None:
    with Session(store, spark) as session:
        session.flush(sink_seconds=120)
        left = expected(writers, batches)
        assert rows(folder / "t") == Counter((repr(k), repr(v)) for k, v in left.items())
        values = Counter(left.values())
        assert rows(folder / "by_value") == Counter((repr(v), repr(n)) for v, n in values.items())
    for name in ("t", "by_value"):
        found = versions(folder / name)
        assert found == sorted(set(found)), (
            f"a transaction of {name} occurs twice in the log, or out of order"
        )


@pytest.mark.parametrize(
    ("kills", "batches"),
    [
        pytest.param(2, 6, id="short", marks=pytest.mark.long),
        pytest.param(12, 40, marks=pytest.mark.crash, id="long"),
    ],
)
def test_a_process_killed_right_behind_a_commit_applies_nothing_twice(
    tmp_path: Path, spark: SparkSession, kills: int, batches: int
) -> None:
    store, chance = (tmp_path / "store").as_uri(), random.Random(kills)
    done = 0
    for n in range(kills):
        child = started(store, tmp_path, 0, batches)
        done += killed_behind_a_commit(
            child, tmp_path, chance.randint(1, 3), chance.uniform(0, 0.05), n % 2 == 0
        )
    child = started(store, tmp_path, 0, batches)
    assert child.communicate(timeout=600)[0].endswith("done\n")
    assert done >= kills // 2
    check(store, tmp_path, spark, 1, batches)


@pytest.mark.crash
def test_two_processes_that_deliver_at_once_apply_each_range_once(
    tmp_path: Path, spark: SparkSession
) -> None:
    store = (tmp_path / "store").as_uri()
    children = [started(store, tmp_path, who, 10) for who in (0, 1)]
    try:
        assert all(child.communicate(timeout=900)[0].endswith("done\n") for child in children)
    finally:
        for child in children:
            if child.poll() is None:
                os.killpg(child.pid, 9)
    check(store, tmp_path, spark, 2, 10)

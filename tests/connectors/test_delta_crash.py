"""A process that dies at any request, or at a commit, has taken each version once or not at all."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.connectors.delta import DeltaSource
from engine.hummock import Hummock
from engine.hummock.clock import system_clock
from engine.hummock.object_store.faulty import Crashed, FaultPlan, FaultyObjectStore
from engine.hummock.object_store.local import LocalObjectStore
from engine.meta.catalog_store import load
from engine.session import Session
from tests.connectors.delta_tables import DeltaTable, follow, held, poll


def test_a_poll_that_dies_at_any_request_is_repeated_exactly(
    session: Session, spark: SparkSession, tmp_path: Path
) -> None:
    there = DeltaTable(spark, tmp_path / "delta").make()
    there.insert("SELECT id, 'a' FROM range(50)")
    follow(session, there)
    root = tmp_path / "store"
    died = taken = 0
    for at in range(1, 40):
        there.sql(f"UPDATE {{}} SET v = 'at {at}' WHERE id % 7 = {at % 7}")
        objects = FaultyObjectStore(LocalObjectStore(root), FaultPlan(at, 0.0, crash_at=at), system_clock)
        before = len(session.store.refresh().tables["t"].log)
        try:
            with Hummock.open(root.as_uri(), object_store=objects) as store:
                relation = load(store.refresh()).catalog.get("t")
                DeltaSource(store, relation).poll(lambda: spark)
        except Crashed:
            died += 1
        poll(session)
        assert held(session) == there.rows(), at
        assert len(session.store.refresh().tables["t"].log) == before + 1
        taken += objects.requests < at
        if taken:  # a poll asks no more
            break
    assert died > 5 and taken


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_follower_that_is_killed_at_a_commit_goes_on_exactly(
    session: Session, spark: SparkSession, tmp_path: Path, moment: str
) -> None:
    there = DeltaTable(spark, tmp_path / "delta").make()
    there.insert("SELECT id, 'a' FROM range(2000)")
    follow(session, there)
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "tests.connectors.delta_follower",
        (tmp_path / "store").as_uri(),
        "t",
    ]
    killed = subprocess.run([*command, moment, "1"], capture_output=True, text=True, timeout=300, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert len(held(session)) == (0 if moment == "before" else 2000)
    poll(session)
    for n in range(4):
        there.sql(f"UPDATE {{}} SET v = 'b{n}' WHERE id % 10 = {n}")
    there.sql("DELETE FROM {} WHERE id % 10 = 1")
    killed = subprocess.run([*command, moment, "3"], capture_output=True, text=True, timeout=300, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    epochs = len(session.store.refresh().tables["t"].log)
    session.flush()
    poll(session)
    assert held(session) == there.rows()
    assert len(session.store.refresh().tables["t"].log) == epochs + 1

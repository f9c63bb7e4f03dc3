"""Processes that poll sources and build views over them are killed (SIGKILL) at random moments: the views hold what they should."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.session import Session
from tests.connectors.passing import VIEWS, check_views, kept, poll
from tests.connectors.test_delta_passing import World

KILLS = 5
pytestmark = pytest.mark.conformance
SOME = {
    name: VIEWS[name]
    for name in ("filtered", "grouped", "medians", "with_table", "two_sources", "first_rows")
}


def killed_after(url: str, seconds: float) -> None:
    """Let a process work for some seconds, and kill it with its Java."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.connectors.conformance.passing_process", url]
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )
    try:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        time.sleep(seconds)
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


def test_views_over_sources_after_kills_at_random_moments(
    session: Session, spark: SparkSession, tmp_path: Path
) -> None:
    chance, world = random.Random(7), World(session, spark, tmp_path)
    world.begin()
    names = list(SOME)
    for kill in range(KILLS):
        for name in names[kill::KILLS]:
            session.sql(f"CREATE MATERIALIZED VIEW {name} WITH (background = 'true') AS {SOME[name]}")
        world.change(kill)
        killed_after(session.url, chance.uniform(0.3, 6.0))
    session.store.refresh()
    poll(session)
    check_views(session, world.there(), SOME)
    session.store.gc(grace_seconds=0)
    assert [kept(session, name) for name in ("s", "u")] == [(0, 0), (0, 0)]

"""Processes that poll sources and build views over them are killed (SIGKILL) at random moments: the views hold what they should."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.session import Session
from tests.connectors.conformance.test_kill import process
from tests.connectors.delta.test_pass_through import World
from tests.connectors.passing import VIEWS, check_views, kept, poll

KILLS = 5
pytestmark = pytest.mark.conformance
SOME = {
    name: VIEWS[name]
    for name in ("filtered", "grouped", "medians", "with_table", "two_sources", "first_rows")
}


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
        with (
            process(session.url, "poll", spark=True) as child,
            pytest.raises(subprocess.TimeoutExpired),  # it works until it is killed
        ):
            child.wait(chance.uniform(0.3, 6.0))
    session.store.refresh()
    poll(session)
    for name in names:  # how far the processes have come with its steps is a matter of luck
        session.sql(f"WAIT FOR {name}")
    check_views(session, world.there(), SOME)
    session.store.gc(grace_seconds=0)
    assert [kept(session, name) for name in ("s", "u")] == [(0, 0), (0, 0)]

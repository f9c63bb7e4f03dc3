"""A stream of epochs that is killed (SIGKILL) again and again ends with no row lost, doubled or wrong."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from engine.session import Session
from tests.crash.stream import ROWS, VIEWS, bids
from tests.oracle.batch import assert_equal, by_duckdb, content


def run_until_killed(store: str, epochs: int, seconds: float | None) -> bool:
    """Run the stream in a child process, kill it after `seconds` of its first epoch's line; True if it ended by itself."""
    command = [sys.executable, "-m", "tests.crash.stream", store, str(epochs), "local[2]"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as child:
        timer: threading.Timer | None = None
        last = ""
        assert child.stdout is not None
        for line in child.stdout:
            last = line.strip()
            if timer is None and seconds is not None:
                timer = threading.Timer(seconds, os.killpg, (child.pid, 9))
                timer.start()
        if timer is not None:
            timer.cancel()
        child.wait()
    return last == "done"


def check_stream(store: str, spark, epochs: int) -> None:
    """Compare the tables with what the stream wrote, and the views with a batch run."""
    with Session(store, spark) as session:
        tables = {name: content(session, name) for name in ("bid", "auction")}
        expected = {row["id"]: row for batch in range(epochs) for row in bids(batch).to_pylist()}
        assert {row["id"]: row for row in tables["bid"].to_pylist()} == expected
        assert tables["bid"].num_rows == len(expected) == (epochs + 1) * ROWS // 2
        for name in VIEWS:
            query = VIEWS[name].replace("FROM named", f"FROM ({VIEWS['named']}) named")
            assert_equal(content(session, name), by_duckdb(tables, query), name)


@pytest.mark.parametrize(
    ("kills", "epochs"),
    [pytest.param(3, 12, id="short"), pytest.param(30, 60, marks=pytest.mark.crash, id="long")],
)
@pytest.mark.long
def test_a_stream_killed_at_random_moments_loses_doubles_and_spoils_nothing(
    tmp_path: Path, spark, kills: int, epochs: int
) -> None:
    store = (tmp_path / "store").as_uri()
    chance = random.Random(kills)
    done = 0
    for _ in range(kills):
        if run_until_killed(store, epochs, chance.uniform(0.0, 2.0 if kills < 10 else 1.5)):
            break
        done += 1
    assert run_until_killed(store, epochs, None)
    check_stream(store, spark, epochs)
    assert done >= kills // 2

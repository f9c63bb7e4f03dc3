"""Processes that poll or deliver are killed (SIGKILL) at random moments: what stands at the other end is there once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from engine.session import Session
from tests.connectors.conformance import sinks, sources

KILLS = 10
BEGINS_WITHIN = 120.0
KEYS = 20
pytestmark = pytest.mark.conformance


@contextmanager
def process(url: str, what: str, spark: bool) -> Iterator[subprocess.Popen[str]]:
    """Start a process that works, and kill it, with its Java, at the end of the block."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.connectors.conformance.process", url, what]
    child = subprocess.Popen(
        [*command, "local[1]" if spark else "none"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        yield child
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


def killed_while(
    url: str, what: str, spark: bool, offer: Callable[[int], None], chance: random.Random
) -> int:
    """Make changes while processes work that are killed; returns how many were killed after they had begun something.

    Every second one is killed some time after it has begun, others some time after they were ready.
    """
    busy = 0
    number = 0
    for kill in range(KILLS):
        with process(url, what, spark) as child:
            lines: list[str] = []
            assert child.stdout is not None
            reader = threading.Thread(target=lambda: lines.extend(child.stdout), daemon=True)  # noqa: B023
            reader.start()
            span, ready = chance.uniform(0.05, 6.0 if spark else 0.6), time.monotonic()
            ends = ready + span if kill % 2 else None
            while ends is None or time.monotonic() < ends:
                if ends is None and lines:
                    ends = time.monotonic() + span
                assert time.monotonic() < ready + BEGINS_WITHIN, "the process begins nothing"
                offer(number)
                number += 1
                with pytest.raises(subprocess.TimeoutExpired):  # it works until it is killed
                    child.wait(chance.uniform(0, 0.3 if spark else 0.05))
        reader.join(10)
        busy += bool(lines)
    return busy


@pytest.mark.crash
@pytest.mark.parametrize("kind", sources.PARAMETERS)
def test_a_source_whose_processes_are_killed_brings_each_row_once(
    kind: type[sources.SourceCase],
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in kind.settings.items():
        monkeypatch.setenv(name, value)
    spark = request.getfixturevalue("spark") if kind.with_spark else None
    with Session((tmp_path / "store").as_uri(), spark) as session:
        case = kind(tmp_path)
        case.create(session)

        def offer(number: int) -> None:  # of each key one row, so that one that is written twice shows
            case.offer(*((KEYS * number + n, number) for n in range(KEYS)))

        assert (
            killed_while(session.url, "poll", kind.with_spark, offer, random.Random(kind.name)) >= KILLS // 2
        )
        if isinstance(case, sources.Nexmark):
            case.catch_up()
        deadline = time.monotonic() + 120
        while case.source(session.store).list_pending() or len(case.held(session)) < len(case.expected()):
            case.source(session.store).poll(lambda: session.computing)
            assert time.monotonic() < deadline, "rows are missing"
        assert case.held(session) == case.expected()
        written = sum(entry.rows for entry in session.store.refresh().tables[case.holder].log)
        assert written == len(case.expected()), "rows were written twice"


@pytest.mark.crash
@pytest.mark.parametrize("kind", sinks.PARAMETERS)
def test_a_sink_whose_processes_are_killed_brings_each_change_once(
    kind: type[sinks.SinkCase], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    spark = request.getfixturevalue("spark") if kind.with_spark else None
    with Session((tmp_path / "store").as_uri(), spark) as session:
        session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
        case = kind(tmp_path, session)
        case.create()
        rows: dict[int, str] = {}

        def write(number: int) -> None:
            new = {number % 7: f"a{number}", 100 + number: "new"}
            session.write("t", pa.table({"id": pa.array(list(new), pa.int64()), "v": list(new.values())}))
            session.write("t", pa.table({"id": pa.array([99 + number], pa.int64())}), mode="delete")
            rows.update(new)
            rows.pop(99 + number, None)

        assert (
            killed_while(session.url, "deliver", kind.with_spark, write, random.Random(kind.name))
            >= KILLS // 2
        )
        session.store.refresh()
        (report,) = session.sinks.run(wait_seconds=120)
        assert (report.error, report.lag_rows) == (None, 0)
        assert case.held() == rows

"""Threads of a run that is interrupted: what is computed ends, nothing more begins, and the interrupt goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from engine.hummock import Hummock
from engine.meta.recovery import failures
from engine.runtime.domains import threads
from engine.runtime.domains.flush import FlushRun
from engine.runtime.domains.threads import RunThreads
from engine.runtime.executor import Computed, FragmentTask
from engine.session import Session

SECONDS = 60.0


def interrupted(wait: Callable[..., None]) -> Callable[..., None]:
    """Let the first wait for the end of the threads be interrupted, as by Ctrl-C."""

    def once(self: RunThreads, wait: bool = True, **_: object) -> None:
        if wait:
            raise KeyboardInterrupt
        original(self, wait=wait)

    original = wait
    return once


def test_leaving_after_an_interrupt_ends_the_work_and_lets_nothing_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        threads.ThreadPoolExecutor, "shutdown", interrupted(threads.ThreadPoolExecutor.shutdown)
    )
    begun, stopped = threading.Event(), threading.Event()

    def work() -> bool:
        begun.set()
        return stopped.wait(SECONDS)

    with pytest.raises(KeyboardInterrupt), RunThreads(1, stopped.set) as pool:
        first = pool.submit(work)
        assert begun.wait(SECONDS)
    assert first.result(SECONDS) and pool.broken_off


def test_an_error_is_no_interrupt() -> None:
    stopped = threading.Event()
    with pytest.raises(ValueError, match="wrong"), RunThreads(1, stopped.set) as pool:
        pool.submit(lambda: None)
        raise ValueError("wrong")
    assert not stopped.is_set() and not pool.broken_off


class Endless:
    """An executor whose work ends by `stop` alone, and then as a client without a connection does."""

    parallelism = 1

    def __init__(self) -> None:
        self.begun, self.stopped = threading.Event(), threading.Event()

    def compute(self, task: FragmentTask) -> Computed:
        """Wait for the end."""
        self.begun.set()
        assert self.stopped.wait(SECONDS)
        raise RuntimeError("cannot schedule new futures after shutdown")

    def stop(self) -> None:
        """End the wait."""
        self.stopped.set()


def test_a_run_that_is_interrupted_leaves_no_failure_of_a_view(
    tmp_path: Path, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    session.write("t", pa.table({"id": [1], "n": [2]}))
    session.sql("CREATE MATERIALIZED VIEW v AS SELECT n, count(*) AS c FROM t GROUP BY n", build=False)
    executor = Endless()
    shutdown = threads.ThreadPoolExecutor.shutdown

    def interrupt(self: RunThreads, wait: bool = True, **_: object) -> None:
        if wait:
            assert executor.begun.wait(SECONDS)
            raise KeyboardInterrupt
        shutdown(self, wait=wait)

    monkeypatch.setattr(threads.ThreadPoolExecutor, "shutdown", interrupt)
    with Hummock.open(session.url) as store:
        with pytest.raises(KeyboardInterrupt):
            FlushRun(store, executor).run()  # type: ignore[arg-type]
        assert not failures(store.refresh())
    monkeypatch.undo()
    session.flush().raise_for_errors()
    found = session.sql("SELECT * FROM v")
    assert found is not None and found.to_pylist() == [{"n": 2, "c": 1}]

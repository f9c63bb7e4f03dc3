"""Lanes: a run's patience with slow domains, and how its threads end where it is interrupted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from engine.hummock import Hummock
from engine.meta.domains.failures import list_failures
from engine.runtime.domains import lanes
from engine.runtime.domains.domain_outcome import DomainOutcome
from engine.runtime.domains.flush import FlushRunner
from engine.runtime.domains.lanes import Lanes
from engine.runtime.executor import FragmentTask, TaskResult
from engine.session import Session

SECONDS = 60.0
EVERYTHING = ("fast", "slow", "reader", "other")


def plan(name: str, *upstreams: str, built: bool = False) -> Any:
    return SimpleNamespace(name=name, built=built, domain=SimpleNamespace(upstreams=upstreams))


def interrupting(begun: threading.Event) -> Callable[..., None]:
    """Return what interrupts a run as Ctrl-C does while it waits for its domains."""

    def wait(*_: object) -> None:
        assert begun.wait(SECONDS)
        raise KeyboardInterrupt

    return wait


def test_a_run_goes_on_without_what_takes_much_longer_and_what_reads_it() -> None:
    lanes = Lanes(4, lambda: None, patient=False)
    end, order = threading.Event(), []

    def work(plan: Any) -> DomainOutcome:
        if plan.name == "slow":
            assert end.wait(SECONDS)
        order.append(plan.name)
        return DomainOutcome(seconds=5.0 if plan.name == "slow" else 0.01)

    plans = [plan("fast"), plan("slow"), plan("reader", "slow"), plan("other")]
    done = lanes.run(plans, work, threading.Event())
    assert set(done) == {"fast", "other"}
    assert (
        set(lanes.list_busy()) == {"slow", "reader"}
        and not lanes.has_ended
        and not lanes.collect_outcomes(EVERYTHING)
    )
    end.set()
    lanes.wait()
    assert lanes.has_ended and not lanes.list_busy()
    assert set(lanes.collect_outcomes(EVERYTHING)) == {"slow", "reader"} and not lanes.collect_outcomes(
        EVERYTHING
    )
    assert order.index("slow") < order.index("reader")


def test_what_comes_before_the_domains_has_a_thread_of_its_own_and_is_stopped_with_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, end, threads = threading.Event(), threading.Event(), list[threading.Thread]()
    lanes_of_run = Lanes(4, end.set)
    lanes_of_run.run_before(lambda: threads.append(threading.current_thread()))
    assert threads != [threading.current_thread()]

    def fail() -> None:
        raise ValueError("no tasks")

    with pytest.raises(ValueError, match="no tasks"):
        lanes_of_run.run_before(fail)

    def work() -> None:
        begun.set()
        assert end.wait(SECONDS)

    waits = iter([interrupting(begun), lambda *_: None])
    monkeypatch.setattr(lanes, "wait", lambda *given: next(waits)(*given))
    with pytest.raises(KeyboardInterrupt):
        lanes_of_run.run_before(work)
    assert end.is_set()


def test_what_is_known_to_be_slow_is_not_waited_for() -> None:
    lanes = Lanes(4, lambda: None, patient=False)
    slow = DomainOutcome(seconds=5.0)
    end = threading.Event()
    end.set()

    def work(plan: Any) -> DomainOutcome:
        assert end.wait(SECONDS)
        return slow if plan.name == "slow" else DomainOutcome(seconds=0.01)

    lanes.run([plan("slow"), plan("a"), plan("b")], work, threading.Event())
    lanes.wait()
    lanes.collect_outcomes(EVERYTHING)
    end.clear()
    assert lanes.run([plan("slow")], work, threading.Event()) == {}
    end.set()
    lanes.wait()
    assert lanes.collect_outcomes(EVERYTHING) == {"slow": slow}


def test_a_patient_run_waits_for_all_in_as_many_threads_as_it_may_have() -> None:
    lanes = Lanes(2, lambda: None)
    lock, now, most = threading.Lock(), 0, 0

    def work(plan: Any) -> DomainOutcome:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        threading.Event().wait(0.01)
        with lock:
            now -= 1
        return DomainOutcome()

    done = lanes.run([plan(str(n)) for n in range(9)], work, threading.Event())
    assert len(done) == 9 and most <= 2 and not lanes.list_busy()


def test_what_is_built_step_by_step_comes_after_the_others() -> None:
    order: list[str] = []

    def work(plan: Any) -> DomainOutcome:
        order.append(plan.name)
        return DomainOutcome()

    Lanes(4, lambda: None).run([plan("built", built=True), plan("a"), plan("b")], work, threading.Event())
    assert sorted(order) == ["a", "b", "built"]
    Lanes(4, lambda: None).run([plan("a"), plan("built", built=True)], work, threading.Event())
    assert order[-1] == "built"


def test_an_interrupt_ends_the_work_and_lets_nothing_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, stopped, broken_off = threading.Event(), threading.Event(), threading.Event()
    worked: list[str] = []

    def work(plan: Any) -> DomainOutcome:
        worked.append(plan.name)
        begun.set()
        assert stopped.wait(SECONDS)
        return DomainOutcome()

    monkeypatch.setattr(Lanes, "_wait_patiently", interrupting(begun))
    with pytest.raises(KeyboardInterrupt):
        Lanes(1, stopped.set).run([plan("a"), plan("b", "a")], work, broken_off)
    assert broken_off.is_set() and worked == ["a"]


def test_closing_ends_what_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "PATIENCE_SECONDS", 0.0)
    stopped, broken_off = threading.Event(), threading.Event()
    found = Lanes(1, stopped.set, patient=False)

    def work(plan: Any) -> DomainOutcome:
        assert stopped.wait(SECONDS)
        return DomainOutcome()

    assert found.run([plan("a")], work, broken_off) == {}
    found.close(0.0)
    assert broken_off.is_set() and not found.list_busy()


def make_view(session: Session) -> None:
    """Make a view that has no content yet over a table of one row."""
    session.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    session.write("t", pa.table({"id": [1], "n": [2]}))
    session.sql("CREATE MATERIALIZED VIEW v AS SELECT n, count(*) AS c FROM t GROUP BY n", build=False)


def test_leaving_a_session_by_an_interrupt_waits_for_no_slow_view(
    tmp_path: Path, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_view(session)
    monkeypatch.setattr(lanes, "PATIENCE_SECONDS", 0.0)
    executor = Endless()
    waited: list[bool] = []

    def closing(found: Lanes, seconds: float) -> None:
        waited.append(bool(found.list_busy()))

    monkeypatch.setattr(Lanes, "close", closing)
    with (
        pytest.raises(KeyboardInterrupt),
        Session(session.url, "local[2]", epochs_in_flight=4) as driving,
    ):
        monkeypatch.setattr(driving._runner, "executor", executor)
        driving.flush(wait=False)
        assert executor.begun.wait(SECONDS) and driving.epochs.busy
        raise KeyboardInterrupt
    assert executor.stopped.is_set() and waited == [False]
    assert not list_failures(session.store.refresh())


class Endless:
    """An executor whose work ends by `stop` alone, and then as a client without a connection does."""

    parallelism = 1

    def __init__(self) -> None:
        self.begun, self.stopped = threading.Event(), threading.Event()

    def compute(self, task: FragmentTask) -> TaskResult:
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
    make_view(session)
    executor = Endless()
    monkeypatch.setattr(Lanes, "_wait_patiently", interrupting(executor.begun))
    with Hummock.open(session.url) as store:
        with pytest.raises(KeyboardInterrupt):
            FlushRunner(store, executor).run()  # type: ignore[arg-type]
        assert not list_failures(store.refresh())
    monkeypatch.undo()
    session.flush().raise_for_errors()
    found = session.sql("SELECT * FROM v")
    assert found is not None and found.to_pylist() == [{"n": 2, "c": 1}]

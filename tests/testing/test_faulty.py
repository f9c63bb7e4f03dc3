"""Faults come from the seed, do what they say, and the same ones come again."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import Unavailable
from engine.hummock.object_store.local import LocalObjectStore
from engine.testing.faulty import Crashed, FaultPlan, FaultyObjectStore, RequestFault
from engine.testing.manual_clock import ManualClock
from engine.testing.memory import MemoryObjectStore


def with_fault(
    fault: RequestFault, inner: MemoryObjectStore | LocalObjectStore, seed: int = 0
) -> FaultyObjectStore:
    """A store on which every request goes wrong in one way."""
    return FaultyObjectStore(inner, FaultPlan(seed, 1.0, kinds=frozenset({fault})), ManualClock(seed))


def run(seed: int) -> tuple[list[str], list[str]]:
    """What a fixed sequence of requests met, and what it left."""
    inner, clock = MemoryObjectStore(), ManualClock(seed)
    store = FaultyObjectStore(inner, FaultPlan(seed, 0.5), clock)
    for step in range(40):
        try:
            store.put(f"sst/{step % 5}", b"x" * step)
            store.put_if_absent(f"manifest/{step}", b"y")
            list(store.list(""))
            store.delete([f"sst/{(step + 1) % 5}"])
        except Unavailable:
            continue
    return store.plan.log, [f"{info.path} {info.size}" for info in inner.list("")]


def test_the_same_seed_brings_the_same_faults_and_the_same_objects() -> None:
    assert run(3) == run(3)
    assert run(3) != run(4)


@pytest.mark.parametrize(
    ("fault", "there"), [(RequestFault.before, False), (RequestFault.busy, False), (RequestFault.after, True)]
)
def test_an_error_comes_before_or_after_the_effect(fault: RequestFault, there: bool) -> None:
    inner = MemoryObjectStore()
    with pytest.raises(Unavailable):
        with_fault(fault, inner).put("a", b"x")
    assert (inner.get("a") is not None) is there


@pytest.mark.parametrize(
    "fault",
    [RequestFault.before, RequestFault.after, RequestFault.timeout, RequestFault.conflict, RequestFault.late],
)
def test_a_creation_without_an_answer_is_none(fault: RequestFault) -> None:
    assert with_fault(fault, MemoryObjectStore()).put_if_absent("m", b"x") is None


def test_a_late_creation_arrives_later() -> None:
    inner = MemoryObjectStore()
    store = with_fault(RequestFault.late, inner)
    store.put_if_absent("m", b"x")
    assert inner.get("m") is None
    store.deliver_late()
    assert inner.get("m") == b"x"


def test_time_outs_and_slow_answers_pass_on_the_test_clock_only() -> None:
    clock = ManualClock()
    store = FaultyObjectStore(
        MemoryObjectStore(), FaultPlan(1, 1.0, kinds=frozenset({RequestFault.slow})), clock
    )
    start = clock()
    store.put("a", b"x")
    assert clock() > start


def test_a_torn_write_leaves_half_a_temporary_file(tmp_path: Path) -> None:
    inner = LocalObjectStore(tmp_path)
    with pytest.raises(Unavailable):
        with_fault(RequestFault.torn, inner).put("sst/a", b"0123456789")
    (left,) = (tmp_path / "sst").iterdir()
    assert (left.name.startswith(".tmp-"), left.read_bytes()) == (True, b"01234")


def test_a_stale_listing_lacks_the_new_and_has_the_deleted() -> None:
    inner = MemoryObjectStore()
    inner.put("a/old", b"x")
    store = with_fault(RequestFault.stale, inner)
    store.put("a/new", b"x")
    store.delete(["a/old"])
    assert [info.path for info in store.list("a/")] == ["a/old"]


def test_a_crash_ends_the_process_at_the_given_request() -> None:
    store = FaultyObjectStore(MemoryObjectStore(), FaultPlan(1, 0.0, crash_at=3), ManualClock())
    store.put("a", b"x")
    store.get("a")
    with pytest.raises(Crashed):
        store.put("b", b"x")
    with pytest.raises(Crashed):
        store.get("a")

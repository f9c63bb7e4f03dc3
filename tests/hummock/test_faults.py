"""Stores whose requests fail: a slice of the seeds of `make faults`, and what a writer is told in the worst cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import CommitTimeout, CommitUncertain, Unavailable
from engine.hummock import Hummock, Put
from engine.testing.faulty import FaultPlan, FaultyObjectStore, RequestFault
from engine.testing.manual_clock import ManualClock
from engine.testing.memory import MemoryObjectStore
from tests.hummock.conftest import SCHEMA, content, rows
from tests.hummock.mixed_workload import run_seed
from tests.long_rest import mark_rest_long


@pytest.mark.parametrize("seed", mark_rest_long(range(6)))  # `make faults` runs a thousand
def test_a_mixed_workload_survives_the_faults_of(seed: int) -> None:
    failure = run_seed(seed)
    assert failure is None, failure


class Scripted(FaultyObjectStore):
    """A store on which the requests of some kinds go wrong, in one way each, while `script` says so."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(MemoryObjectStore(clock), FaultPlan(0, 0.0), clock)
        self.script: dict[str, RequestFault] = {}
        self.late_arrive = False

    def _choose_fault(self, kind, path):  # type: ignore[no-untyped-def]
        fault, chance = super()._choose_fault(kind, path)
        return self.script.get(kind, fault), chance

    def deliver_late(self) -> None:
        if self.late_arrive:
            super().deliver_late()


@pytest.fixture
def scripted() -> Scripted:
    return Scripted(ManualClock())


@pytest.fixture
def faulty(scripted: Scripted, tmp_path: Path) -> Hummock:
    """A store with a table `t` of one row, on requests that the test scripts."""
    store = Hummock.open(
        "memory://scripted", cache_dir=tmp_path, object_store=scripted, clock=scripted._clock
    )
    store.create_table("t", SCHEMA, ["id"], ["id"])
    store.ingest_batch({"t": [Put(rows({1: "a"}))]})
    return store


def test_a_lost_answer_is_resolved_by_reading_back(faulty: Hummock, scripted: Scripted) -> None:
    scripted.script = {"put_if_absent": RequestFault.after}
    before = faulty.metrics()
    faulty.ingest_batch({"t": [Put(rows({2: "b"}))]})
    cost = faulty.metrics().since(before)
    assert content(faulty) == {1: "a", 2: "b"}
    assert (cost.commits, cost.ambiguous, cost.rebases) == (1, 1, 0)


def test_a_creation_that_arrives_late_is_recognised_and_not_repeated(
    faulty: Hummock, scripted: Scripted
) -> None:
    number = faulty.version.number
    scripted.script = {"put_if_absent": RequestFault.late}
    get = scripted.get

    def arrives_after_the_read_back(path: str) -> bytes | None:
        found = get(path)
        scripted.late_arrive = True
        scripted.deliver_late()
        return found

    scripted.get = arrives_after_the_read_back  # type: ignore[method-assign]
    assert faulty.claim("job") == 1
    assert faulty.refresh().number == number + 1


def test_a_store_that_falls_silent_after_the_creation_leaves_the_commit_uncertain(
    faulty: Hummock, scripted: Scripted
) -> None:
    scripted.script = {"put_if_absent": RequestFault.after, "get": RequestFault.before}
    with pytest.raises(CommitUncertain, match="did not answer whether manifest/0"):
        faulty.ingest_batch({"t": [Put(rows({2: "b"}))]})
    scripted.script = {}
    faulty.refresh()
    assert content(faulty) == {1: "a", 2: "b"}


def test_a_creation_that_never_arrives_is_uncertain_at_the_deadline(
    faulty: Hummock, scripted: Scripted
) -> None:
    scripted.script = {"put_if_absent": RequestFault.late}
    with pytest.raises(CommitUncertain) as caught:
        faulty.ingest_batch({"t": [Put(rows({2: "b"}))]})
    assert isinstance(caught.value.__cause__, CommitTimeout)
    scripted.script = {}
    faulty.ingest_batch({"t": [Put(rows({3: "c"}))]})
    scripted.late_arrive = True
    scripted.deliver_late()
    faulty.refresh()
    assert content(faulty) == {1: "a", 3: "c"}


def test_an_upload_that_fails_is_unavailable_and_nothing_is_committed(
    faulty: Hummock, scripted: Scripted
) -> None:
    number = faulty.version.number
    scripted.script = {"put": RequestFault.busy}
    with pytest.raises(Unavailable):
        faulty.ingest_batch({"t": [Put(rows({2: "b"}))]})
    scripted.script = {}
    assert faulty.refresh().number == number


def test_a_compaction_that_fails_after_a_commit_is_not_the_writers_failure(
    faulty: Hummock, scripted: Scripted
) -> None:
    create = scripted.put_if_absent

    def uploads_fail_from_now_on(path: str, data: bytes) -> bool | None:
        scripted.script = {"put": RequestFault.busy}
        return create(path, data)

    for step in range(40):
        scripted.put_if_absent = uploads_fail_from_now_on  # type: ignore[method-assign]
        faulty.ingest_batch({"t": [Put(rows({step: "x"}))]})
        scripted.script = {}
    assert len(content(faulty)) == 40

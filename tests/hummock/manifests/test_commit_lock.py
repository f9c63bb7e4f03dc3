"""Turns at a local folder: a courtesy that never holds anybody up for good."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from engine.hummock import Hummock, Put
from engine.hummock.clock import system_clock
from engine.hummock.manifests.commit_lock import LOCK_SECONDS, acquire_commit_lock
from engine.hummock.object_store.local import LocalObjectStore
from engine.testing.manual_clock import ManualClock
from tests.hummock.conftest import SCHEMA, rows
from tests.hummock.counting import CountingStore


def test_the_second_waits_until_the_first_is_done_and_is_told_so(tmp_path: Path) -> None:
    asked, order = threading.Event(), []

    class Asking(ManualClock):
        def sleep(self, seconds: float) -> None:
            asked.set()
            system_clock.sleep(0.001)

    def second() -> None:
        with acquire_commit_lock(tmp_path, Asking(), 0.001) as waited:
            order.append(("second", waited))

    with acquire_commit_lock(tmp_path, system_clock, 0.001) as waited:
        thread = threading.Thread(target=second)
        thread.start()
        assert asked.wait(10)
        order.append(("first", waited))
    thread.join()
    assert order == [("first", False), ("second", True)]


def test_who_waits_for_a_stopped_process_goes_on_after_a_while(tmp_path: Path) -> None:
    clock = ManualClock()
    started = clock.monotonic()
    with (
        acquire_commit_lock(tmp_path, system_clock, 0.001),
        acquire_commit_lock(tmp_path, clock, 0.1) as waited,
    ):
        assert waited
    assert LOCK_SECONDS <= clock.monotonic() - started < LOCK_SECONDS + 0.2


@pytest.mark.parametrize("folder", [None, Path("/nowhere/at/all")])
def test_where_there_is_no_folder_there_are_no_turns(folder: Path | None) -> None:
    with acquire_commit_lock(folder, system_clock, 0.1) as waited:
        assert not waited


@pytest.mark.parametrize("turns", [True, False])
def test_handles_that_race_from_threads_all_commit(tmp_path: Path, turns: bool) -> None:
    def opened() -> Hummock:
        objects = LocalObjectStore(tmp_path / "s")
        return Hummock.open(
            (tmp_path / "s").as_uri(),
            cache_dir=tmp_path / "c",
            object_store=objects if turns else CountingStore(objects),
        )

    store = opened()
    for part in range(4):
        store.create_table(f"t{part}", SCHEMA, ["id"])

    def race(part: int) -> None:
        mine = opened()
        for step in range(10):
            mine.ingest_batch({f"t{part}": Put(rows({step: "x"}))})

    threads = [threading.Thread(target=race, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.refresh()
    assert store._chain.list_numbers() == list(range(1, 45))
    assert [sum(batch.num_rows for batch in store.iter(f"t{part}")) for part in range(4)] == [10] * 4

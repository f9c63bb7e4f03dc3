"""Barriers: what opens and closes an epoch, and what a rerun after a crash, a failure or a change of the domain takes over."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from engine.hummock import Commit, Hummock, Put
from engine.hummock.epoch import epoch_at
from engine.log_store import Barrier as LogStoreBarrier
from engine.meta.domains.failures import record_failure
from engine.meta.epochs.barrier import Barrier, close_barrier, find_open_barrier, mint_barrier, record_barrier
from engine.testing.memory import MemoryObjectStore


class Views(NamedTuple):
    """A domain, as far as a barrier knows it."""

    name: str
    tables: tuple[str, ...]
    inputs: tuple[str, ...] = ()


ROW = pa.table({"id": [1]})


def store() -> Hummock:
    found = Hummock.open("memory://barriers", object_store=MemoryObjectStore())
    found.create_table("v", ROW.schema, ["id"])
    found.ingest_batch({"v": [Put(ROW)]})
    return found


def test_a_log_store_and_a_domain_have_the_same_barriers() -> None:
    assert LogStoreBarrier is Barrier
    assert Barrier(1, 2).is_checkpoint and not Barrier(1, 2, "barrier").is_checkpoint
    second = epoch_at(1_700_000_000.5)
    assert Barrier(0, second).text == "checkpoint (the beginning, 2023-11-14 22:13:20.500] UTC"
    text = Barrier(second, second + 1, "checkpoint", "pause").text
    assert text == "checkpoint (2023-11-14 22:13:20.500, 2023-11-14 22:13:20.500+1] UTC with mutation pause"


def test_the_first_barrier_of_a_domain_is_initial_and_adds_its_views() -> None:
    with store() as opening:
        version = opening.version
        first = mint_barrier(version, Views("w", ("w",)), 7, 0.0).barrier
        assert first == Barrier(0, 7, "initial", "add")
        held = version.tables["v"].committed_epoch
        joined = mint_barrier(version, Views("d", ("v", "w")), held + 7, 0.0).barrier
        assert joined == Barrier(held, held + 7, "checkpoint", "add")


def test_a_barrier_that_a_crash_left_open_is_taken_as_it_was_but_not_after_a_failure() -> None:
    with store() as opening:
        held = opening.version.tables["v"].committed_epoch
        left = mint_barrier(opening.version, Views("v", ("v",)), held + 5, 1.0)
        version = opening.commit(Commit(catalog=record_barrier("v", left)))
        assert find_open_barrier(version, "v") == left and left.deadline > left.minted == 1.0
        again = mint_barrier(version, Views("v", ("v",)), held + 50, 2.0)
        assert again.barrier == left.barrier and again.minted == 2.0
        assert mint_barrier(version, Views("v", ("v", "w")), held + 50, 2.0).barrier.curr == held + 50
        assert mint_barrier(version, Views("v", ("v",)), held + 3, 2.0).barrier.curr == held + 3
        version = opening.commit(Commit(catalog=record_failure(version, "v", "no", 3.0)))
        assert mint_barrier(version, Views("v", ("v",)), held + 50, 2.0).barrier.curr == held + 50
        version = opening.commit(Commit(catalog=close_barrier(version, "v")))
        assert find_open_barrier(version, "v") is None and close_barrier(version, "v") == {}


def test_a_barrier_is_not_taken_over_when_the_history_of_an_input_begins_later_by_now() -> None:
    with store() as opening:
        left = mint_barrier(opening.version, Views("w", ("w",), ("v",)), opening.version.epoch, 1.0)
        opening.commit(Commit(catalog=record_barrier("w", left)))
        opening.ingest_batch({"v": [Put(ROW)]})
        assert (
            mint_barrier(opening.version, Views("w", ("w",), ("v",)), opening.version.epoch, 2.0).barrier
            == left.barrier
        )
        opening.compact("v")
        version = opening.commit(Commit(truncate={"v": opening.version.epoch}))
        assert version.tables["v"].safe_epoch > left.barrier.curr
        assert (
            mint_barrier(version, Views("w", ("w",), ("v",)), version.epoch, 3.0).barrier.curr
            == version.epoch
        )

"""Small compactions run beside the writers and never fail them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import pytest

from engine.errors import StorageError
from engine.hummock import Hummock, Put
from engine.hummock.background import Background
from engine.hummock.compaction import TIER_EVERY
from tests.hummock.conftest import SCHEMA, content, rows


def test_many_small_commits_are_tiered_in_the_background(open_store: Callable[..., Hummock]) -> None:
    store = open_store(auto_compact="background")
    table = store.create_table("t", SCHEMA, ["id"], ["id"])
    for step in range(TIER_EVERY):
        store.ingest_batch({table: [Put(rows({step: str(step)}))]})
    store._background.drain()
    assert len(store.version.tables["t"].as_of(store.version.tables["t"].committed_epoch)) == 1
    assert content(store) == {step: str(step) for step in range(TIER_EVERY)}


def test_automatic_compaction_can_be_off(open_store: Callable[..., Hummock]) -> None:
    store = open_store(auto_compact="off")
    table = store.create_table("t", SCHEMA, ["id"])
    for step in range(2 * TIER_EVERY):
        store.ingest_batch({table: [Put(rows({step: "x"}))]})
    store.close()
    assert store.version.tables["t"].l0_count == 2 * TIER_EVERY


def test_an_unknown_way_to_compact_is_refused(open_store: Callable[..., Hummock]) -> None:
    with pytest.raises(StorageError, match="none of background, inline, off"):
        open_store(auto_compact="sometimes")


def test_a_job_that_waits_already_is_not_queued_again_and_a_failure_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    background, go, ran = Background("jobs"), threading.Event(), []

    def fail() -> None:
        go.wait(10)
        raise StorageError("the disk is full")

    with caplog.at_level(logging.WARNING):
        background.offer("first", fail)
        for n in range(3):
            background.offer("second", lambda n=n: ran.append(n))
        go.set()
        background.drain()
    background.close()
    assert ran == [0]
    assert "the disk is full" in caplog.text


def test_closing_gives_up_what_has_not_begun() -> None:
    background, begun, go, ran = Background("jobs"), threading.Event(), threading.Event(), []

    def first() -> None:
        begun.set()
        go.wait(10)
        ran.append("first")

    background.offer("first", first)
    background.offer("second", lambda: ran.append("second"))
    assert begun.wait(10)
    threading.Timer(0.05, go.set).start()
    background.close()
    assert ran == ["first"]

"""Epochs that are handed over: in order, bundled, bounded, readable before their commit, and never half visible."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from engine.errors import BufferFull, StorageError
from engine.hummock import Commit, Hummock
from engine.hummock.object_store.local import LocalObjectStore
from engine.hummock.writes.shared_buffer import SealedEpoch
from tests.hummock.conftest import SCHEMA, content, keys, rows
from tests.hummock.counting import CountingStore


class SlowStore(LocalObjectStore):
    """Writes data only while the gate is open, and fails as often as it is told to, after the object is there."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.gate, self.failures = threading.Event(), 0
        self.gate.set()
        self.puts: list[tuple[str, bytes]] = []

    def put(self, path: str, data: bytes | memoryview) -> None:
        assert self.gate.wait(30)
        self.puts.append((path, bytes(data)))
        super().put(path, data)
        if self.failures:
            self.failures -= 1
            raise StorageError("the bucket refuses")


@pytest.fixture
def slow(tmp_path: Path) -> SlowStore:
    return SlowStore(tmp_path / "store")


@pytest.fixture
def opened(slow: SlowStore, tmp_path: Path) -> Callable[..., Hummock]:
    def open_it(**options: object) -> Hummock:
        store = Hummock.open(
            (tmp_path / "store").as_uri(),
            cache_dir=tmp_path / "cache",
            object_store=slow,
            **options,  # type: ignore[arg-type]
        )
        for name in ("a", "b", "c"):
            store.create_table(name, SCHEMA, ["id"], ["id"] if name != "c" else None)
        return store

    return open_it


def seal(store: Hummock, **tables: dict[int, str]) -> SealedEpoch:
    with store.epoch(wait=False) as batch:
        for name, values in tables.items():
            batch.put(name, rows(values))
    assert batch.sealed is not None
    return batch.sealed


def now(store: Hummock, table: str) -> dict[int, str]:
    return {row["id"]: row["v"] for batch in store.iter(table, pending=True) for row in batch.to_pylist()}


def test_a_sealed_epoch_is_committed_by_itself(opened: Callable[..., Hummock], slow: SlowStore) -> None:
    store = opened()
    epoch = seal(store, a={1: "x"}, b={2: "y"}, c={3: "z"}).result(30)
    assert store.version.epoch == epoch
    assert [content(store, name) for name in "abc"] == [{1: "x"}, {2: "y"}, {3: "z"}]
    assert len(slow.puts) == 1


def test_nothing_is_visible_before_its_manifest_and_reads_may_ask_for_what_is_pending(
    opened: Callable[..., Hummock], slow: SlowStore
) -> None:
    store = opened()
    seal(store, a={1: "old", 2: "old"}, c={1: "old", 2: "old"}).result(30)
    slow.gate.clear()
    seal(store, a={1: "first"}, c={1: "first"})
    with store.epoch(wait=False) as batch:
        for name in ("a", "c"):
            batch.put(name, rows({1: "second", 3: "new"}))
            batch.delete(name, keys(2))
    for name in ("a", "c"):
        assert content(store, name) == {1: "old", 2: "old"}
        assert now(store, name) == {1: "second", 3: "new"}
        assert store.get(name, {"id": 1}, pending=True) == {"id": 1, "v": "second"}
        assert store.get(name, {"id": 1}) == {"id": 1, "v": "old"}
        found = store.multi_get(name, keys(2, 3, 1), pending=True)
        assert found.column("v").to_pylist() == [None, "new", "second"]
        (prefixed,) = store.iter(name, prefix={"id": 3}, pending=True)
        assert prefixed.to_pylist() == [{"id": 3, "v": "new"}]
    (ranged,) = store.iter("c", range=({"id": 2}, None), pending=True)
    assert ranged.to_pylist() == [{"id": 3, "v": "new"}]
    slow.gate.set()
    store.buffer.flush(30)
    assert content(store, "a") == content(store, "c") == now(store, "a") == {1: "second", 3: "new"}


def test_epochs_are_committed_in_the_order_in_which_they_were_sealed(
    opened: Callable[..., Hummock], slow: SlowStore
) -> None:
    store = opened()
    slow.gate.clear()
    sealed = [seal(store, a={1: str(step), step: "x"}) for step in range(10, 30)]
    slow.gate.set()
    epochs = [each.result(30) for each in sealed]
    assert epochs == sorted(set(epochs))
    for step, epoch in zip(range(10, 30), epochs, strict=True):
        assert content(store, "a", epoch)[1] == str(step)


def test_a_failed_upload_is_tried_again_with_the_same_bytes_under_the_same_name(
    opened: Callable[..., Hummock], slow: SlowStore
) -> None:
    store = opened()
    slow.failures = 2
    seal(store, a={1: "x"}, b={1: "y"}).result(30)
    assert len(slow.puts) == 3
    assert len(set(slow.puts)) == 1
    assert content(store, "a") == {1: "x"}


def test_an_epoch_that_cannot_be_committed_fails_with_those_behind_it_and_the_next_one_works(
    opened: Callable[..., Hummock], slow: SlowStore
) -> None:
    store = opened()
    store.buffer._retry_seconds = 0.0
    slow.gate.clear()
    first, second = seal(store, a={1: "x"}), seal(store, a={2: "y"})
    slow.failures = 1000
    slow.gate.set()
    with pytest.raises(StorageError, match="the bucket refuses"):
        first.result(30)
    with pytest.raises(StorageError, match="sealed before this one could not be committed"):
        second.result(30)
    assert content(store, "a") == {}
    assert store.buffer.status().bytes == 0
    slow.failures = 0
    seal(store, a={3: "z"}).result(30)
    assert content(store, "a") == {3: "z"}


def test_a_failure_that_nobody_asked_after_is_raised_when_the_store_is_closed(
    opened: Callable[..., Hummock], slow: SlowStore
) -> None:
    store = opened()
    store.buffer._retry_seconds = 0.0
    slow.failures = 1
    seal(store, a={1: "x"})
    with pytest.raises(StorageError, match="the bucket refuses"):
        store.close()


def test_a_full_buffer_blocks_the_writer_until_there_is_room(
    opened: Callable[..., Hummock], slow: SlowStore
) -> None:
    store = opened(buffer_bytes=2000)
    slow.gate.clear()
    seal(store, a={n: "x" * 50 for n in range(20)})
    done = threading.Event()

    def second() -> None:
        seal(store, a={n: "y" * 50 for n in range(20)})
        done.set()

    thread = threading.Thread(target=second)
    thread.start()
    while not store.buffer.status().waiting:
        thread.join(0.001)
    assert not done.is_set()
    assert "in 1 epochs" in str(store.buffer.status())
    slow.gate.set()
    thread.join(30)
    store.buffer.flush(30)
    assert set(content(store, "a").values()) == {"y" * 50}
    assert store.metrics().stalls == 1


def test_a_writer_that_waits_too_long_is_told_what_for_and_keeps_its_rows(
    opened: Callable[..., Hummock], slow: SlowStore
) -> None:
    store = opened(buffer_bytes=2000)
    store.buffer._wait_seconds = 0.01
    slow.gate.clear()
    seal(store, a={n: "x" * 50 for n in range(20)})
    batch = store.epoch(wait=False)
    batch.put("a", rows({n: "y" * 50 for n in range(20)}))
    with pytest.raises(BufferFull, match=r"holds [\d,]+ of 2,000 bytes in 1 epochs, the oldest for 0 s"):
        batch.__exit__(None, None, None)
    slow.gate.set()
    store.buffer.flush(30)
    batch.__exit__(None, None, None)
    assert batch.sealed is not None
    batch.sealed.result(30)
    assert set(content(store, "a").values()) == {"y" * 50}


def test_dropping_a_table_drops_what_is_pending_of_it_and_of_no_other(
    opened: Callable[..., Hummock], slow: SlowStore
) -> None:
    store = opened()
    slow.gate.clear()
    first, second = seal(store, a={1: "x"}, b={1: "y"}), seal(store, a={2: "x"})
    store.drop_table("a")
    store.create_table("a", SCHEMA, ["id"], ["id"])
    assert now(store, "a") == {}
    slow.gate.set()
    first.result(30)
    second.result(30)
    assert (first.left_out, second.left_out) == ({"a"}, {"a"})
    assert (content(store, "a"), content(store, "b")) == ({}, {1: "y"})


def test_a_table_that_another_process_dropped_does_not_hold_up_the_others(
    opened: Callable[..., Hummock], slow: SlowStore, open_store: Callable[..., Hummock]
) -> None:
    store = opened()
    slow.gate.clear()
    sealed = seal(store, a={1: "x"}, b={1: "y"})
    open_store().drop_table("a")
    slow.gate.set()
    sealed.result(30)
    assert sealed.left_out == {"a"}
    assert content(store, "b") == {1: "y"}


def test_what_is_pending_of_a_table_that_gets_another_name_goes_with_it(
    opened: Callable[..., Hummock], slow: SlowStore
) -> None:
    store = opened()
    slow.gate.clear()
    sealed = seal(store, a={1: "x"}, b={1: "y"})
    store.commit(Commit(alter={"a": dataclasses.replace(store.table("a"), name="renamed")}))
    assert now(store, "renamed") == {1: "x"}
    slow.gate.set()
    sealed.result(30)
    assert sealed.left_out == set()
    assert (content(store, "renamed"), content(store, "b")) == ({1: "x"}, {1: "y"})


def test_many_threads_seal_read_and_lose_nothing(opened: Callable[..., Hummock]) -> None:
    store = opened(buffer_bytes=4000)

    def write(part: int) -> None:
        for step in range(15):
            seal(store, a={part * 100 + step: "x"}, b={part: str(step)})
            assert now(store, "b")[part] == str(step)

    threads = [threading.Thread(target=write, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.close()
    assert len(content(store, "a")) == 60
    assert content(store, "b") == {part: "14" for part in range(4)}


def test_sealed_epochs_cost_two_puts_each(tmp_path: Path) -> None:
    counted = CountingStore(LocalObjectStore(tmp_path / "s"))
    store = Hummock.open("file:///counted", cache_dir=tmp_path / "c", object_store=counted)
    for name in "abc":
        store.create_table(name, SCHEMA, ["id"], ["id"])
    counted.reset()
    for step in range(5):
        seal(store, a={step: "x"}, b={step: "x"}, c={step: "x"})
    store.buffer.flush(30)
    assert counted.counts == {"put": 10}


def test_a_wrong_row_is_refused_before_anything_is_handed_over(opened: Callable[..., Hummock]) -> None:
    store = opened()
    with pytest.raises(Exception, match="all columns"), store.epoch(wait=False) as batch:
        batch.put("a", pa.table({"id": [1]}))
    assert store.buffer.status().epochs == 0

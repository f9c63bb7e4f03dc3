"""A restored store is what the backup was, goes on, and meets nothing of a store that was there before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from engine.errors import StorageError, UnknownStore
from engine.hummock import Commit, Hummock, Put
from engine.hummock.backups.back_up import back_up
from engine.hummock.backups.backup_place import BackupPlace, open_place
from engine.hummock.backups.restore import MARKER, open_target, restore_backup
from engine.hummock.compaction.lease import grant_lease
from engine.hummock.manifests.manifest import manifest_path
from engine.testing.faulty import Crashed, FaultPlan, FaultyObjectStore
from engine.testing.memory import MemoryObjectStore
from tests.hummock.conftest import SCHEMA, MovableClock, content, log, rows

URL = "memory://restored"


@pytest.fixture
def place(clock: MovableClock) -> BackupPlace:
    return open_place("memory://backups", create=True, objects=MemoryObjectStore(clock), clock=clock)


@pytest.fixture
def open_memory(clock: MovableClock, tmp_path: Path) -> Callable[[MemoryObjectStore], Hummock]:
    """Opens what is in memory."""
    return lambda objects: Hummock.open(
        URL, object_store=objects, clock=clock, cache_dir=tmp_path / "cache", create=False
    )


@pytest.fixture
def written(store: Hummock) -> Hummock:
    """A store with a table that has some history."""
    store.create_table("t", SCHEMA, ["id"], ["id"])
    for step in range(5):
        store.ingest_batch({"t": Put(rows({step: "a", 0: f"{step}"}))})
    return store


def test_everything_is_as_it_was_history_pins_and_writers_too(
    written: Hummock, place: BackupPlace, clock: MovableClock, open_memory: Callable[..., Hummock]
) -> None:
    first = written.version.tables["t"].log[0].epoch
    pinned = written.pin("t", first, seconds=1e6)
    written.claim("writer")
    written.alter_table("t", add=[pa.field("n", pa.int64())])
    written.commit(Commit(catalog={"k": "v"}, acks={"t": {"reader": first}}))
    report = back_up(written, place)
    objects = MemoryObjectStore(clock)
    restore_backup(place, open_target(URL, objects=objects, clock=clock))
    restored = open_memory(objects)
    before, after = written.version.tables["t"], restored.version.tables["t"]
    assert after == before
    assert dict(restored.version.catalog) == {"k": "v"}
    assert restored.version.generations == written.version.generations
    assert restored.version.epoch > report.summary.epoch
    assert log(restored, first) == log(written, first)
    assert content(restored, epoch=first) == {0: "0"}
    restored.unpin(pinned)
    assert restored.claim("writer") == 2


def test_a_place_that_is_not_empty_is_refused(
    written: Hummock, place: BackupPlace, clock: MovableClock
) -> None:
    back_up(written, place)
    objects = MemoryObjectStore(clock)
    objects.put("something", b"")
    with pytest.raises(StorageError, match="memory://restored is not empty, it has something: a backup is"):
        restore_backup(place, open_target(URL, objects=objects, clock=clock))
    objects.delete(["something"])
    restore_backup(place, open_target(URL, objects=objects, clock=clock))
    with pytest.raises(StorageError, match="is not empty"):
        restore_backup(place, open_target(URL, objects=objects, clock=clock))
    with pytest.raises(StorageError, match="is the address of a branch"):
        open_target("file:///x/branch/try")
    with pytest.raises(UnknownStore, match="no backup 7 at memory://backups"):
        restore_backup(place, open_target(URL, objects=MemoryObjectStore(clock), clock=clock), 7)


def test_a_restore_that_crashes_at_any_request_is_finished_by_the_next(
    written: Hummock, place: BackupPlace, clock: MovableClock, open_memory: Callable[..., Hummock]
) -> None:
    back_up(written, place)
    written.ingest_batch({"t": Put(rows({9: "later"}))})
    back_up(written, place)
    expected = content(written)
    for crash_at in range(1, 100):
        objects = MemoryObjectStore(clock)
        faulty = FaultyObjectStore(objects, FaultPlan(crash_at, 0.0, crash_at=crash_at), clock)
        try:
            restore_backup(place, open_target(URL, objects=faulty, clock=clock))
        except Crashed:
            faulty.settle()
        else:
            break
        begun, there = objects.get(MARKER) is not None, any(map(_is_manifest, objects.list("manifest/")))
        if not there:
            with pytest.raises(StorageError) as told:  # nobody opens it as an empty store
                open_memory(objects)
            assert isinstance(told.value, UnknownStore) or "run `tideline restore` again" in str(told.value)
        if begun and not there:
            with pytest.raises(
                StorageError, match="a restore of backup 2 from memory://backups is under way"
            ):
                restore_backup(place, open_target(URL, objects=objects, clock=clock), 1)
        if there:
            with pytest.raises(StorageError, match=r"is restored at|is not empty"):
                restore_backup(place, open_target(URL, objects=objects, clock=clock))
        else:
            restore_backup(place, open_target(URL, objects=objects, clock=clock))
        restored = open_memory(objects)
        assert content(restored) == expected
        clock.added += 10_000
        restored.gc(grace_seconds=600)
        assert objects.get(MARKER) is None
        assert content(open_memory(objects)) == expected
    assert crash_at > 10


def _is_manifest(info: object) -> bool:
    return getattr(info, "path", "")[-1].isdigit()


def test_a_process_of_the_store_that_was_there_before_writes_nothing_into_the_restored_one(
    clock: MovableClock, place: BackupPlace, tmp_path: Path
) -> None:
    objects = MemoryObjectStore(clock)

    def opened() -> Hummock:
        return Hummock.open(URL, object_store=objects, clock=clock, cache_dir=tmp_path / "cache")

    old = opened()
    old.create_table("t", SCHEMA, ["id"], ["id"])
    old.ingest_batch({"t": Put(rows({1: "a"}))})
    back_up(old, place)
    for step in range(70):
        old.ingest_batch({"t": Put(rows({2: f"lost {step}"}))})
    stalled, reader = opened(), opened()
    objects.delete([info.path for info in objects.list("")])
    restore_backup(place, open_target(URL, objects=objects, clock=clock))
    restored = opened()
    first = restored.version.number
    clock.added += 1
    _let_pass(clock, 400.0)
    stalled.ingest_batch({"t": Put(rows({3: "of the old process"}))})
    assert stalled.version.number == first + 1
    assert reader.refresh().number == first + 1
    expected = {1: "a", 3: "of the old process"}
    restored.refresh()
    assert content(restored) == content(stalled) == content(reader) == content(opened()) == expected
    numbers = [info.path for info in objects.list("manifest/") if _is_manifest(info)]
    assert numbers == [manifest_path(first), manifest_path(first + 1)]


def _let_pass(clock: MovableClock, seconds: float) -> None:
    """Move the clock's timer too."""
    before = clock.monotonic
    clock.monotonic = lambda: before() + seconds  # type: ignore[method-assign]


def test_two_restores_to_one_place_one_after_the_other_share_no_manifest(
    written: Hummock, place: BackupPlace, clock: MovableClock, open_memory: Callable[..., Hummock]
) -> None:
    back_up(written, place)
    objects, numbers = MemoryObjectStore(clock), []
    for _ in range(2):
        restore_backup(place, open_target(URL, objects=objects, clock=clock))
        restored = open_memory(objects)
        for _ in range(3):
            restored.commit(Commit())
        numbers.append(range(restored.version.number - 3, restored.version.number + 1))
        objects.delete([info.path for info in objects.list("")])
        clock.added += 1
    assert numbers[0][-1] < numbers[1][0]


def test_the_catalog_of_a_restored_store_is_adapted(
    written: Hummock, place: BackupPlace, clock: MovableClock, open_memory: Callable[..., Hummock]
) -> None:
    written.commit(Commit(catalog={"keep": "1", "go": "2", **grant_lease("t", "worker", clock())}))
    back_up(written, place)
    objects = MemoryObjectStore(clock)
    target = open_target(URL, objects=objects, clock=clock)
    restore_backup(place, target, adapt=lambda version: {"go": None, "new": version.catalog["keep"]})
    assert dict(open_memory(objects).version.catalog) == {"keep": "1", "new": "1"}


@pytest.mark.s3
def test_a_backup_in_a_bucket_is_restored_into_a_bucket(store: Hummock, s3_url: str, tmp_path: Path) -> None:
    store.create_table("t", SCHEMA, ["id"])
    store.ingest_batch({"t": Put(rows({1: "a"}))})
    back_up(store, open_place(f"{s3_url}/backups", create=True))
    report = restore_backup(open_place(f"{s3_url}/backups", create=False), open_target(f"{s3_url}/store"))
    assert report.url == f"{s3_url}/store"
    with Hummock.open(report.url, create=False, cache_dir=tmp_path / "cache") as restored:
        assert content(restored) == {1: "a"}
        restored.ingest_batch({"t": Put(rows({2: "b"}))})
    with Hummock.open(report.url, create=False, cache_dir=tmp_path / "other") as again:
        assert content(again) == {1: "a", 2: "b"}

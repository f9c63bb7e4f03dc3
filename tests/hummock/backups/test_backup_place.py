"""Runs that make backups at one place: one at a time, and one that was given up never finishes."""

from __future__ import annotations

import pytest

from engine.errors import Conflict, CorruptObject, StorageError, UnknownStore
from engine.hummock.backups.backup_format import VOID, BackupSummary, decode_backup, encode_backup
from engine.hummock.backups.backup_place import (
    BACKUPS,
    FILES,
    RUN_SECONDS,
    RUNS,
    BackupPlace,
    Sweep,
    open_place,
)
from engine.hummock.version import Version
from engine.testing.manual_clock import ManualClock
from engine.testing.memory import MemoryObjectStore

STORE = "memory://store"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def place(clock: ManualClock) -> BackupPlace:
    return open_place("memory://backups", create=True, objects=MemoryObjectStore(clock), clock=clock)


def encode(number: int, store: str = STORE) -> bytes:
    return encode_backup(BackupSummary(number, store, 1, 5, 0.0, 0, 0, 0, 0, 0), Version(1, 5))


def paths(place: BackupPlace) -> list[str]:
    return [info.path for info in place.objects.list("")]


def test_one_run_at_a_time(place: BackupPlace) -> None:
    with place.hold_run(STORE) as run:
        assert run.number == 1 and not run.cleans
        with pytest.raises(Conflict, match=r"backup 1 .* is under way"):
            place.begin(STORE)
        place.finish(run, encode(1))
    assert paths(place) == [f"{BACKUPS}{1:020d}"]
    assert place.begin(STORE).number == 2


def test_an_address_may_be_spelled_in_two_ways(place: BackupPlace) -> None:
    with place.hold_run("s3a://bucket/shop/") as run:
        place.finish(run, encode(1, "s3a://bucket/shop/"))
    place.end(place.begin("s3://bucket/shop"))
    with pytest.raises(
        StorageError, match="holds backups of s3a://bucket/shop/, this store is s3://bucket/other"
    ):
        place.begin("s3://bucket/other")


def test_a_run_that_was_given_up_never_finishes(place: BackupPlace, clock: ManualClock) -> None:
    stalled = place.begin(STORE)
    clock.sleep(RUN_SECONDS + 1)
    with pytest.raises(Conflict, match="stood still for too long"):
        place.finish(stalled, encode(1))
    other = place.begin(STORE)
    assert other.number == 2 and other.cleans
    stalled.touched = clock.monotonic()  # as if no time had passed for it
    with pytest.raises(Conflict, match="was given up"):
        place.finish(stalled, encode(1))
    stalled.touched = clock.monotonic() - RUN_SECONDS / 4
    with pytest.raises(Conflict, match="was given up"):
        place.touch(stalled)
    place.finish(other, encode(2))
    assert [one.number for one in place.list_backups()] == [2]
    place.end(stalled)
    place.end(other)
    assert place.begin(STORE).number == 3


def test_a_run_that_is_touched_is_alive(place: BackupPlace, clock: ManualClock) -> None:
    run = place.begin(STORE)
    for _ in range(10):
        clock.sleep(RUN_SECONDS / 3)
        place.touch(run)
        with pytest.raises(Conflict, match="is under way"):
            place.begin(STORE)


def test_a_run_that_fails_is_void_and_the_next_one_cleans(place: BackupPlace) -> None:
    with pytest.raises(ValueError, match="why"), place.hold_run(STORE):
        raise ValueError("why")
    assert paths(place) == [f"{BACKUPS}{1:020d}"]
    assert place.objects.get(f"{BACKUPS}{1:020d}") == VOID
    assert place.list_backups() == []
    with pytest.raises(UnknownStore, match="no backup at memory://backups"):
        place.read_backup()
    run = place.begin(STORE)
    assert run.cleans
    place.finish(run, encode(2))
    place.end(run)
    assert not place.begin(STORE).cleans
    with pytest.raises(UnknownStore, match="no backup 1 at"):
        place.read_backup(1)


def test_what_a_process_has_half_written_is_passed_over_and_swept(
    place: BackupPlace, clock: ManualClock
) -> None:
    place.begin(STORE)
    torn = [f"{folder}.tmp-{n}" for n, folder in enumerate((BACKUPS, FILES, RUNS))]
    for path in torn:
        place.objects.put(path, b"half")
    clock.sleep(RUN_SECONDS + 1)
    with place.hold_run(STORE) as run:
        assert run.number == 2 and run.cleans
        place.finish(run, encode(2))
        assert place.sweep(run) == Sweep(1, 4, {})
    assert not set(torn) & set(paths(place))


@pytest.mark.parametrize("left", [0, 40, -5])
@pytest.mark.parametrize("damaged", [1, 2])
def test_a_backup_that_cannot_be_read_stops_no_other(place: BackupPlace, damaged: int, left: int) -> None:
    copy, path = f"{FILES}{5:013d}-{'0' * 32}.parquet", f"{BACKUPS}{damaged:020d}"
    place.objects.put(copy, b"rows")
    for number in (1, 2):
        with place.hold_run(STORE) as run:
            place.finish(run, encode(number))
    place.objects.put(path, encode(damaged)[:left])
    shown = [1, 2] if left < 0 else [3 - damaged]  # what stands first is whole
    assert [one.number for one in place.list_backups()] == shown
    assert list(place.list_unreadable()) == [one for one in (1, 2) if one not in shown]
    with pytest.raises(CorruptObject, match=path):
        place.read_backup(damaged)
    with place.hold_run(STORE) as run:
        place.finish(run, encode(3))
        swept = place.sweep(run)
        assert swept.files == 0 and path in swept.unreadable[damaged]  # nobody knows what it needs
        assert place.drop_old(run, 1) == [1, 2]
        assert place.sweep(run) == Sweep(1, 4, {})
    assert [one.number for one in place.list_backups()] == [3]


def test_files_of_others_are_not_swept(place: BackupPlace, clock: ManualClock) -> None:
    copies = [f"{FILES}{5:013d}-{'0' * 32}.{kind}" for kind in ("parquet", "bundle")]
    others = [f"{FILES}photo.jpg", f"{FILES}manifest/{1:020d}", f"{FILES}sst/{5:013d}-{'0' * 32}.parquet"]
    for path in (*copies, *others):
        place.objects.put(path, b"rows")
    with place.hold_run(STORE) as run:
        place.finish(run, encode(1))
        assert place.sweep(run) == Sweep(2, 8, {})
    assert set(others) <= set(paths(place)) and not set(copies) & set(paths(place))


@pytest.mark.parametrize(
    ("place", "store", "says"),
    [
        ("file:///data/shop/backups", "file:///data/shop", "is inside of the store"),
        (
            "file:///data/shop/sst",
            "file:///data/shop/branch/b/00000000000000000007",
            "is inside of the store",
        ),
        ("file:///data", "file:///data/files", "is inside of file:///data"),
        ("file:///data/x/../shop//sst", "file://localhost/data/sh%6Fp/", "is inside of the store"),
        ("s3a://bucket/shop/files", "s3://bucket/shop", "is inside of the store"),
        ("s3://bucket", "s3://bucket/shop", "is inside of s3://bucket"),
        ("file:///data/shop2", "file:///data/shop", ""),
        ("s3://bucket/shop-backups", "s3://bucket/shop", ""),
    ],
)
def test_a_place_and_its_store_are_apart(clock: ManualClock, place: str, store: str, says: str) -> None:
    found = open_place(place, create=True, objects=MemoryObjectStore(clock), clock=clock)
    if not says:
        assert found.begin(store).number == 1
        return
    with pytest.raises(StorageError, match=says):
        found.begin(store)
    assert paths(found) == []


def test_a_claim_whose_answer_is_lost_is_recognised(place: BackupPlace) -> None:
    inner = place.objects

    class Silent:
        def __getattr__(self, name: str) -> object:
            return getattr(inner, name)

        def put_if_absent(self, path: str, data: bytes) -> bool | None:
            inner.put_if_absent(path, data)
            return None

    place.objects = Silent()  # type: ignore[assignment]
    run = place.begin(STORE)
    place.finish(run, encode(1))
    assert [one.number for one in place.list_backups()] == [1]


def test_damage_of_a_backups_own_object_is_found(place: BackupPlace) -> None:
    data = encode(1)
    assert decode_backup(data, "x") is not None
    for at in range(len(data)):
        wrong = bytearray(data)
        wrong[at] ^= 1
        with pytest.raises(CorruptObject):
            decode_backup(bytes(wrong), "x")
    for end in (0, 3, 20, len(data) - 1):
        with pytest.raises(CorruptObject):
            decode_backup(data[:end], "x")
    with pytest.raises(CorruptObject, match="newer version"):
        decode_backup(b"TLB2" + data[4:], "x")
    assert f"{RUNS}1" not in paths(place)

"""A backup holds one version while the store goes on, copies only what is new, and is there as a whole or not at all."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import BranchDropped, Conflict, CorruptObject, StorageError, UnknownStore
from engine.hummock import Commit, Hummock, Put
from engine.hummock.backups.back_up import BackupOptions, HeldVersion, back_up, hold_version
from engine.hummock.backups.backup_format import list_backup_files
from engine.hummock.backups.backup_place import FILES, RUN_SECONDS, BackupPlace, open_place
from engine.hummock.backups.restore import open_target, restore_backup
from engine.hummock.manifests.chain import Ticket
from engine.hummock.object_store import ObjectStore, open_object_store
from engine.hummock.upkeep.backup_holds import HOLD_PREFIX, HOLD_SECONDS, begin_hold
from engine.testing.faulty import Crashed, FaultPlan, FaultyObjectStore
from engine.testing.memory import MemoryObjectStore
from tests.hummock.backups.backup_workload import BackupWorld, run_seed
from tests.hummock.conftest import SCHEMA, MovableClock, content, rows
from tests.hummock.counting import CountingStore
from tests.hummock.small import small_sizes


@pytest.fixture(params=["directory", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> BackupPlace:
    """A place of backups in a folder, and one in a bucket."""
    if request.param == "directory":
        return open_place((tmp_path / "backups").as_uri(), create=True)
    return open_place(request.getfixturevalue("s3_url"), create=True)


@pytest.fixture
def memory(clock: MovableClock) -> CountingStore:
    """Objects of a place of backups in memory, whose requests are counted."""
    return CountingStore(MemoryObjectStore(clock))


def open_memory(objects: ObjectStore, clock: MovableClock) -> BackupPlace:
    return open_place("memory://backups", create=True, objects=objects, clock=clock)


def write(store: Hummock, *values: dict[int, str]) -> None:
    for each in values:
        store.ingest_batch({"t": Put(rows({**each}))})


def restore(place: BackupPlace, clock: MovableClock, cache: Path, number: int | None = None) -> Hummock:
    objects, url = MemoryObjectStore(clock), f"memory://restored/{id(place)}/{number}"
    restore_backup(place, open_target(url, objects=objects, clock=clock), number)
    return Hummock.open(url, object_store=objects, clock=clock, cache_dir=cache)


@pytest.mark.s3
def test_a_second_backup_copies_only_what_is_new_and_both_can_be_restored(
    store: Hummock, place: BackupPlace, clock: MovableClock, tmp_path: Path
) -> None:
    store.create_table("t", SCHEMA, ["id"], ["id"])
    write(store, {1: "a"}, {2: "b"})
    first = back_up(store, place)
    assert (first.summary.files, first.summary.copied, first.kept) == (2, 2, 0)
    write(store, {2: "c"})
    second = back_up(store, place)
    assert (second.summary.files, second.summary.copied, second.kept) == (3, 1, 2)
    assert [one.number for one in place.list_backups()] == [1, 2]
    assert content(restore(place, clock, tmp_path / "cache", 1)) == {1: "a", 2: "b"}
    assert content(restore(place, clock, tmp_path / "cache")) == {1: "a", 2: "c"}
    assert not store.refresh().branches and not store.version.catalog


@pytest.mark.s3
def test_backups_beyond_those_that_are_kept_go_with_the_files_that_no_other_names(
    store: Hummock, place: BackupPlace
) -> None:
    store.create_table("t", SCHEMA, ["id"], ["id"])
    for step in range(3):
        write(store, {step: "a"})
        back_up(store, place)
    old = {file.name for file in list_backup_files(place.read_backup(3).version)}
    store.drop_table("t")
    store.create_table("t", SCHEMA, ["id"], ["id"])
    write(store, {9: "z"})
    report = back_up(store, place, BackupOptions(keep=2))
    assert report.dropped == (1, 2) and report.deleted_files == 0
    report = back_up(store, place, BackupOptions(keep=2))
    assert report.dropped == (3,) and report.deleted_files == len(old) == 3 and report.deleted_bytes > 0
    assert set(place.read_file_sizes()) == {
        file.name for file in list_backup_files(place.read_backup().version)
    }


def test_a_store_that_is_written_compacted_and_collected_meanwhile_is_backed_up_as_it_was(
    store: Hummock, clock: MovableClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.hummock.backups.copying.MOST_BYTES", 0)
    store.create_table("t", SCHEMA, ["id"], ["id"])
    write(store, *({n: "a"} for n in range(8)))
    place, steps = open_memory(MemoryObjectStore(clock), clock), []

    def go_on(_: object) -> None:
        write(store, {len(steps): "b", 100 + len(steps): "c"})
        store.compact("t")
        clock.added += 30
        store.gc(grace_seconds=0)
        steps.append(store.version.epoch)

    clock.added += 5000
    report = back_up(store, place, BackupOptions(tell=go_on))
    assert len(steps) >= 8
    assert report.summary.epoch < steps[0]
    assert content(restore(place, clock, tmp_path / "cache")) == dict.fromkeys(range(8), "a")
    for _ in range(2):
        clock.added += 5000
        store.gc(grace_seconds=0)
    assert {info.path for info in store.objects.list("sst/")} == store.version.tables["t"].list_objects()


@pytest.mark.long
def test_random_stores_are_backed_up_while_requests_fail_and_processes_crash() -> None:
    for seed in range(3):
        failure = run_seed(seed)
        assert failure is None, failure


@pytest.mark.long
@pytest.mark.parametrize("side", [0, 1], ids=["store", "place"])
def test_a_crash_at_any_request_leaves_the_earlier_backups_and_is_cleaned_up(
    side: int, tmp_path: Path
) -> None:
    with small_sizes():
        world = BackupWorld(1, tmp_path)
        world.rate = 0.0
        for crash_at in range(1, 200):
            world.write()
            for name in ("t", "u"):
                world.store.compact(name)
            world.write()
            at = (crash_at, None) if side == 0 else (None, crash_at)
            done = world.back_up(at)
            world.check()
            if done is not None and crash_at > 20:
                break
            world.clock.sleep(HOLD_SECONDS + RUN_SECONDS)
            world.write()
            report = back_up(world.store, world.open_backups(), BackupOptions(keep=2))
            world.made = {n: e for n, e in world.made.items() if n not in report.dropped}
            world.check_files()
            assert not world.store.refresh().branches
        else:
            pytest.fail("no backup went through")
        world.check_nothing_left()


def test_the_hold_of_a_backup_that_died_is_dropped_by_a_collection(
    store: Hummock, clock: MovableClock
) -> None:
    HeldVersion(store)
    name = store.list_branches()[0].name
    clock.added += HOLD_SECONDS / 2
    store.gc()
    assert [branch.name for branch in store.list_branches()] == [name]
    clock.added += HOLD_SECONDS
    assert store.maintenance.end_holds().backups == (name,)
    assert not store.list_branches() and not store.version.catalog


def test_a_backup_that_lasts_renews_its_hold(
    store: Hummock, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = [0.0]
    monkeypatch.setattr(clock, "monotonic", lambda: seconds[0])
    with hold_version(store) as held:
        for _ in range(10):
            clock.added += HOLD_SECONDS / 3
            seconds[0] += HOLD_SECONDS / 3
            held.renew()
            assert store.maintenance.end_holds().backups == ()
        store.drop_branch(store.list_branches()[0].name)
        seconds[0] += HOLD_SECONDS / 3
        with pytest.raises(Conflict, match="was dropped while it was at work: start it again"):
            held.renew()


def test_what_is_held_includes_the_commits_of_other_threads_in_the_same_manifest(
    store: Hummock, clock: MovableClock
) -> None:
    store.create_table("t", SCHEMA, ["id"], ["id"])
    write(store, {1: "a"})
    chain = store._chain
    name = f"{HOLD_PREFIX}{0:032x}"
    tickets = [Ticket(begin_hold(name, clock()), 0.0), Ticket(Commit(drop=("t",)), 0.0)]
    chain.commit_all(tickets)
    held, dropped = (ticket.result() for ticket in tickets)
    assert held.number == dropped.number and "t" in held.tables
    assert not store.read_branch_start(name).tables
    store.create_table("u", SCHEMA, ["id"])
    assert not store.read_branch_start(name).tables
    with pytest.raises(UnknownStore, match="no branch other"):
        store.read_branch_start("other")


def test_no_branch_has_the_name_of_a_hold(store: Hummock) -> None:
    with pytest.raises(StorageError, match="begins the holds of backups"):
        store.create_branch(f"{HOLD_PREFIX}x")


def test_a_backup_of_a_branch_has_its_rows_and_no_more(
    open_store: Callable[..., Hummock], clock: MovableClock, tmp_path: Path
) -> None:
    store = open_store()
    store.create_table("t", SCHEMA, ["id"], ["id"])
    write(store, {1: "a", 2: "b"})
    branch = store.create_branch("try")
    other = Hummock.open(branch.url, object_store=store.objects, clock=clock, cache_dir=tmp_path / "cache")
    write(other, {2: "branch"})
    write(store, {2: "store"})
    place = open_memory(MemoryObjectStore(clock), clock)
    report = back_up(other, place)
    assert report.summary.store == other.url and report.summary.files == 2
    restored = restore(place, clock, tmp_path / "cache")
    assert content(restored) == {1: "a", 2: "branch"} and not restored.is_branch
    write(restored, {3: "c"})
    restored.compact("t")
    clock.added += 10_000
    restored.gc(grace_seconds=600)
    assert content(restored) == {1: "a", 2: "branch", 3: "c"}
    with pytest.raises(StorageError, match=r"holds backups of .*/branch/try/.* name another place"):
        back_up(store, place)


def test_a_damaged_file_of_the_store_is_found_and_no_backup_is_made(
    store: Hummock, clock: MovableClock
) -> None:
    store.create_table("t", SCHEMA, ["id"], ["id"])
    write(store, {1: "a"})
    (path,) = store.version.tables["t"].list_objects()
    data = bytearray(store.objects.get(path) or b"")
    data[len(data) // 2] ^= 1
    store.objects.put(path, bytes(data))
    place = open_memory(MemoryObjectStore(clock), clock)
    with pytest.raises(CorruptObject, match=f"{path} of the store is damaged: the checksum"):
        back_up(store, place)
    assert place.list_backups() == [] and not store.refresh().branches
    assert not place.read_file_sizes()


def test_damaged_copies_are_found_and_copied_again(
    store: Hummock, clock: MovableClock, tmp_path: Path
) -> None:
    store.create_table("t", SCHEMA, ["id"], ["id"])
    write(store, {1: "a"}, {2: "b"}, {3: "c"})
    objects = MemoryObjectStore(clock)
    place = open_memory(objects, clock)
    back_up(store, place)
    short, wrong, _ = sorted(info.path for info in objects.list(FILES))
    data = bytearray(objects.get(wrong) or b"")
    data[-20] ^= 1
    objects.put(wrong, bytes(data))
    objects.put(short, (objects.get(short) or b"")[:-1])
    with pytest.raises(CorruptObject, match="of the backup is damaged"):
        restore(place, clock, tmp_path / "cache")
    plain = back_up(store, place)  # it looks at lengths
    assert (plain.summary.copied, plain.kept, plain.repaired) == (1, 2, 0)
    verified = back_up(store, place, BackupOptions(verify=True))
    assert (verified.summary.copied, verified.kept, verified.repaired) == (1, 2, 1)
    assert content(restore(place, clock, tmp_path / "cache")) == {1: "a", 2: "b", 3: "c"}


def test_a_backup_asks_the_store_for_each_new_file_once(
    store: Hummock, memory: CountingStore, clock: MovableClock
) -> None:
    store.create_table("t", SCHEMA, ["id"], ["id"])
    write(store, *({n: "a"} for n in range(20)))
    place = open_memory(memory, clock)
    back_up(store, place)
    assert memory.counts["put"] >= 20
    write(store, {1: "b"})
    memory.reset()
    back_up(store, place)
    assert memory.counts.total() <= 16, memory.counts
    assert len([path for path in memory.paths["put"] if path.startswith(FILES)]) == 1


def test_what_copies_are_under_way_is_bounded(
    store: Hummock, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create_table("t", SCHEMA, ["id"], ["id"])
    write(store, *({n: "a" * 100} for n in range(12)))
    size = max(file.size for file in list_backup_files(store.version))
    monkeypatch.setattr("engine.hummock.backups.copying.MOST_BYTES", 3 * size)
    lock, open_files, most = threading.Lock(), [0], [0]

    class Slow(MemoryObjectStore):
        def put(self, path: str, data: bytes | memoryview) -> None:
            with lock:
                open_files[0] += path.startswith(FILES)
                most[0] = max(most[0], open_files[0])
            super().put(path, data)
            with lock:
                open_files[0] -= path.startswith(FILES)

    back_up(store, open_memory(Slow(clock), clock))
    assert most[0] <= 3


def test_an_error_on_the_way_leaves_no_hold_and_the_next_backup_goes_on(
    store: Hummock, clock: MovableClock
) -> None:
    store.create_table("t", SCHEMA, ["id"], ["id"])
    write(store, {1: "a"}, {2: "b"})
    place = open_memory(MemoryObjectStore(clock), clock)

    def stop(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        back_up(store, place, BackupOptions(tell=stop))
    assert not store.refresh().branches and place.list_backups() == []
    report = back_up(store, place)
    assert report.kept > 0 and report.summary.number == 2


def test_a_process_that_dies_loses_no_earlier_backup(store: Hummock, clock: MovableClock) -> None:
    store.create_table("t", SCHEMA, ["id"], ["id"])
    write(store, {1: "a"})
    inner = MemoryObjectStore(clock)
    back_up(store, open_memory(inner, clock))
    write(store, {2: "b"})
    crashing = FaultyObjectStore(inner, FaultPlan(3, 0.0, crash_at=9), clock)
    with pytest.raises(Crashed):
        back_up(store, open_memory(crashing, clock))
    place = open_memory(inner, clock)
    assert [one.number for one in place.list_backups()] == [1]
    with pytest.raises(Conflict, match="backup 2 to memory://backups is under way, by a sign of"):
        back_up(store, place)
    clock.added += RUN_SECONDS + 1
    assert back_up(store, place).summary.number == 3


def test_a_hold_that_somebody_has_branched_stays(store: Hummock, clock: MovableClock, tmp_path: Path) -> None:
    HeldVersion(store)
    (branch,) = store.list_branches()
    with Hummock.open(branch.url, object_store=store.objects, clock=clock, cache_dir=tmp_path / "c") as held:
        held.create_branch("mine")
    clock.added += 2 * HOLD_SECONDS
    assert store.maintenance.end_holds().backups == ()
    with Hummock.open(branch.url, object_store=store.objects, clock=clock, cache_dir=tmp_path / "c") as held:
        held.drop_branch("mine")
    assert store.maintenance.end_holds().backups == (branch.name,)
    with pytest.raises(BranchDropped):
        held.commit(Commit())


def test_a_place_is_no_store(store: Hummock, tmp_path: Path) -> None:
    url = (tmp_path / "store").as_uri()
    store.create_table("t", SCHEMA, ["id"])
    with pytest.raises(StorageError, match="is a store itself: name another place"):
        back_up(store, open_place(url, create=True, objects=open_object_store(url)))
    with pytest.raises(StorageError, match="is the address of a branch"):
        open_place(f"{url}/branch/try", create=True)

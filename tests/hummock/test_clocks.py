"""No clock decides what is right: what one machine does whose clock is wrong costs the others nothing but a stated delay."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from engine.errors import InvariantViolation
from engine.hummock import Commit, Hummock, Put, SstInfo
from engine.hummock.clock import Clock
from engine.hummock.compaction.lease import LEASE_SECONDS, grant_lease
from engine.hummock.compaction.worker import CompactionWorker
from engine.hummock.epoch import COUNTER_BITS, epoch_at, seconds_of
from engine.hummock.object_store.local import LocalObjectStore
from engine.hummock.store_clock import AGREE_SECONDS, LOOK_AGAIN_SECONDS, StoreClock
from engine.testing.manual_clock import ManualClock
from engine.testing.memory import MemoryObjectStore
from tests.hummock.conftest import SCHEMA, content, rows

HOUR, DAY, YEAR = 3600.0, 86400.0, 365 * 86400.0
TTL, RETENTION = 600.0, 60.0
OFF = {"ten years ahead": 10 * YEAR, "a day ahead": DAY, "a day behind": -DAY}


class WrongClock(Clock):
    """A machine's clock, wrong by `off` seconds; its timer is right."""

    def __init__(self, world: Clock, off: float) -> None:
        self.world, self.off = world, off

    def __call__(self) -> float:
        return self.world() + self.off

    def monotonic(self) -> float:
        return self.world.monotonic()

    def sleep(self, seconds: float) -> None:
        self.world.sleep(seconds)


class Silent(MemoryObjectStore):
    """An object store that does not tell the time."""

    def now(self) -> float | None:
        return None


@pytest.fixture
def world() -> ManualClock:
    return ManualClock()


@pytest.fixture
def objects(world: ManualClock) -> MemoryObjectStore:
    return MemoryObjectStore(world)


@pytest.fixture
def machine(world: ManualClock, objects: MemoryObjectStore, tmp_path: Path) -> Callable[..., Hummock]:
    """Opens the store on a machine whose clock is off by so many seconds."""

    def opened(off: float = 0.0, clock: Clock | None = None) -> Hummock:
        return Hummock.open(
            "memory://clocks",
            cache_dir=tmp_path / "cache",
            retention_seconds=RETENTION,
            auto_compact="off",
            object_store=objects,
            clock=clock or WrongClock(world, off),
        )

    return opened


@pytest.fixture
def right(machine: Callable[..., Hummock]) -> Hummock:
    store = machine()
    store.create_table("t", SCHEMA, ["id"], ["id"], ttl_seconds=TTL)
    store.create_table("u", SCHEMA, ["id"], ["id"])
    return store


@pytest.fixture(params=[*OFF, "jumping back"])
def wrong(request: pytest.FixtureRequest, machine, world: ManualClock, right: Hummock) -> Hummock:  # type: ignore[no-untyped-def]
    if request.param != "jumping back":
        return machine(OFF[request.param])
    clock = WrongClock(world, 0.0)
    store = machine(clock=clock)
    store.ingest_batch({"u": Put(rows({100: "before the jump"}))})
    clock.off = -DAY
    return store


def written(store: Hummock) -> list[SstInfo]:
    """A file of table u that is not committed yet."""
    operations = pa.array([0], pa.uint8())
    return store.reader.write_run(store.table("u"), rows({1: "a"}).append_column("_op", operations))


def test_rows_with_a_time_to_live_stay_after_a_commit_by_a_wrong_clock(
    right: Hummock, wrong: Hummock, world: ManualClock
) -> None:
    right.ingest_batch({"t": Put(rows({1: "right"}))})
    wrong.ingest_batch({"u": Put(rows({1: "x"}))})
    wrong.ingest_batch({"t": Put(rows({2: "wrong"}))})
    right.refresh()
    world.sleep(TTL - 2 * AGREE_SECONDS)
    right.ingest_batch({"u": Put(rows({2: "y"}))})
    assert content(right) == {1: "right", 2: "wrong"}
    assert content(right, epoch=right.version.epoch) == {1: "right", 2: "wrong"}
    world.sleep(4 * AGREE_SECONDS)
    assert content(right) == {}


def test_a_wrong_clock_does_not_delete_what_lives(right: Hummock, wrong: Hummock, world: ManualClock) -> None:
    right.ingest_batch({"t": Put(rows({1: "right"}))})
    world.sleep(TTL / 2)
    wrong.refresh()
    wrong.compact("t")
    CompactionWorker(wrong).run_once()
    wrong.gc(grace_seconds=0)
    right.refresh()
    assert content(right) == {1: "right"}


def test_a_wrong_clock_moves_the_epochs_no_farther_than_both_clocks_agree(
    right: Hummock, wrong: Hummock, world: ManualClock
) -> None:
    wrong.ingest_batch({"u": Put(rows({1: "x"}))})
    assert seconds_of(right.refresh().epoch) <= world() + AGREE_SECONDS
    world.sleep(YEAR)
    right.ingest_batch({"u": Put(rows({2: "y"}))})
    assert right.version.epoch == epoch_at(world()), "a store that has rested goes on at the present"


def test_history_within_the_retention_stays_and_older_goes(
    right: Hummock, wrong: Hummock, world: ManualClock
) -> None:
    first = right.ingest_batch({"u": Put(rows({1: "old"}))})
    wrong.ingest_batch({"u": Put(rows({1: "new"}))})
    wrong.compact("u")
    wrong.gc()
    right.refresh()
    assert content(right, "u", first)[1] == "old"
    world.sleep(2 * RETENTION)
    right.ingest_batch({"u": Put(rows({1: "newest"}))})
    right.compact("u")
    world.sleep(2 * RETENTION)
    right.gc()
    assert right.version.tables["u"].safe_epoch > first, "history is cut as if nothing had been"
    assert content(right, "u")[1] == "newest"


def test_a_collection_by_a_wrong_clock_refuses_no_writer_and_deletes_nothing_of_theirs(
    right: Hummock, wrong: Hummock, world: ManualClock
) -> None:
    before = written(right)
    wrong.gc()
    right.commit(Commit(writes={"u": before}))
    right.ingest_batch({"u": Put(rows({2: "b"}))})
    wrong.gc()
    world.sleep(1)
    right.ingest_batch({"u": Put(rows({3: "c"}))})
    shown = content(right, "u")
    assert {key: shown[key] for key in (1, 2, 3)} == {1: "a", 2: "b", 3: "c"}


def test_a_writer_behind_goes_on_after_a_collection(right: Hummock, machine: Callable[..., Hummock]) -> None:
    right.gc(grace_seconds=HOUR)
    behind = machine(-DAY)
    behind.ingest_batch({"u": Put(rows({1: "late clock"}))})
    right.refresh()
    assert content(right, "u") == {1: "late clock"}


def test_what_a_wrong_clock_left_behind_is_collected_in_time(
    right: Hummock, wrong: Hummock, world: ManualClock, objects: MemoryObjectStore
) -> None:
    orphan = written(wrong)[0].path
    world.sleep(HOUR + 2 * AGREE_SECONDS + 1)
    right.gc(grace_seconds=HOUR)
    assert objects.head(orphan) is None


def test_a_pin_of_a_wrong_clock_holds_as_long_as_it_says(
    right: Hummock, wrong: Hummock, world: ManualClock
) -> None:
    right.ingest_batch({"u": Put(rows({1: "a"}))})
    wrong.refresh()
    wrong.pin("u", seconds=300)
    world.sleep(200)
    right.gc()
    assert right.refresh().tables["u"].pins
    world.sleep(100 + 2 * AGREE_SECONDS)
    right.gc()
    assert not right.refresh().tables["u"].pins


@pytest.mark.parametrize("off", OFF.values(), ids=OFF)
def test_a_compactors_claim_made_by_a_wrong_clock_holds_nobody_up(
    right: Hummock, world: ManualClock, off: float
) -> None:
    for step in range(20):
        right.ingest_batch({"u": Put(rows({step: "x"}))})
    dead = grant_lease(
        "u", "dead worker", world() + off
    )  # as a machine writes it that knows no time but its own
    right.commit(Commit(catalog=dead))
    world.sleep(LEASE_SECONDS + AGREE_SECONDS)
    assert CompactionWorker(right).run_once(["u"])
    right.gc()
    assert right.refresh().catalog.get("compaction/u") is None


def test_a_wrong_object_store_is_not_believed_either(world: ManualClock, tmp_path: Path) -> None:
    ahead = MemoryObjectStore(WrongClock(world, 10 * YEAR))
    store = Hummock.open("memory://ahead", cache_dir=tmp_path, object_store=ahead, clock=world)
    store.create_table("t", SCHEMA, ["id"], ttl_seconds=TTL)
    store.ingest_batch({"t": Put(rows({1: "a"}))})
    assert seconds_of(store.version.epoch) <= world()
    assert content(store) == {1: "a"}


def test_a_horizon_in_the_future_is_refused(right: Hummock, world: ManualClock) -> None:
    with pytest.raises(InvariantViolation, match="horizon"):
        right.commit(Commit(horizon_ms=(epoch_at(world() + DAY) >> COUNTER_BITS)))


def test_without_a_time_of_the_object_store_the_machines_counts(world: ManualClock) -> None:
    assert StoreClock(WrongClock(world, DAY), Silent())() == world() + DAY


def test_the_object_store_is_asked_rarely_and_when_the_machines_clock_was_set(world: ManualClock) -> None:
    asked = []

    class Asked(MemoryObjectStore):
        def now(self) -> float | None:
            asked.append(world())
            return world()

    own = WrongClock(world, 0.0)
    clock = StoreClock(own, Asked())
    for _ in range(100):
        clock()
    assert len(asked) == 1
    own.off = DAY
    assert clock() <= world() + AGREE_SECONDS
    assert len(asked) == 2
    for _ in range(100):
        assert clock() <= world() + AGREE_SECONDS
    assert len(asked) == 2
    world.sleep(LOOK_AGAIN_SECONDS + 1)
    clock()
    assert len(asked) == 3


def test_an_object_store_that_fails_to_answer_leaves_what_it_said_before(world: ManualClock) -> None:
    class Failing(MemoryObjectStore):
        answers = True

        def now(self) -> float | None:
            if not self.answers:
                raise OSError("gone")
            return world()

    objects = Failing()
    clock = StoreClock(WrongClock(world, DAY), objects)
    clock()
    objects.answers = False
    world.sleep(10 * LOOK_AGAIN_SECONDS)
    assert world() <= clock() <= world() + AGREE_SECONDS


def test_a_clock_that_is_wrong_is_told_of_once(
    world: ManualClock, objects: MemoryObjectStore, caplog: pytest.LogCaptureFixture
) -> None:
    clock = StoreClock(WrongClock(world, DAY), objects)
    assert all(clock() for _ in range(3))
    assert [record.message for record in caplog.records if "ahead of the object store" in record.message]
    assert len(caplog.records) == 1


def test_a_directory_tells_the_time_of_its_file_system(tmp_path: Path) -> None:
    seconds = LocalObjectStore(tmp_path).now()
    assert seconds is not None and abs(seconds - time.time()) < 60
    assert list(tmp_path.iterdir()) == []
    assert LocalObjectStore(tmp_path / "none", create=True).now() is not None


@pytest.mark.s3
def test_s3_tells_the_time_that_its_answers_are_dated_with(s3_url: str) -> None:
    from engine.hummock.object_store import open_object_store

    seconds = open_object_store(s3_url).now()
    assert seconds is not None and abs(seconds - time.time()) < 60


def test_one_machine_ten_years_ahead_on_a_shared_directory(tmp_path: Path) -> None:
    url = (tmp_path / "s").as_uri()
    right = Hummock.open(url, cache_dir=tmp_path / "c")
    right.create_table("t", SCHEMA, ["id"], ttl_seconds=TTL)
    right.ingest_batch({"t": Put(rows({1: "right"}))})
    wrong = Hummock.open(url, cache_dir=tmp_path / "c2", clock=WrongClock(Clock(), 10 * YEAR))
    wrong.ingest_batch({"t": Put(rows({2: "wrong"}))})
    assert content(wrong) == {1: "right", 2: "wrong"}, "it reads right, too"
    wrong.gc()
    right.refresh()
    assert content(right) == {1: "right", 2: "wrong"}
    right.ingest_batch({"t": Put(rows({3: "later"}))})
    assert content(right) == {1: "right", 2: "wrong", 3: "later"}

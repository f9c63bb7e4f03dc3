"""The sync log store against a plain list: nothing lost, nothing twice, order kept, whatever dies and when."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as hs

from engine.errors import LogStoreError
from engine.hummock import Commit, Hummock, Table
from engine.hummock.version import OP
from engine.log_store import Barrier, Chunk, Message, SyncLogStore, WatermarkMessage
from tests.log_store.faults import Crash, DyingClient, MemoryObjectStore

OUT = Table("out", pa.schema([("place", pa.int64()), ("item", pa.string())]), ("place",))


def chunk(*ids: int, width: int = 0) -> Chunk:
    return Chunk(pa.table({"id": pa.array(ids, pa.int64()), "text": ["x" * width] * len(ids)}))


def watermark(value: int) -> WatermarkMessage:
    return WatermarkMessage("id", pa.scalar(value, pa.int64()))


def items(message: Message) -> list[str]:
    """A message as items of the model's list: one a row, one a watermark."""
    if isinstance(message, Chunk):
        return [f"row {value}" for value in message.rows.column("id").to_pylist()]
    assert isinstance(message, WatermarkMessage)
    return [f"watermark {message.value.as_py()}"]


def drained(log: SyncLogStore) -> list[str]:
    found: list[str] = []
    while (message := log.read(timeout=0)) is not None:
        assert not isinstance(message, Barrier)
        found += items(message)
    return found


@pytest.fixture
def memory() -> MemoryObjectStore:
    return MemoryObjectStore()


@pytest.fixture
def open_log(memory: MemoryObjectStore, tmp_path: Path) -> Callable[..., tuple[Hummock, SyncLogStore]]:
    def opened(**options: int) -> tuple[Hummock, SyncLogStore]:
        store = Hummock.open("memory://", cache_dir=tmp_path, object_store=memory)
        return store, SyncLogStore.open(store, "t", **options)

    return opened


def started(store: Hummock, log: SyncLogStore) -> int:
    """Send the initial barrier and return its epoch."""
    epoch = store.version.epoch + 1
    assert log.put_barrier(Barrier(epoch - 1, epoch, "initial")) is None
    assert log.read(timeout=0) == Barrier(epoch - 1, epoch, "initial")
    return epoch


def checkpoint(store: Hummock, log: SyncLogStore, epoch: int) -> int:
    part = log.put_barrier(Barrier(epoch, epoch + 1))
    assert part is not None and log.read(timeout=0) == part.barrier
    store.commit(Commit(writes=part.writes))
    log.record_commit(part)
    return epoch + 1


def test_a_barrier_goes_before_all_that_waits(open_log) -> None:
    store, log = open_log()
    epoch = started(store, log)
    log.put(chunk(1, 2))
    log.put(watermark(1))
    barrier = Barrier(epoch, epoch + 1, "barrier")
    assert log.put_barrier(barrier) is None
    log.put(chunk(3))
    assert log.read(timeout=0) == barrier
    assert drained(log) == ["row 1", "row 2", "watermark 1", "row 3"]


def test_a_stream_begins_with_its_initial_barrier_and_epochs_rise(open_log) -> None:
    store, log = open_log()
    with pytest.raises(LogStoreError, match="initial barrier"):
        log.put(chunk(1))
    epoch = started(store, log)
    with pytest.raises(LogStoreError, match="does not rise"):
        log.put_barrier(Barrier(epoch - 1, epoch))


def test_a_full_buffer_becomes_references_and_memory_stays_bounded(open_log) -> None:
    store, log = open_log(buffer_bytes=20_000, chunk_rows=64)
    started(store, log)
    for i in range(100):
        log.put(chunk(*range(i * 10, i * 10 + 10), width=100))
    metrics = log.metrics
    assert metrics.put.rows == 1000 and metrics.flushed.rows > 900
    assert metrics.peak_buffered_bytes <= 20_000
    assert metrics.buffered.rows + metrics.flushed.rows == 1000
    assert drained(log) == [f"row {i}" for i in range(1000)]
    assert metrics.buffered.rows == 0 and metrics.read.rows == 1000


def test_adjacent_references_are_read_as_chunks_of_the_chunk_size(open_log) -> None:
    store, log = open_log(buffer_bytes=40_000, chunk_rows=8)
    started(store, log)
    for i in range(80):
        log.put(chunk(i, width=200))
    first = log.read(timeout=0)
    assert isinstance(first, Chunk) and first.rows.num_rows == 8


def test_one_row_larger_than_the_buffer_goes_through_the_store(open_log) -> None:
    store, log = open_log(buffer_bytes=2_000)
    started(store, log)
    log.put(chunk(1))
    log.put(chunk(2, width=10_000))
    log.put(chunk(3))
    assert log.metrics.peak_buffered_bytes <= 2_000
    assert drained(log) == ["row 1", "row 2", "row 3"]


def test_what_waits_at_a_checkpoint_is_durable_and_what_was_read_is_truncated(open_log) -> None:
    store, log = open_log()
    epoch = started(store, log)
    for i in range(6):
        log.put(chunk(i))
    assert items(log.read(timeout=0)) == ["row 0"]
    epoch = checkpoint(store, log, epoch)
    assert log.metrics.persisted.rows == 5 and log.metrics.truncated.rows == 1
    assert items(log.read(timeout=0)) == ["row 1"]
    epoch = checkpoint(store, log, epoch)
    _, again = open_log()
    assert drained(again) == ["row 2", "row 3", "row 4", "row 5"]


def test_what_was_read_before_its_checkpoint_is_never_written(open_log) -> None:
    store, log = open_log()
    epoch = started(store, log)
    log.put(chunk(1))
    log.read(timeout=0)
    part = log.put_barrier(Barrier(epoch, epoch + 1))
    assert part is not None and part.writes == {}


def test_after_recovery_history_comes_first_then_references_then_the_buffer(open_log) -> None:
    store, log = open_log()
    epoch = started(store, log)
    log.put(chunk(1))
    log.put(watermark(1))
    checkpoint(store, log, epoch)
    store, log = open_log(buffer_bytes=3_000)
    started(store, log)
    for i in range(2, 12):
        log.put(chunk(i, width=400))
    assert log.metrics.flushed.rows and log.metrics.buffered.rows
    assert drained(log) == ["row 1", "watermark 1", *(f"row {i}" for i in range(2, 12))]


def test_a_paused_log_store_hands_on_barriers_only(open_log) -> None:
    store, log = open_log()
    epoch = started(store, log)
    log.put(chunk(1))
    pause = Barrier(epoch, epoch + 1, "barrier", "pause")
    log.put_barrier(pause)
    assert log.read(timeout=0) == pause and log.read(timeout=0) is None
    log.put_barrier(Barrier(epoch + 1, epoch + 2, "barrier", "resume"))
    assert log.read(timeout=0) == Barrier(epoch + 1, epoch + 2, "barrier", "resume")
    assert drained(log) == ["row 1"]


def test_the_bytes_of_a_consumed_log_store_fall_to_zero(memory, tmp_path: Path) -> None:
    store = Hummock.open("memory://", cache_dir=tmp_path, object_store=memory, retention_seconds=0)
    log = SyncLogStore.open(store, "t", buffer_bytes=2_000)
    epoch = started(store, log)
    for i in range(20):
        log.put(chunk(i, width=300))
    epoch = checkpoint(store, log, epoch)
    assert store.version.tables["_log_t"].size_bytes > 0
    drained(log)
    epoch = checkpoint(store, log, epoch)
    store.compact("_log_t")
    table = store.version.tables["_log_t"]
    assert table.size_bytes == 0 and not table.log


def test_references_are_read_from_the_table_once_they_are_committed(memory, tmp_path: Path) -> None:
    store = Hummock.open("memory://", cache_dir=tmp_path, object_store=memory, retention_seconds=0)
    log = SyncLogStore.open(store, "t", buffer_bytes=2_000)
    epoch = started(store, log)
    for i in range(20):
        log.put(chunk(i, width=300))
    checkpoint(store, log, epoch)
    store.compact("_log_t")
    for path in [
        path for path in memory.objects if path not in store.version.tables["_log_t"].list_objects()
    ]:
        if path.startswith("sst/"):
            memory.delete([path])
    store.reader.files.forget()
    shutil.rmtree(tmp_path)
    assert drained(log) == [f"row {i}" for i in range(20)]


class Job:
    """A producer of numbered chunks and watermarks, and a consumer that commits what it was given with each checkpoint."""

    def __init__(self, memory: MemoryObjectStore, folder: Path, chunks: list[int], buffer: int) -> None:
        self.memory, self.folder, self.chunks, self.buffer = memory, folder, chunks, buffer
        sent: list[str] = []
        for number, size in enumerate(chunks):
            sent += items(self.message(number, size))
        self.all = sent

    def message(self, number: int, size: int) -> Chunk | WatermarkMessage:
        start = sum(self.chunks[:number])
        return chunk(*range(start, start + size), width=40) if size else watermark(number)

    def open(self, at: int | None, after: bool) -> None:
        client = DyingClient(self.memory, at, after)
        self.store = Hummock.open("memory://", cache_dir=self.folder, object_store=client)
        if "out" not in self.store.version.tables:
            self.store.create_table("out", OUT.schema, OUT.primary_key)
        self.log = SyncLogStore.open(self.store, "t", buffer_bytes=self.buffer, chunk_rows=16)
        # What is committed says where the producer goes on.
        self.next = int(self.store.version.catalog.get("sent", "0"))
        self.given: list[str] = []
        self.out = self.durable()
        self.epoch = started(self.store, self.log)

    def durable(self) -> list[str]:
        rows = [row for batch in self.store.iter("out") for row in batch.to_pylist()]
        return [row["item"] for row in rows]

    def send(self) -> None:
        if self.next < len(self.chunks):
            self.log.put(self.message(self.next, self.chunks[self.next]))
            self.next += 1

    def take(self) -> None:
        message = self.log.read(timeout=0)
        if message is not None:
            self.given += items(message)

    def checkpoint(self, kind: str) -> None:
        barrier = Barrier(self.epoch, self.epoch + 1, kind)  # type: ignore[arg-type]
        self.epoch += 1
        part = self.log.put_barrier(barrier)
        assert self.log.read(timeout=0) == barrier  # before all that waits
        if part is None:
            return
        places = range(len(self.out), len(self.out) + len(self.given))
        rows = pa.table({"place": pa.array(places, pa.int64()), "item": pa.array(self.given, pa.string())})
        rows = rows.append_column(OP, pa.array([0] * len(rows), pa.uint8()))
        own = {"out": tuple(self.store.reader.write_run(OUT, rows))} if self.given else {}
        self.store.commit(Commit(writes={**part.writes, **own}, catalog={"sent": str(self.next)}))
        self.log.record_commit(part)
        self.out, self.given = self.out + self.given, []
        assert self.log.metrics.peak_buffered_bytes <= self.buffer


STEPS = ("send", "send", "take", "checkpoint", "barrier")


def run(job: Job, steps: list[str], crashes: list[tuple[int, bool]]) -> None:
    """Play steps over and over, dying at the chosen calls, until all is consumed; what is durable is always a prefix."""
    deaths = iter(crashes)
    alive = False
    for _ in range(len(crashes) + 1):
        at, after = next(deaths, (None, False))
        try:
            job.open(at, after)
            alive = True
            while len(job.out) < len(job.all):
                for step in steps:
                    job.send() if step == "send" else job.take() if step == "take" else job.checkpoint(step)
                job.send()
                job.take()
                job.checkpoint("checkpoint")
                assert job.out == job.all[: len(job.out)]
        except Crash:
            continue
    assert alive and job.durable() == job.all


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    chunks=hs.lists(hs.integers(0, 12), max_size=12),
    steps=hs.lists(hs.sampled_from(STEPS), max_size=10),
    crashes=hs.lists(hs.tuples(hs.integers(1, 60), hs.booleans()), max_size=5),
    buffer=hs.sampled_from([3_000, 6_000, 1 << 20]),
)
def test_nothing_is_lost_or_doubled_whatever_dies_at_any_call(
    tmp_path: Path, chunks: list[int], steps: list[str], crashes: list[tuple[int, bool]], buffer: int
) -> None:
    run(Job(MemoryObjectStore(), tmp_path, chunks, buffer), steps, crashes)


@pytest.mark.long
def test_a_crash_at_every_single_call_of_one_program_loses_nothing(tmp_path: Path) -> None:
    chunks, steps = [5, 0, 30, 1, 0, 9], ["send", "send", "take", "barrier"]
    for at in range(1, 40):
        run(Job(MemoryObjectStore(), tmp_path, chunks, 3_000), steps, [(at, at % 2 == 0)])


@pytest.mark.long
def test_a_consumer_ten_times_slower_with_five_crashes_loses_nothing_and_waits_for_no_barrier(
    tmp_path: Path,
) -> None:
    """Ten chunks are sent for each that is taken; every barrier is the very next message, whatever waits."""
    job = Job(MemoryObjectStore(), tmp_path, [8] * 150, buffer=6_000)
    steps = [*(["send"] * 10), "take", "checkpoint"]
    run(job, steps, [(60, False), (45, True), (80, False), (33, True), (52, False)])
    assert job.log.metrics.peak_buffered_bytes <= 6_000


def test_a_producer_and_a_consumer_run_in_threads_of_their_own(open_log) -> None:
    store, log = open_log(buffer_bytes=4_000, chunk_rows=16)
    epoch = started(store, log)

    def produce() -> None:
        at = epoch
        for i in range(200):
            log.put(chunk(i, width=50))
            if i % 20 == 19:
                part = log.put_barrier(Barrier(at, at + 1))
                assert part is not None
                store.commit(Commit(writes=part.writes))
                log.record_commit(part)
                at += 1
        log.put_barrier(Barrier(at, at + 1, "barrier", "stop"))

    found: list[str] = []
    barriers = kept = 0
    with ThreadPoolExecutor(1) as pool:
        producing = pool.submit(produce)
        while True:
            message = log.read(timeout=30)
            if isinstance(message, Barrier):
                barriers += 1
                kept = len(found) if message.is_checkpoint else kept
                if message.mutation == "stop":
                    break
            else:
                assert message is not None
                found += items(message)
        producing.result()
    assert barriers == 11 and log.read(timeout=0) is None
    assert found == [f"row {i}" for i in range(len(found))]
    assert found[:kept] + drained(SyncLogStore.open(store, "t")) == [f"row {i}" for i in range(200)]

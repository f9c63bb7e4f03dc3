"""The sync log store: hands barriers on at once and keeps chunks for a consumer that is slower than its producer.

The method is RisingWave's SyncKvLogStore: buffer, flush to references, persist at checkpoints, read history first.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa

from engine.errors import LogStoreError
from engine.hummock import Hummock
from engine.hummock.version import SstInfo
from engine.log_store.log_table import EntryReference, LogStorage, LogTable, Stage, merge_references
from engine.log_store.messages import Chunk, Entry, Message, Offset, WatermarkMessage, slice_rows
from engine.log_store.metrics import LogStoreMetrics
from engine.meta.epochs.barrier import Barrier

BUFFER_BYTES = 64 << 20
CHUNK_ROWS = 65_536


@dataclass(eq=False)
class Buffered:
    """A message in memory; `stage` tells in which files it stands as well, if a checkpoint has written it."""

    entry: Entry
    stage: Stage | None = None


Loaded = tuple[EntryReference, Sequence[Offset], Chunk | WatermarkMessage, int]
"""A message that was read back: from where, the offsets that it covers, and its bytes."""


@dataclass(frozen=True)
class LogCheckpoint:
    """What the commit of a checkpoint must write into `table`: what waits becomes durable, what was consumed goes."""

    barrier: Barrier
    table: str
    ssts: tuple[SstInfo, ...]
    stages: tuple[Stage, ...]

    @property
    def writes(self) -> dict[str, tuple[SstInfo, ...]]:
        """The part of `Commit.writes`."""
        return {self.table: self.ssts} if self.ssts else {}


class SyncLogStore:
    """Takes messages from one producer thread and gives them to one consumer thread.

    The consumer gets barriers before all that waits. What it was given before a checkpoint barrier must be durable on its side in
    the commit that holds the `LogCheckpoint` of that barrier; commits go in the order of their barriers. After a crash both
    sides go on from the last commit: the log store reads what it holds, the producer sends what came after that barrier.
    """

    def __init__(
        self, log: LogStorage, *, buffer_bytes: int = BUFFER_BYTES, chunk_rows: int = CHUNK_ROWS
    ) -> None:
        self.name, self.buffer_bytes, self.chunk_rows = log.name, buffer_bytes, chunk_rows
        self.metrics = LogStoreMetrics()
        self._chunk_bytes = max(1, buffer_bytes // 4)
        self._log = log
        stored = self._log.list_history(chunk_rows, self._chunk_bytes)
        self._items: deque[Buffered | EntryReference] = deque(stored)
        self._last_stored: Offset = stored[-1].last if stored else (0, 0)
        self._barriers: deque[Barrier] = deque()
        self._loaded: deque[Loaded] = deque()
        self._loading: tuple[EntryReference, Future[list[Loaded]]] | None = None
        self._loader = ThreadPoolExecutor(1, thread_name_prefix=f"log-store-{log.name}")
        self._flushed: list[Stage] = []
        self._consumed: list[tuple[Offset, Buffered | EntryReference]] = []
        self._consumed_upto: Offset = (0, 0)
        self._consumed_amount = (0, 0)
        self._epoch: int | None = None
        self._number = 0
        self._paused = self._stopped = False
        self._changed = threading.Condition()
        self._writing, self._reading = threading.Lock(), threading.Lock()

    @classmethod
    def open(
        cls, store: Hummock, name: str, *, buffer_bytes: int = BUFFER_BYTES, chunk_rows: int = CHUNK_ROWS
    ) -> SyncLogStore:
        """Open the log store `name` of a store, with what an earlier process has left in its table."""
        return cls(LogTable(store, name), buffer_bytes=buffer_bytes, chunk_rows=chunk_rows)

    def put(self, message: Chunk | WatermarkMessage) -> None:
        """Take a chunk or a watermark from upstream; a full buffer is written to the store first.

        Raises LogStoreError before the initial barrier.
        """
        with self._writing:
            if self._epoch is None:
                raise LogStoreError(
                    f"log store {self.name}: the first message of a stream is its initial barrier"
                )
            parts: list[Chunk | WatermarkMessage] = [message]
            if isinstance(message, Chunk):
                parts = [Chunk(rows) for rows in slice_rows(message.rows, self.chunk_rows, self._chunk_bytes)]
            for part in parts:
                self._put(Entry.of((self._epoch, self._number), part))
                self._number += 1

    def put_barrier(self, barrier: Barrier) -> LogCheckpoint | None:
        """Take a barrier from upstream and hand it on at once; of a checkpoint the part of its commit is returned.

        Raises LogStoreError if the barrier's epoch does not rise.
        """
        with self._writing:
            last = self._last_stored[0] if self._epoch is None else self._epoch
            if barrier.curr <= last:
                raise LogStoreError(
                    f"log store {self.name}: barrier {barrier.curr} does not rise above epoch {last}: two producers, or one "
                    f"that went on from an older commit"
                )
            with self._changed:
                self._barriers.append(barrier)
                self._epoch, self._number = barrier.curr, 0
                self.metrics.barriers += 1
                self._apply_mutation(barrier)
                if not barrier.is_checkpoint:
                    self._changed.notify_all()
                    return None
                consumed, upto, self._consumed = self._consumed, self._consumed_upto, []
                self.metrics.truncated.add(*self._consumed_amount)
                self._consumed_amount = (0, 0)
                waiting = [i for i in self._items if isinstance(i, Buffered) and i.stage is None]
                self._changed.notify_all()
            return self._build_checkpoint(barrier, waiting, consumed, upto)

    def record_commit(self, checkpoint: LogCheckpoint) -> None:
        """Note that a checkpoint is visible, so that its messages are read from the table from now on."""
        for stage in checkpoint.stages:
            stage.committed = True

    def read(self, timeout: float | None = None) -> Message | None:
        """Return the next message: a barrier if one waits, else history, references, buffer in this order.

        None after a stop barrier, or when nothing has come for `timeout` seconds.
        """
        with self._reading, self._changed:
            while True:
                if not self._changed.wait_for(self._has_next, timeout):
                    return None
                if self._barriers:
                    return self._barriers.popleft()
                if self._stopped:
                    return None
                if self._loaded:
                    return self._give_loaded()
                if self._loading is None:
                    item = self._items.popleft()
                    if isinstance(item, Buffered):
                        return self._give_buffered(item)
                    self._loading = item, self._loader.submit(self._load, item)
                    self._loading[1].add_done_callback(self._notify)
                self._take_loaded()

    def close(self) -> None:
        """End the thread that reads references; what is not committed is lost."""
        self._loader.shutdown(wait=True, cancel_futures=True)

    def _take_loaded(self) -> None:
        """Wait until the reference that is being read is there, or until a barrier comes, which goes first."""
        assert self._loading is not None
        item, loading = self._loading
        self._changed.wait_for(lambda: self._barriers or loading.done())
        if not loading.done():
            return
        self._loading = None
        try:
            self._loaded.extend(loading.result())
        except BaseException:
            self._items.appendleft(item)
            raise

    def _notify(self, _: object) -> None:
        with self._changed:
            self._changed.notify_all()

    def _has_next(self) -> bool:
        if self._barriers or self._stopped:
            return True
        return not self._paused and bool(self._loaded or self._loading or self._items)

    def _apply_mutation(self, barrier: Barrier) -> None:
        if barrier.mutation == "pause":
            self._paused = True
        elif barrier.mutation == "resume":
            self._paused = False
        elif barrier.mutation == "stop":
            self._stopped = True

    def _put(self, entry: Entry) -> None:
        if self.metrics.buffered.bytes + entry.size > self.buffer_bytes:
            self._flush()
        with self._changed:
            buffered = Buffered(entry)
            self.metrics.put.add(entry.rows, entry.size)
        item: Buffered | EntryReference = buffered
        if entry.size > self.buffer_bytes:  # one row larger than the buffer never stays in memory
            item = self._build_references([buffered])[0]
        with self._changed:
            self._items.append(item)
            if isinstance(item, Buffered):
                self._count_buffered(entry, 1)
            self._changed.notify_all()

    def _flush(self) -> None:
        """Write the buffer to the store, a part at a time, and put references in its place.

        What the consumer takes meanwhile is not replaced.
        """
        with self._changed:
            waiting = [item for item in self._items if isinstance(item, Buffered)]
        for part in _group_messages(waiting, self._chunk_bytes):
            references = {id(item): ref for item, ref in zip(part, self._build_references(part), strict=True)}
            with self._changed:
                items: list[Buffered | EntryReference] = []
                for item in self._items:
                    if isinstance(item, Buffered) and id(item) in references:
                        self._count_buffered(item.entry, -1)
                        item = references[id(item)]
                    if isinstance(item, EntryReference) and items and isinstance(items[-1], EntryReference):
                        items[-1:] = merge_references(items[-1], item, self.chunk_rows, self._chunk_bytes)
                    else:
                        items.append(item)
                self._items = deque(items)

    def _build_references(self, items: Sequence[Buffered]) -> list[EntryReference]:
        """Return a reference for each message, writing those that stand nowhere yet."""
        new = [item for item in items if item.stage is None]
        if new:
            stage = self._log.write([item.entry for item in new])
            self._flushed.append(stage)
            for item in new:
                item.stage = stage
                self.metrics.flushed.add(item.entry.rows, item.entry.size)
        found = []
        for item in items:
            assert item.stage is not None
            at = item.entry.offset
            found.append(EntryReference(at, at, item.entry.rows, item.entry.size, (item.stage,)))
        return found

    def _build_checkpoint(
        self,
        barrier: Barrier,
        waiting: Sequence[Buffered],
        consumed: Sequence[tuple[Offset, Buffered | EntryReference]],
        upto: Offset,
    ) -> LogCheckpoint:
        # Files whose messages were all consumed before they were committed never become visible.
        stages = [stage for stage in self._flushed if stage.last > upto]
        self._flushed = []
        if waiting:
            stage = self._log.write([item.entry for item in waiting])
            stages.append(stage)
            for item in waiting:
                item.stage = stage
                self.metrics.persisted.add(item.entry.rows, item.entry.size)
        for stage in stages:
            stage.submitted = True
        gone = [offset for offset, item in consumed if any(s.submitted for s in _list_stages(item))]
        ssts = tuple(sst for stage in stages for sst in stage.ssts) + self._log.write_tombstones(gone)
        return LogCheckpoint(barrier, self._log.name, ssts, tuple(stages))

    def _load(self, reference: EntryReference) -> list[Loaded]:
        """Read a reference: chunks that follow each other become one."""
        found: list[Loaded] = []
        for entry in self._log.read(reference):
            message = entry.decode()
            if found and isinstance(message, Chunk):
                _, offsets, before, size = found[-1]
                if isinstance(before, Chunk) and before.rows.schema.equals(message.rows.schema):
                    rows = pa.concat_tables([before.rows, message.rows])
                    found[-1] = (reference, [*offsets, entry.offset], Chunk(rows), size + entry.size)
                    continue
            found.append((reference, [entry.offset], message, entry.size))
        return found

    def _give_loaded(self) -> Chunk | WatermarkMessage:
        reference, offsets, message, size = self._loaded.popleft()
        self._consumed += [(offset, reference) for offset in offsets]
        self._count_given(offsets[-1], message, size)
        return message

    def _give_buffered(self, item: Buffered) -> Chunk | WatermarkMessage:
        self._count_buffered(item.entry, -1)
        self._consumed.append((item.entry.offset, item))
        message = item.entry.decode()
        self._count_given(item.entry.offset, message, item.entry.size)
        return message

    def _count_given(self, offset: Offset, message: Chunk | WatermarkMessage, size: int) -> None:
        rows = message.rows.num_rows if isinstance(message, Chunk) else 0
        self._consumed_upto = offset
        self._consumed_amount = (self._consumed_amount[0] + rows, self._consumed_amount[1] + size)
        self.metrics.read.add(rows, size)

    def _count_buffered(self, entry: Entry, sign: int) -> None:
        self.metrics.buffered.add(sign * entry.rows, sign * entry.size)
        self.metrics.peak_buffered_bytes = max(self.metrics.peak_buffered_bytes, self.metrics.buffered.bytes)


def _list_stages(item: Buffered | EntryReference) -> tuple[Stage, ...]:
    if isinstance(item, EntryReference):
        return item.stages
    return () if item.stage is None else (item.stage,)


def _group_messages(items: Sequence[Buffered], most_bytes: int) -> list[list[Buffered]]:
    """Group messages so that a group holds about `most_bytes`."""
    found: list[list[Buffered]] = []
    size = 0
    for item in items:
        if not found or size + item.entry.size > most_bytes:
            found.append([])
            size = 0
        found[-1].append(item)
        size += item.entry.size
    return found

"""Epochs that a writer has handed over and that are on their way to the store: it goes on with the next one at once.

Sealed epochs are written by two threads, small tables of one epoch in one object, and committed by a third in the order
in which they were sealed. Nothing of an epoch is visible before its manifest; reads that ask for it see what is pending.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import BufferFull, Conflict, StorageError, UnknownTable
from engine.hummock.back_off import BackOff
from engine.hummock.clock import Clock, system_clock
from engine.hummock.reads.reader import Reader
from engine.hummock.sorted_files.bundle import Payload
from engine.hummock.sorted_files.file_set import SortedFile
from engine.hummock.version import OP, LogEntry, SstInfo, TableVersion, Version
from engine.hummock.writes.batch import TableBuffer

BUFFER_BYTES = 256 << 20
WAIT_SECONDS = 60.0
RETRY_SECONDS = 300.0
PAUSES = BackOff(0.1, 5.0)
UPLOADS = 2
LOOKED_BACK = 64

CommitWrites = Callable[[Mapping[str, TableVersion], Mapping[str, tuple[SstInfo, ...]]], int]


@dataclass(frozen=True)
class BufferStatus:
    """What the buffer holds, and why a writer would have to wait."""

    epochs: int
    bytes: int
    limit: int
    waiting: int
    oldest_seconds: float
    last_error: str | None

    def __str__(self) -> str:
        since = f"the oldest for {self.oldest_seconds:.0f} s" if self.epochs else "nothing"
        trouble = f"; the last error: {self.last_error}" if self.last_error else ""
        return f"the shared buffer holds {self.bytes:,} of {self.limit:,} bytes in {self.epochs} epochs, {since}{trouble}"


@dataclass
class SealedTable:
    """One table's part of a sealed epoch: sorted rows cut into files, what was spilled before, and, once written, all files."""

    version: TableVersion
    pieces: list[pa.Table]
    spilled: tuple[SstInfo, ...]
    ssts: tuple[SstInfo, ...] | None = None


@dataclass
class SealedEpoch:
    """An epoch that was handed over; `result` waits for its commit."""

    number: int
    tables: dict[str, SealedTable]
    bytes: int
    sealed_at: float
    left_out: set[str] = field(default_factory=set)
    objects: list[tuple[Payload, tuple[int, ...]]] = field(default_factory=list)
    written: dict[str, tuple[SstInfo, ...]] = field(default_factory=dict)
    outcome: Future[int] = field(default_factory=Future)
    observed: bool = False

    def result(self, seconds: float | None = None) -> int:
        """Wait for the commit and return its epoch; raises what kept it from being committed, or TimeoutError.

        Tables that were dropped meanwhile are in `left_out`; their rows went with them.
        """
        found = self.outcome.exception(seconds)
        self.observed = True
        if found is not None:
            raise found
        return self.outcome.result()


class SharedBuffer:
    """The pending epochs of one process and store, bounded in bytes; safe for threads."""

    def __init__(
        self,
        reader: Reader,
        commit: CommitWrites,
        refresh: Callable[[], Version],
        limit: int = BUFFER_BYTES,
        clock: Clock = system_clock,
    ) -> None:
        self._clock = clock
        self._reader, self._commit_writes, self._refresh = reader, commit, refresh
        self._counters = reader.files.counters
        self._limit, self._wait_seconds, self._retry_seconds = limit, WAIT_SECONDS, RETRY_SECONDS
        self._changed = threading.Condition()
        self._pending: deque[SealedEpoch] = deque()
        self._bytes, self._waiting, self._numbers = 0, 0, itertools.count(1)
        self._last_error: str | None = None
        self._unseen: list[SealedEpoch] = []
        self._uploads: ThreadPoolExecutor | None = None
        self._commits: ThreadPoolExecutor | None = None
        self._seal_lock = threading.Lock()

    def seal(self, versions: Mapping[str, TableVersion], buffers: Mapping[str, TableBuffer]) -> SealedEpoch:
        """Take over what the buffers hold as one epoch and return at once.

        Where the limit would be passed it waits for earlier epochs to be committed. Raises BufferFull with what the
        buffer is waiting for if that takes longer than `wait_seconds`; the rows stay with the caller then.
        """
        size = sum(buffer.held_bytes for buffer in buffers.values())
        with self._seal_lock:
            self._reserve(size)
            tables = {}
            for name, buffer in buffers.items():
                rows = buffer.drain()
                pieces = (
                    [] if rows is None else self._reader.sort_into_pieces(buffer.table, rows, last_wins=True)
                )
                tables[name] = SealedTable(versions[name], pieces, tuple(buffer.written))
            epoch = SealedEpoch(next(self._numbers), tables, size, self._clock.monotonic())
            with self._changed:
                if self._uploads is None or self._commits is None:
                    self._uploads = ThreadPoolExecutor(UPLOADS, thread_name_prefix="tideline-upload")
                    self._commits = ThreadPoolExecutor(1, thread_name_prefix="tideline-commit")
                self._pending.append(epoch)
                uploaded = self._uploads.submit(self._upload, epoch)
                self._commits.submit(self._finish, epoch, uploaded)
        return epoch

    def discard(self, table: str) -> None:
        """Drop what is pending of one table; the other tables of those epochs are not touched."""
        with self._changed:
            for epoch in self._pending:
                if table in epoch.tables:
                    epoch.left_out.add(table)

    def flush(self, seconds: float | None = None) -> None:
        """Wait until all that was sealed so far is committed; raises what kept an epoch from it that nobody asked after."""
        with self._changed:
            pending = list(self._pending)
        for epoch in pending:
            epoch.outcome.exception(seconds)
        with self._changed:
            unseen, self._unseen = [epoch for epoch in self._unseen if not epoch.observed], []
        if unseen:
            unseen[0].result()

    def close(self) -> None:
        """Commit what is pending and end the threads."""
        try:
            self.flush()
        finally:
            with self._changed:
                pools = [pool for pool in (self._uploads, self._commits) if pool is not None]
                self._uploads = self._commits = None
            for pool in pools:
                pool.shutdown(wait=True)

    def status(self) -> BufferStatus:
        """Return what the buffer holds."""
        with self._changed:
            oldest = self._clock.monotonic() - self._pending[0].sealed_at if self._pending else 0.0
            return BufferStatus(
                len(self._pending), self._bytes, self._limit, self._waiting, oldest, self._last_error
            )

    def overlay_pending(self, known: Callable[[], TableVersion]) -> tuple[Reader, TableVersion]:
        """Return a reader and a version that show the table with all that is pending, at its `committed_epoch`."""
        with self._changed:
            pending = list(self._pending)
            version = known()
        recent = {sst.path for entry in version.log[-LOOKED_BACK:] for sst in entry.ssts}
        held: dict[str, SortedFile] = {}
        log, label = list(version.log), max(version.committed_epoch, version.last_change)
        for epoch in pending:
            name, part = next(
                (
                    (name, part)
                    for name, part in epoch.tables.items()
                    if part.version.table_id == version.table_id
                ),
                ("", None),
            )
            if part is None or name in epoch.left_out:
                continue
            if part.ssts is not None and any(sst.path in recent for sst in part.ssts):
                continue  # committed a moment ago
            label += 1
            infos = [_describe_rows(rows, epoch.number, n) for n, rows in enumerate(part.pieces)]
            held.update(
                (info.sst_id, SortedFile.of(rows)) for info, rows in zip(infos, part.pieces, strict=True)
            )
            log.append(LogEntry(label, (*part.spilled, *infos)))
        return self._reader.with_held(held), replace(version, log=tuple(log), committed_epoch=label)

    def _reserve(self, size: int) -> None:
        started = self._clock.monotonic()
        with self._changed:
            if self._bytes and self._bytes + size > self._limit:
                self._waiting += 1
                fits = self._changed.wait_for(
                    lambda: not self._bytes or self._bytes + size <= self._limit, self._wait_seconds
                )
                self._waiting -= 1
                self._counters.add("stalls")
                self._counters.add("stall_seconds", self._clock.monotonic() - started)
                if not fits:
                    raise BufferFull(
                        f"an epoch of {size:,} bytes has waited {self._wait_seconds:.0f} s: {self._describe()}; "
                        f"write again when the object store answers, or open the store with more buffer_bytes"
                    )
            self._bytes += size

    def _describe(self) -> str:
        oldest = self._clock.monotonic() - self._pending[0].sealed_at if self._pending else 0.0
        return str(
            BufferStatus(
                len(self._pending), self._bytes, self._limit, self._waiting, oldest, self._last_error
            )
        )

    def _upload(self, epoch: SealedEpoch) -> None:
        """Write the epoch's objects; after a failure the same bytes go to the same paths, until the deadline."""
        pieces = [piece for part in epoch.tables.values() for piece in part.pieces]
        epoch.objects = self._reader.plan_objects(pieces)
        deadline, failed = self._clock.monotonic() + self._retry_seconds, 0
        while True:
            try:
                for payload, _ in epoch.objects:
                    if payload.path not in epoch.written:
                        epoch.written[payload.path] = self._reader.write_object(payload)
                break
            except StorageError as error:
                self._last_error = str(error)
                if self._clock.monotonic() > deadline:
                    raise
                failed += 1
                self._clock.sleep(PAUSES.find_wait(failed))
        infos: dict[int, SstInfo] = {}
        for payload, places in epoch.objects:
            infos.update(zip(places, epoch.written[payload.path], strict=True))
        at = itertools.count()
        for part in epoch.tables.values():
            part.ssts = (*part.spilled, *(infos[next(at)] for _ in part.pieces))

    def _finish(self, epoch: SealedEpoch, uploaded: Future[None]) -> None:
        """Commit an epoch in its turn; after a failure those behind it fail too, since they came later."""
        if epoch.outcome.done():  # it failed with one before it
            return
        try:
            uploaded.result()
            number = self._commit(epoch)
        except BaseException as error:
            self._settle(epoch, error=error)
        else:
            self._settle(epoch, number=number)

    def _commit(self, epoch: SealedEpoch) -> int:
        """Commit what is not left out, under the names that the tables have by now."""
        known = {part.version.table_id: part.version for part in epoch.tables.values()}
        for _ in range(len(epoch.tables) + 1):
            parts = {
                known[part.version.table_id].name: part
                for name, part in epoch.tables.items()
                if name not in epoch.left_out
            }
            if not parts:
                break
            try:
                return self._commit_writes(
                    {name: part.version for name, part in parts.items()},
                    {name: part.ssts or () for name, part in parts.items()},
                )
            except (UnknownTable, Conflict):
                found = {table.table_id: table for table in self._refresh().tables.values()}
                changed = {id_ for id_, table in known.items() if found.get(id_, table).name != table.name}
                known.update((id_, found[id_]) for id_ in changed)
                gone = {
                    name
                    for name, part in epoch.tables.items()
                    if part.version.table_id not in found and name not in epoch.left_out
                }
                if not gone and not changed:
                    raise
                epoch.left_out |= gone
        return self._refresh().epoch

    def _settle(
        self, epoch: SealedEpoch, *, number: int | None = None, error: BaseException | None = None
    ) -> None:
        with self._changed:
            failed = [epoch] if error is not None else []
            if error is None:
                self._last_error = None
                self._pending.remove(epoch)
            else:
                self._last_error = str(error)
                failed = list(self._pending)
                self._pending.clear()
            for each in failed or [epoch]:
                self._bytes -= each.bytes
            self._unseen += failed
            self._changed.notify_all()
        if error is None:
            assert number is not None
            epoch.outcome.set_result(number)
        for each in failed:
            if each is epoch:
                each.outcome.set_exception(error)
            else:
                each.outcome.set_exception(
                    StorageError(
                        f"an epoch that was sealed before this one could not be committed: {error}; write it again"
                    )
                )


def _describe_rows(rows: pa.Table, epoch: int, place: int) -> SstInfo:
    """The info of sorted rows that no object holds yet."""
    hashes = rows.column(0)
    return SstInfo(
        path=f"memory/{epoch}",
        offset=place,
        length=rows.nbytes,
        rows=rows.num_rows,
        min_hash=hashes[0].as_py(),
        max_hash=hashes[-1].as_py(),
        tombstones=int(pc.sum(rows.column(OP)).as_py() or 0),
        checksum=0,
        size=rows.nbytes,
    )

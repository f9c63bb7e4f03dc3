"""Hummock: a multi-version, columnar LSM on an object store; get, iter and ingest_batch, and what is built on
them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from engine.errors import Conflict, InvalidRow, StorageError, UnknownTable, WriteStopped
from engine.hummock import compaction, gc
from engine.hummock.altering import altered, options_of
from engine.hummock.background import Background
from engine.hummock.batch import Operation, gather
from engine.hummock.cache import ArrowCache
from engine.hummock.chain import ManifestChain
from engine.hummock.compaction.claim import lapsed
from engine.hummock.epoch import COUNTER_BITS, Clock, epoch_at, system_clock
from engine.hummock.epoch_batch import EpochBatch
from engine.hummock.expiry import watermark_number
from engine.hummock.invariants import unknown_table
from engine.hummock.lookup import padded
from engine.hummock.merge import HashRange
from engine.hummock.metrics import Counters, Metrics, counters_of, snapshot
from engine.hummock.object_store import ObjectStore, open_object_store
from engine.hummock.object_store.retrying import dependable
from engine.hummock.pins import Pin, new_pin, over
from engine.hummock.prefetch import replacements
from engine.hummock.range_scan import KeyRange, scan_range
from engine.hummock.reader import CACHE_BYTES, Reader, batches, cache_folder, known_columns
from engine.hummock.shared_buffer import BUFFER_BYTES, SharedBuffer
from engine.hummock.version import Commit, Compaction, Table, TableVersion, Version
from engine.hummock.write_stop import with_write_stop

TableRef = Table | str
WRITE_STOP_SECONDS = 60.0
STOPPED_LOOK_SECONDS = 0.05
AUTO_COMPACT = ("background", "inline", "off")


class Hummock:
    """One open store; any number of processes and threads may have it open and write at the same time."""

    def __init__(
        self,
        url: str,
        chain: ManifestChain,
        objects: ObjectStore,
        reader: Reader,
        options: dict[str, Any],
        clock: Clock,
        counters: Counters,
    ) -> None:
        self.url, self.options, self.reader, self.counters = url, options, reader, counters
        self._chain, self._objects, self._clock = chain, objects, clock
        self._retention = float(options["retention_seconds"])
        self._compacting = threading.Lock()
        self._background = Background("tideline-background")
        self.buffer = SharedBuffer(
            reader,
            self._commit_writes,
            self.refresh,
            counters,
            limit=int(options["buffer_bytes"]),
            clock=clock,
        )
        """Epochs that were handed over by `epoch(wait=False)` and are not committed yet."""

    @classmethod
    def open(
        cls,
        url: str,
        *,
        cache_dir: str | os.PathLike[str] | None = None,
        cache_bytes: int = CACHE_BYTES,
        buffer_bytes: int = BUFFER_BYTES,
        retention_seconds: float = 600.0,
        auto_compact: str | None = None,
        create: bool = True,
        object_store: ObjectStore | None = None,
        clock: Clock | None = None,
    ) -> Hummock:
        """Open the store at `file:///path` or `s3://bucket/prefix`; with `create` an empty place becomes a
        store.

        History is readable for `retention_seconds` after a compaction. `buffer_bytes` bounds what `epoch(wait=False)`
        takes over before it is committed. `auto_compact`: the small compactions that
        commits ask for run in the `background`, `inline` within the commit, or are `off`; by default in the
        background, and inline where `object_store` or `clock` is given, so that such a run can be repeated step
        by step. Raises StorageError if there is no store to open.
        """
        if auto_compact is None:
            auto_compact = "background" if object_store is None and clock is None else "inline"
        if auto_compact not in AUTO_COMPACT:
            raise StorageError(f'auto_compact="{auto_compact}" is none of {", ".join(AUTO_COMPACT)}')
        given = object_store if object_store is not None else open_object_store(url, create=create)
        counters = counters_of(url) if object_store is None else Counters()
        objects = dependable(given, counters, clock or system_clock)
        chain = ManifestChain(objects, clock or system_clock, counters)
        if chain.is_empty and not create:
            raise StorageError(f"no store at {url}: open it with create=True to make one")
        folder: Path = cache_folder(url, cache_dir)
        options = {
            "cache_dir": str(folder.parent),
            "cache_bytes": cache_bytes,
            "buffer_bytes": buffer_bytes,
            "retention_seconds": retention_seconds,
            "auto_compact": auto_compact,
        }
        if object_store is None and clock is None:
            reader = Reader.open(url, options)
        else:
            reader = Reader(objects, ArrowCache(folder, cache_bytes, counters), clock or system_clock)
        return cls(url, chain, objects, reader, options, clock or system_clock, counters)

    def __enter__(self) -> Hummock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Commit what was handed over, wait for a compaction that runs, and let go of open files.

        Raises what kept an epoch from being committed, if nobody has asked for its result.
        """
        try:
            self.buffer.close()
        finally:
            self._background.close()
            self.reader.files.forget()

    @property
    def version(self) -> Version:
        """The newest version this process knows; no I/O."""
        return self._chain.version

    def metrics(self) -> Metrics:
        """Return what this process did with the store, in numbers, and the files of the version it knows; no I/O."""
        return snapshot(self.counters, self.version)

    @property
    def clock(self) -> Clock:
        """Time as this handle sees it."""
        return self._clock

    @property
    def objects(self) -> ObjectStore:
        """The object store below, requests counted; for looking at single objects."""
        return self._objects

    def refresh(self) -> Version:
        """Look for newer manifests and return the newest version."""
        before = self._chain.version
        version = self._chain.refresh()
        if version is not before and self.options["auto_compact"] != "inline":
            self._prefetch(before, version)
        return version

    def create_table(
        self,
        name: str,
        schema: pa.Schema,
        primary_key: Sequence[str],
        distribution_key: Sequence[str] | None = None,
        **options: Any,
    ) -> Table:
        """Create a table; without a distribution key it is ordered by its primary key as a whole.

        Options: `ttl_seconds` (rows hide so long after they were written), `watermark_column` (see `set_watermark`),
        `retention_seconds` (how long its history is readable, instead of the store's).
        Raises TableExists, and InvalidRow for keys that do not fit the schema.
        """
        keys = tuple(primary_key), tuple(distribution_key or ())
        table = Table(name, schema, *keys, options_of(options))
        self.commit(Commit(create=(table,)))
        return table

    def table(self, name: str) -> Table:
        """Return a table's handle; looks for newer manifests if the name is not known yet. Raises
        UnknownTable.
        """
        return self._known(name).table

    def alter_table(
        self, table: TableRef, add: Sequence[pa.Field] = (), drop: Sequence[str] = (), **options: Any
    ) -> Table:
        """Add columns, which old rows have as null or as their default, drop columns, or change options (None ends one).

        Files stay as they are; the next compaction writes the new form. Raises InvalidRow or InvariantViolation.
        """
        name = _name(table)
        self.refresh()
        before = self._known(name)

        def unchanged(version: Version) -> None:
            now = version.tables.get(name)
            if now is None or now.table != before.table:
                raise Conflict(
                    f"table {name} was altered by another process at the same time: alter it again"
                )

        changed = altered(before.table, add, drop, options)
        return self.commit(Commit(alter={name: changed}, precondition=unchanged)).tables[name].table

    def set_watermark(self, table: TableRef, value: Any) -> int:
        """Hide the rows whose watermark column is below `value`, from the epoch on that is returned, in one commit; later
        compactions delete them. Raises InvariantViolation if the watermark would fall.
        """
        name = _name(table)
        number = watermark_number(self._known(name).table, value)
        return self.commit(Commit(watermarks={name: number})).epoch

    def pin(self, table: TableRef, epoch: int | None = None, *, seconds: float, owner: str = "pin") -> Pin:
        """Keep a table readable from `epoch` on, by default the newest, for `seconds` or until `unpin`.

        Raises Conflict if that epoch is not readable any more.
        """
        version, at = self._at(table, epoch)
        made = new_pin(version.name, at, owner, self._now_ms() + int(seconds * 1000))
        self.commit(Commit(pins={made.table: {made.name: at}}))
        return made

    def unpin(self, pin: Pin) -> None:
        """End a pin before its time."""
        self.commit(Commit(pins={pin.table: {pin.name: None}}))

    def drop_table(self, table: TableRef) -> None:
        """Drop a table; its files go with the next collections, and what is pending of it at once."""
        self.buffer.discard(_name(table))
        self.commit(Commit(drop=(_name(table),)))

    def commit(self, commit: Commit) -> Version:
        """Make `commit` visible, all or nothing, and return the version that begins with it.

        Raises Fenced, Conflict, InvariantViolation, UnknownTable, TableExists, CommitTimeout or Unavailable; nothing
        was committed then. Only after CommitUncertain it may have been: read before writing again.
        """
        written = [name for name, ssts in commit.writes.items() if ssts]
        version = self._admitted(commit, written) if written else self._chain.commit(commit)
        for name in written:
            self._tier_if_due(name)
        return version

    def _admitted(self, commit: Commit, written: Sequence[str]) -> Version:
        """Commit a write, or wait while one of its tables has more runs than reads should merge: the write stop."""
        stopping = with_write_stop(commit, written)
        deadline: float | None = None
        while True:
            try:
                return self._chain.commit(stopping)
            except WriteStopped as stopped:
                now = self._clock.monotonic()
                if deadline is None:
                    self.counters.add("stalls")
                    deadline = now + WRITE_STOP_SECONDS
                elif now > deadline:
                    raise
                self._relieve(stopped.table)
                self.counters.add("stall_seconds", self._clock.monotonic() - now)

    def _relieve(self, name: str) -> None:
        """Lower the number of a table's runs, or give another process time to do it."""
        if self.options["auto_compact"] == "off":
            self._clock.sleep(STOPPED_LOOK_SECONDS)
            self.refresh()
            return
        with self._compacting:
            table = self.refresh().tables.get(name)
            task = None if table is None else compaction.relief(table)
            if task is not None:
                with contextlib.suppress(Conflict, UnknownTable):  # another process was faster
                    self.commit_compaction(name, compaction.run_task(self.reader, task))

    def claim(self, writer: str) -> int:
        """Take over as `writer`: return its new generation; commits of older ones are refused from now on."""
        return self.commit(Commit(claim=writer)).generations[writer]

    def ingest_batch(
        self,
        writes: Mapping[TableRef, Operation | Sequence[Operation]],
        *,
        precondition: Callable[[Version], None] | None = None,
    ) -> int:
        """Write to any number of tables atomically and durably; later operations win. Returns the epoch.

        `precondition` is called with the version each attempt is based on, and raises to give up.
        """
        named = {_name(table): _operations(operations) for table, operations in writes.items()}
        tables = {name: self._known(name) for name in named}
        ssts = gather(self.reader, {name: table.table for name, table in tables.items()}, named)
        return self._commit_writes(tables, ssts, precondition)

    def epoch(self, *, wait: bool = True) -> EpochBatch:
        """Return a batch that gathers writes and commits them on leaving its `with` block.

        Without `wait` leaving hands the epoch to the shared buffer and returns at once: epochs are written and
        committed in their order, the batch's `sealed.result()` waits for the epoch, and reads see it before that
        where they ask for `pending`.
        """
        return EpochBatch(self.reader, self._known, self._commit_writes, None if wait else self.buffer)

    def get(
        self, table: TableRef, key: Mapping[str, Any], epoch: int | None = None, *, pending: bool = False
    ) -> dict[str, Any] | None:
        """Return the row with this primary key, or None; with `pending` as the shared buffer has it already."""
        reader, version, at = self._source(table, epoch, pending)
        keys = _key_row(version.table, key)
        if set(version.primary_key) - set(keys.column_names):
            raise InvalidRow(
                f"table {version.name}: get needs the whole primary key {', '.join(version.primary_key)}"
            )
        _, rows = reader.lookup(version, keys, at, null_safe=True)
        return rows.to_pylist()[0] if rows.num_rows else None

    def multi_get(
        self,
        table: TableRef,
        keys: pa.Table | pa.RecordBatch,
        epoch: int | None = None,
        columns: Sequence[str] | None = None,
        *,
        pending: bool = False,
    ) -> pa.Table:
        """Return one row per key in the keys' order, all null where there is none; `keys` has the primary
        key's columns.
        """
        reader, version, at = self._source(table, epoch, pending)
        if isinstance(keys, pa.RecordBatch):
            keys = pa.Table.from_batches([keys])
        missing = [name for name in version.primary_key if name not in keys.column_names]
        if missing:
            raise InvalidRow(f"table {version.name}: the keys lack {', '.join(missing)} of the primary key")
        keys = keys.select(list(version.primary_key))
        index, rows = reader.lookup(version, keys, at, columns=columns, null_safe=True)
        return padded(index, rows, keys.num_rows)

    def iter(
        self,
        table: TableRef,
        prefix: Mapping[str, Any] | None = None,
        epoch: int | None = None,
        columns: Sequence[str] | None = None,
        hash_range: HashRange | None = None,
        range: KeyRange | None = None,
        *,
        pending: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows in (hash, primary key) order: all, those of a key prefix, or those in a range.

        A prefix covers the distribution key, or leading primary-key columns where there is none. `range` =
        (low, high), half open, each a mapping of leading primary-key columns or None; only for tables without
        a distribution key.
        """
        reader, version, at = self._source(table, epoch, pending)
        names = known_columns(version.table, columns)
        if range is not None:
            return scan_range(reader, version, at, range, names)
        if prefix:
            _, rows = reader.lookup(
                version, _key_row(version.table, prefix), at, columns=names, null_safe=True
            )
            return batches(rows, pa.schema([version.schema.field(name) for name in names]))
        return reader.scan(version, at, columns=names, hash_range=hash_range)

    def iter_log(self, table: TableRef, after: int, upto: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield one net change per key in (after, upto]: `_op` ("insert", "update", "delete"), the row,
        `_old_<column>`.

        Of a deletion the row holds the key only. Raises EpochExpired if the log no longer reaches back to
        `after`.
        """
        version, at = self._at(table, upto)
        version.changes(after, at)
        return self.reader.log(version, after, at)

    def compact(
        self, table: TableRef, picker: compaction.Picker | None = None
    ) -> compaction.CompactionReport:
        """Merge what `picker` picks, by default everything, to one run without deletions; older epochs stay
        readable within the retention.
        """
        return self._compact(_name(table), picker or compaction.Full())

    def compact_l0(self, table: TableRef) -> compaction.CompactionReport:
        """Merge the newest runs of like size to one; cheap, the cost follows the recent changes."""
        return self._compact(_name(table), compaction.Tier())

    def gc(self, dry_run: bool = False, grace_seconds: float = 3600.0) -> gc.GcReport:
        """Delete files that nothing needs, orphans included, and old manifests; history beyond the retention
        goes first.
        """
        if not dry_run:
            self._truncate()
        return gc.collect(
            self._objects, self._chain, now=self._clock(), grace_seconds=grace_seconds, dry_run=dry_run
        )

    def _prefetch(self, before: Version, after: Version) -> None:
        """Decode in the background what a compaction elsewhere made of files that are in use here."""
        for name, table in after.tables.items():
            known = before.tables.get(name)
            due = [] if known is None or known is table else replacements(known, table, self.reader.files)
            if due:
                self._background.offer(
                    f"prefetch of {name}", lambda due=due: [self.reader.files.whole(sst) for sst in due]
                )

    def next_task(self, name: str) -> compaction.CompactionTask | None:
        """Return what a compactor should do for a table of the known version now, or None; no I/O."""
        version = self.version
        table = version.tables.get(name)
        return (
            None if table is None else compaction.next_task(table, version, self._retained_from(table.table))
        )

    def _truncate(self) -> None:
        version = self.refresh()
        pins, claims = over(version, self._now_ms()), lapsed(version, self._clock())
        if pins or claims:
            version = self.commit(Commit(pins=pins, catalog=claims))
        due = {}
        for name, table in version.tables.items():
            upto = self._retained_from(table.table)
            held = table.held_from(upto)
            if len(table.generations) > 1 and table.generations[1].upto <= held:
                due[name] = upto
        if due:
            self.commit(Commit(truncate=due))

    def _retained_from(self, table: Table) -> int:
        own = table.options.retention_seconds
        return epoch_at(self._clock() - (self._retention if own is None else own))

    def _now_ms(self) -> int:
        return epoch_at(self._clock()) >> COUNTER_BITS

    def _tier_if_due(self, name: str) -> None:
        table, how = self.version.tables.get(name), self.options["auto_compact"]
        if table is None or how == "off" or not compaction.tier_is_due(table):
            return
        if how == "inline":
            self._background.run(name, lambda: self._tier(name))
        else:
            self._background.offer(f"compaction of {name}", lambda: self._tier(name))

    def _tier(self, name: str) -> None:
        table = self.version.tables.get(name)
        if table is None:
            return
        task = compaction.Tier(compaction.TIER_ROWS, compaction.TIER_RUNS).pick(table)
        if task is None or not self._compacting.acquire(blocking=False):
            return
        try:
            self.commit_compaction(name, compaction.run_task(self.reader, task))
        except (Conflict, UnknownTable):
            return  # another process was faster, or the table is gone: nothing to do
        finally:
            self._compacting.release()

    def _compact(self, name: str, picker: compaction.Picker) -> compaction.CompactionReport:
        started = time.perf_counter()
        self.refresh()
        with self._compacting:
            table = self._known(name)
            task = picker.pick(table)
            if task is not None:
                hidden = compaction.hidden_at(table, self._retained_from(table.table))
                task = dataclasses.replace(task, hidden_at=hidden)
            done = None if task is None else compaction.run_task(self.reader, task)
            if done is not None:
                self.commit_compaction(name, done)
        return compaction.report_of(table, done, started)

    def commit_compaction(
        self, name: str, done: Compaction, catalog: Mapping[str, str | None] | None = None
    ) -> None:
        """Make a compaction visible, with entries of the catalog; raises Conflict if its inputs were replaced meanwhile."""
        table = self.version.tables.get(name)
        upto = {} if table is None else {name: self._retained_from(table.table)}
        self._chain.commit(Commit(compactions={name: done}, truncate=upto, catalog=catalog or {}))

    def _commit_writes(
        self,
        tables: Mapping[str, TableVersion],
        ssts: Mapping[str, Any],
        precondition: Callable[[Version], None] | None = None,
    ) -> int:
        ids = {name: table.table_id for name, table in tables.items()}

        def same_tables(version: Version) -> None:
            for name, table_id in ids.items():
                now = version.tables.get(name)
                if now is None:
                    raise unknown_table(name, version.tables)
                if now.table_id != table_id:
                    raise Conflict(
                        f"table {name} was dropped and created again during the write: write again"
                    )
            if precondition is not None:
                precondition(version)

        return self.commit(Commit(writes=ssts, precondition=same_tables)).epoch

    def _known(self, name: str) -> TableVersion:
        found = self.version.tables.get(name)
        if found is None:
            found = self.refresh().tables.get(name)
        if found is None:
            raise unknown_table(name, self.version.tables)
        return found

    def _source(self, table: TableRef, epoch: int | None, pending: bool) -> tuple[Reader, TableVersion, int]:
        """What a read works from: the committed version, or with what the shared buffer holds above it."""
        if not pending:
            return self.reader, *self._at(table, epoch)
        if epoch is not None:
            raise StorageError("a read of what is pending names no epoch: it has none before its commit")
        self._known(_name(table))
        reader, version = self.buffer.over(lambda: self._known(_name(table)))
        return reader, version, self._newest(version)

    def _at(self, table: TableRef, epoch: int | None) -> tuple[TableVersion, int]:
        """The table's version and the epoch to read, by default the newest one; a newer epoch than known is
        looked for.
        """
        if epoch is not None and epoch > self.version.epoch:
            self.refresh()
        version = self._known(_name(table))
        return version, self._newest(version) if epoch is None else epoch

    def _newest(self, version: TableVersion) -> int:
        """The epoch of a read that names none: the newest; of a table whose rows expire, the present."""
        newest = max(version.committed_epoch, version.safe_epoch)
        expires = version.table.options.ttl_seconds is not None
        return max(newest, epoch_at(self._clock())) if expires else newest


def _name(table: TableRef) -> str:
    return table if isinstance(table, str) else table.name


def _operations(operations: Operation | Sequence[Operation]) -> Sequence[Operation]:
    return operations if isinstance(operations, (list, tuple)) else [operations]  # type: ignore[list-item]


def _key_row(table: Table, key: Mapping[str, Any]) -> pa.Table:
    """One row of key columns, typed as the table's."""
    arrays = {}
    for name, value in key.items():
        if name not in table.schema.names:
            raise InvalidRow(
                f"table {table.name} has no column {name}; it has {', '.join(table.schema.names)}"
            )
        kind = table.schema.field(name).type
        try:
            arrays[name] = pa.array([value], kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise InvalidRow(f"table {table.name}: {value!r} is no {kind} for column {name}") from error
    return pa.table(arrays)

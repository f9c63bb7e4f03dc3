"""Hummock: a multi-version, columnar LSM on an object store; get, iter and ingest_batch, and what is built on them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, get_args

import numpy as np
import pyarrow as pa

from engine.errors import BranchDropped, InvalidRow, StorageError, UnknownStore
from engine.hummock import compaction
from engine.hummock.background import Background
from engine.hummock.branches import (
    Branch,
    create_branch,
    drop_branch,
    find_store,
    list_branches,
    open_address,
)
from engine.hummock.epoch import COUNTER_BITS, Clock, epoch_at, system_clock
from engine.hummock.manifests.alter import apply_alter, replace_options
from engine.hummock.manifests.chain import ManifestChain
from engine.hummock.manifests.delta import Delta
from engine.hummock.manifests.invariants import describe_unknown_branch
from engine.hummock.manifests.preconditions import Precondition, require_same_tables, require_unaltered
from engine.hummock.metrics import Counters, Metrics, build_metrics, get_counters
from engine.hummock.monitoring.prices import Spending, sum_spending
from engine.hummock.object_store import ObjectStore
from engine.hummock.object_store.retrying import wrap_with_retries
from engine.hummock.reads.look_ahead import FETCHES
from engine.hummock.reads.lookup import pad_rows
from engine.hummock.reads.merge import HashRange
from engine.hummock.reads.prefetch import prefetch
from engine.hummock.reads.range_scan import ScanBounds, scan_range
from engine.hummock.reads.reader import (
    Reader,
    choose_cache,
    choose_cache_folder,
    resolve_columns,
    split_batches,
)
from engine.hummock.reads.verify_assumptions import verify_commit
from engine.hummock.rows.expiry import encode_watermark
from engine.hummock.rows.key_rows import build_key_row, build_whole_key_row, select_whole_keys, take_first_row
from engine.hummock.snapshots import Snapshots
from engine.hummock.sorted_files.arrow_cache import CACHE_BYTES, ArrowCache
from engine.hummock.sorted_files.sst import FILES
from engine.hummock.store_clock import StoreClock
from engine.hummock.upkeep import gc
from engine.hummock.upkeep.backup_holds import HOLD_PREFIX
from engine.hummock.upkeep.fingerprints import (
    FingerprintCheck,
    FingerprintStatus,
    RangeSums,
    Tell,
    describe_fingerprint,
    explain_absence,
    find_damaged_files,
    scan_table,
)
from engine.hummock.upkeep.maintenance import AutoCompact, Maintenance, StoreParts
from engine.hummock.upkeep.pins import Pin, create_pin
from engine.hummock.version import Commit, Compaction, Fingerprint, Table, TableVersion, Version
from engine.hummock.writes.batch import TableRef, Writes, get_table_name, list_operations, write_operations
from engine.hummock.writes.epoch_batch import EpochBatch
from engine.hummock.writes.row_ids import RowIds
from engine.hummock.writes.shared_buffer import BUFFER_BYTES, SharedBuffer


class Hummock:
    """One open store; any number of processes and threads may have it open and write at the same time.

    >>> store = Hummock.open(f"{folder}/store")
    >>> schema = pa.schema([("id", pa.int64()), ("item", pa.string())])
    >>> orders = store.create_table("orders", schema, primary_key=["id"])
    >>> first = store.ingest_batch({orders: Put(pa.table({"id": [1, 2], "item": ["tea", "milk"]}))})
    >>> second = store.ingest_batch({orders: Put(pa.table({"id": [2], "item": ["coffee"]}))})
    >>> store.get(orders, {"id": 2}), store.get(orders, {"id": 2}, epoch=first)
    ({'id': 2, 'item': 'coffee'}, {'id': 2, 'item': 'milk'})
    """

    def __init__(self, url: str, parts: StoreParts, options: dict[str, Any]) -> None:
        self.url, self.options, self.reader = url, options, parts.reader
        self.counters = parts.reader.files.counters
        self._chain, self._objects, self._clock = parts.chain, parts.objects, parts.clock
        self._place = parts.place
        self._background = Background("tideline-background")
        self.maintenance = Maintenance(
            parts,
            self._background,
            self.refresh,
            retention_seconds=float(options["retention_seconds"]),
            auto_compact=options["auto_compact"],
        )
        """Its steps one by one: what `compact` and `gc` are made of."""
        limit = int(options["buffer_bytes"])
        self.buffer = SharedBuffer(parts.reader, self._commit_writes, self.refresh, limit, parts.clock)
        """Epochs that were handed over by `epoch(wait=False)` and are not committed yet."""
        self._news_seconds = float(options["news_seconds"])
        self._row_ids = RowIds(self.claim)
        self._snapshots = self._open_snapshots()

    def _open_snapshots(self) -> Snapshots:
        retention_start = self.maintenance.find_retention_start
        return Snapshots(self._chain, self.refresh, self.reader, self.buffer, self._clock, retention_start)

    @classmethod
    def open(
        cls,
        url: str,
        *,
        cache_dir: str | os.PathLike[str] | None = None,
        cache_bytes: int = CACHE_BYTES,
        buffer_bytes: int = BUFFER_BYTES,
        retention_seconds: float = 600.0,
        auto_compact: AutoCompact | None = None,
        create: bool = True,
        news_seconds: float = 0.0,
        object_store: ObjectStore | None = None,
        clock: Clock | None = None,
        fetches: int | None = None,
    ) -> Hummock:
        """Open the store at `file:///path` or `s3://bucket/prefix`; with `create` an empty place becomes a store.

        History is readable for `retention_seconds` after a compaction. `buffer_bytes` bounds what `epoch(wait=False)` takes over
        before it is committed. What others have committed is looked for every `news_seconds` at most. `auto_compact`: the small
        compactions that commits ask for run in the `background`, `inline` within the commit, or are `off`. So many `fetches` of
        files that the cache lacks are under way at a time. By default compactions run in the background and 16 files are
        fetched; inline and one where `object_store` or `clock` is given, so that such a run can be repeated step by step.
        Raises StorageError if there is no store to open.
        """
        stepwise = object_store is not None or clock is not None
        fetches = fetches or (1 if stepwise else FETCHES)
        if auto_compact is None:
            auto_compact = "inline" if stepwise else "background"
        if auto_compact not in (known := get_args(AutoCompact)):
            raise StorageError(f'auto_compact="{auto_compact}" is none of {", ".join(known)}')
        address = open_address(url, create=create, objects=object_store)
        counters = Counters() if object_store is not None or address.steps else get_counters(url)
        objects = wrap_with_retries(address.root, counters, clock or system_clock)
        store_clock = StoreClock(clock or system_clock, objects)
        place = find_store(address, objects, store_clock)
        url, objects = place.url, place.objects
        chain = ManifestChain(objects, store_clock, counters, place.manifests)
        if chain.version.closed:
            raise BranchDropped(f"{url} is being dropped: open its parent, or another branch")
        if chain.is_empty and not create and not place.place:
            raise UnknownStore(f"no store at {url}: open it with create=True to make one")
        folder = choose_cache_folder(url, cache_dir)
        options = {
            "cache_dir": choose_cache(cache_dir),
            "cache_bytes": cache_bytes,
            "buffer_bytes": buffer_bytes,
            "retention_seconds": retention_seconds,
            "news_seconds": news_seconds,
            "auto_compact": auto_compact,
            "fetches": fetches,
        }
        if stepwise:
            files = f"{place.place}{FILES}"
            cache = ArrowCache(folder, cache_bytes, counters)
            reader = Reader(objects, cache, store_clock, fetches, files)
        else:
            reader = Reader.open(url, options)
        return cls(url, StoreParts(chain, objects, reader, store_clock, place), options)

    def __enter__(self) -> Hummock:
        return self

    def __exit__(self, *_: object) -> None:
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
        return build_metrics(self.counters, self.version)

    def spending(self) -> Spending | None:
        """Return what the newest commits have asked of the store; None where there are none."""
        return sum_spending(self._chain.list_recent_deltas())

    def iterate_deltas(self) -> Iterator[Delta]:
        """Yield what each commit of the known version added, newest first, as far back as manifests are stored."""
        return self._chain.iterate_deltas()

    def find_version(self, number: int) -> Version | None:
        """Return the version after one of the manifests, None if it is not stored any more; a few GETs."""
        return self._chain.find_version(number)

    def check_readable(self, table: TableVersion, epoch: int) -> None:
        """Raise EpochExpired if rows of a table that lived at an epoch may be deleted, by their time to live."""
        self._snapshots.check_readable(table, epoch)

    def find_first_readable(self, table: TableVersion) -> int:
        """Return the oldest epoch at which a table can be read."""
        return self._snapshots.find_first_readable(table)

    @property
    def clock(self) -> StoreClock:
        """The time that this handle decides by: the earlier of the machine's and the object store's."""
        return self._clock

    @property
    def is_here(self) -> bool:
        """Whether its objects are files of this machine, so that a request costs no way."""
        return self._objects.local_path("manifest") is not None

    @property
    def objects(self) -> ObjectStore:
        """The object store below, requests counted; for looking at single objects."""
        return self._objects

    def refresh(self) -> Version:
        """Look for newer manifests and return the newest version; not where one did less than `news_seconds` ago."""
        before = self._chain.version
        if self._news_seconds and self._clock.monotonic() - self._chain.known_at < self._news_seconds:
            return before
        version = self._chain.refresh(self._news_seconds)
        if version.closed:
            raise BranchDropped(f"{self.url} was dropped: open its parent, or another branch")
        if version is not before and self.options["auto_compact"] != "inline":
            prefetch(before, version, self.reader.files, self._background)
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
        table = Table(name, schema, *keys, replace_options(options))
        self.commit(Commit(create=(table,)))
        return table

    def table(self, name: str) -> Table:
        """Return a table's handle; looks for newer manifests if the name is not known yet. Raises UnknownTable."""
        return self._snapshots.find_table(name).table

    def alter_table(
        self, table: TableRef, add: Sequence[pa.Field[Any]] = (), drop: Sequence[str] = (), **options: Any
    ) -> Table:
        """Add columns, which old rows have as null or as their default, drop columns, or change options (None ends one).

        Files stay as they are; the next compaction writes the new form. Raises InvalidRow or InvariantViolation.
        """
        name = get_table_name(table)
        self.refresh()
        before = self._snapshots.find_table(name)
        changed = apply_alter(before.table, add, drop, options)
        return (
            self.commit(Commit(alter={name: changed}, precondition=require_unaltered(before)))
            .tables[name]
            .table
        )

    def set_watermark(self, table: TableRef, value: Any) -> int:
        """Hide the rows whose watermark column is below `value`, from the epoch on that is returned, in one commit; later
        compactions delete them. Raises InvariantViolation if the watermark would fall.
        """
        name = get_table_name(table)
        number = encode_watermark(self._snapshots.find_table(name).table, value)
        return self.commit(Commit(watermarks={name: number})).epoch

    def pin(self, table: TableRef, epoch: int | None = None, *, seconds: float, owner: str = "pin") -> Pin:
        """Keep a table readable from `epoch` on, by default the newest, for `seconds` or until `unpin`.

        Raises Conflict or EpochExpired if that epoch is not readable any more.
        """
        version, at = self._snapshots.resolve(get_table_name(table), epoch)
        until = epoch_at(self._clock.stamp()) >> COUNTER_BITS
        made = create_pin(version.name, at, owner, until + int(seconds * 1000))
        self.commit(Commit(pins={made.table: {made.name: at}}))
        return made

    def unpin(self, pin: Pin) -> None:
        """End a pin before its time."""
        self.commit(Commit(pins={pin.table: {pin.name: None}}))

    def drop_table(self, table: TableRef) -> None:
        """Drop a table; its files go with the next collections, and what is pending of it at once."""
        self.buffer.discard(get_table_name(table))
        self.commit(Commit(drop=(get_table_name(table),)))

    def commit(self, commit: Commit) -> Version:
        """Make `commit` visible, all or nothing, and return the version that begins with it.

        Raises Fenced, Conflict, InvariantViolation, UnknownTable, TableExists, CommitTimeout, Unavailable or ClaimBroken;
        nothing was committed then. Only after CommitUncertain it may have been: read before writing again.
        """
        commit = verify_commit(commit, self.reader.files)
        tables = [name for name, ssts in commit.writes.items() if ssts]
        return self.maintenance.commit_writes(commit, tables) if tables else self._chain.commit(commit)

    def hand_over(self, commit: Commit) -> Version:
        """Commit; a store that can have commits on their way does not wait for it."""
        return self.commit(commit)

    def claim(self, writer: str) -> int:
        """Take over as `writer`: return its new generation; commits of older ones are refused from now on."""
        return self.commit(Commit(claim=writer)).generations[writer]

    def row_ids(self, count: int) -> np.ndarray:
        """Return ids for rows without a key, int64, ascending, that no other writer of the store ever gives."""
        return self._row_ids.allocate(count)

    def ingest_batch(
        self,
        writes: Mapping[Table, Writes] | Mapping[str, Writes] | Mapping[TableRef, Writes],
        *,
        precondition: Precondition | None = None,
        watermarks: Mapping[str, int] = MappingProxyType({}),
        replaced: Mapping[str, pa.Table] = MappingProxyType({}),
    ) -> int:
        """Write to any number of tables atomically and durably; later operations win. Returns the epoch.

        `precondition` is called with the version each attempt is based on, and raises to give up. `watermarks`, as numbers by
        table, hide the rows below them from the epoch on. `replaced` are, by table, all rows that stand under the written keys,
        if the precondition keeps them there: by them its fingerprint is moved on.
        """
        named = {get_table_name(table): list_operations(operations) for table, operations in writes.items()}
        tables = {name: self._snapshots.find_table(name) for name in named}
        found = {name: table.table for name, table in tables.items()}
        ssts = write_operations(self.reader, found, named, replaced)
        same = require_same_tables(tables, precondition)
        return self.commit(Commit(writes=ssts, watermarks=watermarks, precondition=same)).epoch

    def epoch(self, *, wait: bool = True) -> EpochBatch:
        """Return a batch that gathers writes and commits them on leaving its `with` block.

        Without `wait` leaving hands the epoch to the shared buffer and returns at once: epochs are written and
        committed in their order, the batch's `sealed.result()` waits for the epoch, and reads see it before that
        where they ask for `pending`.
        """
        queue = None if wait else self.buffer
        return EpochBatch(self.reader, self._snapshots.find_table, self._commit_writes, queue)

    def get(
        self, table: TableRef, key: Mapping[str, Any], epoch: int | None = None, *, pending: bool = False
    ) -> dict[str, Any] | None:
        """Return the row with this primary key, or None; with `pending` as the shared buffer has it already."""
        reader, version, at = self._snapshots.resolve_source(get_table_name(table), epoch, pending)
        _, rows = reader.lookup(version, build_whole_key_row(version.table, key), at, null_safe=True)
        return take_first_row(rows)

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
        reader, version, at = self._snapshots.resolve_source(get_table_name(table), epoch, pending)
        whole_keys = select_whole_keys(version.table, keys)
        index, rows = reader.lookup(version, whole_keys, at, columns=columns, null_safe=True)
        return pad_rows(index, rows, whole_keys.num_rows)

    def iter(
        self,
        table: TableRef,
        prefix: Mapping[str, Any] | None = None,
        epoch: int | None = None,
        columns: Sequence[str] | None = None,
        hash_range: HashRange | None = None,
        range: ScanBounds | None = None,
        *,
        pending: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows in (hash, primary key) order: all, those of a key prefix, or those in a range.

        A prefix covers the distribution key, or leading primary-key columns where there is none. `range` =
        (low, high), half open, each a mapping of leading primary-key columns or None; only for tables without
        a distribution key.
        """
        reader, version, at = self._snapshots.resolve_source(get_table_name(table), epoch, pending)
        names = resolve_columns(version.table, columns)
        if range is not None:
            return scan_range(reader, version, at, range, names)
        if prefix:
            _, rows = reader.lookup(
                version, build_key_row(version.table, prefix), at, columns=names, null_safe=True
            )
            return split_batches(rows, pa.schema([version.schema.field(name) for name in names]))
        return reader.scan(version, at, columns=names, hash_range=hash_range)

    def iter_log(self, table: TableRef, after: int, upto: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield one net change per key in (after, upto]: `_op` ("insert", "update", "delete"), the row, `_old_<column>`.

        Of a deletion the row holds the key only. Raises EpochExpired if the log no longer reaches back to `after`.
        """
        version, at = self._snapshots.resolve(get_table_name(table), upto)
        self._snapshots.check_readable(version, after)
        version.list_changes(after, at)
        return self.reader.read_log(version, after, at)

    def compact(
        self,
        table: TableRef,
        picker: compaction.Picker | None = None,
        executor: compaction.RangeExecutor | None = None,
    ) -> compaction.CompactionReport:
        """Merge what `picker` picks, by default all, to one run, large merges by `executor`; older epochs stay readable."""
        return self.maintenance.compact(get_table_name(table), picker or compaction.Full(), executor)

    def compact_l0(
        self, table: TableRef, executor: compaction.RangeExecutor | None = None
    ) -> compaction.CompactionReport:
        """Merge the newest runs of like size to one; cheap, the cost follows the recent changes."""
        return self.maintenance.compact(get_table_name(table), compaction.Tier(), executor)

    def gc(self, dry_run: bool = False, grace_seconds: float = 3600.0) -> gc.GcReport:
        """Delete files that nothing needs, orphans and old manifests too; history beyond the retention goes first."""
        return self.maintenance.collect(dry_run=dry_run, grace_seconds=grace_seconds)

    def fingerprint(self, table: TableRef) -> FingerprintStatus:
        """Return the fingerprint of a table's rows, which is brought on first where it is behind, or why it has none.

        >>> store = Hummock.open(f"{folder}/store")
        >>> schema = pa.schema([("id", pa.int64()), ("item", pa.string())])
        >>> one, two = (store.create_table(name, schema, primary_key=["id"]) for name in ("one", "two"))
        >>> rows = pa.table({"id": [1, 2], "item": ["tea", "milk"]})
        >>> epochs = store.ingest_batch({one: Put(rows)}), store.ingest_batch({two: [Put(rows.slice(1)), Put(rows.slice(0, 1))]})
        >>> store.fingerprint(one).value == store.fingerprint(two).value
        True
        """
        name = get_table_name(table)
        self._snapshots.find_table(name)
        self.maintenance.move_fingerprints([name])
        return describe_fingerprint(self._snapshots.find_table(name))

    def verify_fingerprint(
        self, table: TableRef, tell: Tell = lambda read, rows: None, sums: RangeSums | None = None
    ) -> FingerprintCheck:
        """Read all rows of a table from the object store and hold them against its fingerprint; one that has none keeps that.

        `tell` gets the rows that were read, of about how many; `sums` does it elsewhere. Raises InvalidRow for a table that can
        have no fingerprint, and EpochExpired if its history was let go meanwhile.
        """
        name = get_table_name(table)
        self._snapshots.find_table(name)
        self.maintenance.move_fingerprints([name])
        version = self._snapshots.find_table(name)
        if not version.table.has_fingerprint:
            raise InvalidRow(f"table {name} has no fingerprint: {explain_absence(version.table)}")
        kept = version.fingerprint
        epoch = version.committed_epoch if kept is None else kept.epoch
        found, rows = scan_table(self.reader, version, epoch, tell, sums)
        if kept is None:
            self.maintenance.keep_fingerprint(name, Fingerprint(epoch, found, version.table.form))
            return FingerprintCheck(name, epoch, rows, found, None)
        damaged = () if found == kept.value else find_damaged_files(self.reader, version, epoch)
        return FingerprintCheck(name, epoch, rows, found, kept.value, damaged)

    def create_branch(self, name: str) -> Branch:
        """Begin a branch with all that is committed: a store of its own, at the address that is returned, in one commit.

        It shares the files, which stay until it is dropped. Raises BranchExists, and StorageError for a name of a backup's hold.
        """
        if name.startswith(HOLD_PREFIX):
            raise StorageError(f'"{name}" cannot name a branch: {HOLD_PREFIX} begins the holds of backups')
        return create_branch(self._chain, self.url, name)

    def list_branches(self) -> tuple[Branch, ...]:
        """Return the branches of the store, the oldest first."""
        return list_branches(self.url, self.refresh())

    def read_branch_start(self, name: str) -> Version:
        """Return the version that a branch begins with, whose files stay while it is there; a few GETs. Raises UnknownStore."""
        version = self.refresh()
        point = version.branches.get(name)
        if point is None:
            raise UnknownStore(describe_unknown_branch(name, version))
        return version if version.number == point.number else self._chain.read_version(point.number)

    def drop_branch(self, name: str) -> int:
        """End a branch for everybody and delete the files that it has written; return how many.

        Raises UnknownStore, and Conflict where it has branches of its own.
        """
        return drop_branch(self._place, self._chain, name, self._clock)

    @property
    def is_branch(self) -> bool:
        """Whether it is a branch of another store."""
        return bool(self._place.place)

    def next_task(self, name: str) -> compaction.CompactionTask | None:
        """Return what a compactor should do for a table of the known version now, or None; no I/O."""
        return self.maintenance.next_task(name)

    def commit_compaction(
        self, name: str, done: Compaction, catalog: Mapping[str, str | None] | None = None
    ) -> None:
        """Make a compaction visible, with entries of the catalog; raises Conflict if its inputs were replaced meanwhile."""
        self.maintenance.commit_compaction(name, done, catalog)

    def _commit_writes(
        self,
        tables: Mapping[str, TableVersion],
        ssts: Mapping[str, Any],
        precondition: Precondition | None = None,
    ) -> int:
        return self.commit(Commit(writes=ssts, precondition=require_same_tables(tables, precondition))).epoch

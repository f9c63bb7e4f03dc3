"""Reading and writing files of tables without the manifests: all that a Spark task needs is a table version
and this.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import hashlib
import os
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from engine.errors import InvalidRow
from engine.hummock.clock import system_clock
from engine.hummock.metrics import get_counters
from engine.hummock.object_store import ObjectStore, open_object_store
from engine.hummock.object_store.branch import find_branch_place, find_root_url
from engine.hummock.object_store.retrying import wrap_with_retries
from engine.hummock.object_store.spooled import SpooledObjectStore
from engine.hummock.reads.change_log import NetChanges, as_log, as_weights, read_net_changes
from engine.hummock.reads.first_rows import find_first_rows
from engine.hummock.reads.key_history import KeyHistory, read_key_history
from engine.hummock.reads.key_range import KeyRange
from engine.hummock.reads.look_ahead import FETCHES, build_loader
from engine.hummock.reads.lookup import MOST_MATCHES, TooManyMatches, find_in_parts, find_rows, prepare_keys
from engine.hummock.reads.merge import HashRange, list_newest_first, merge_parts
from engine.hummock.reads.row_count import count_rows
from engine.hummock.reads.snapshot_changes import compare_snapshots, compare_tables, is_log_too_long
from engine.hummock.reads.write_times import WRITTEN_AT, WRITTEN_AT_TYPE, WriteTimes
from engine.hummock.rows.expiry import expiry_at
from engine.hummock.sorted_files.arrow_cache import CACHE_BYTES, ArrowCache
from engine.hummock.sorted_files.assumption_checks import check_first_rows, check_rows_at_most
from engine.hummock.sorted_files.bundle import (
    OpenBundle,
    Payload,
    plan_payloads,
    write_payload,
    write_payloads,
)
from engine.hummock.sorted_files.file_fingerprints import with_fingerprint, with_replaced
from engine.hummock.sorted_files.file_set import FileSet, SortedFile
from engine.hummock.sorted_files.sst import FILES, sort_rows, split_pieces, to_file_rows
from engine.hummock.store_clock import StoreClock
from engine.hummock.version import HASH, OP, SstInfo, Table, TableVersion
from engine.verification import should_verify

BATCH_ROWS = 131_072

_readers: dict[tuple[Any, ...], Reader] = {}
_bundle: ContextVar[tuple[Reader, OpenBundle] | None] = ContextVar("bundle", default=None)
"""The object that this thread's small files go into, and the reader that writes them."""
_readers_lock = threading.Lock()


class Reader:
    """The files of one store as a process sees them; safe for threads, and any number of processes share the
    cache.
    """

    def __init__(
        self,
        store: ObjectStore,
        cache: ArrowCache,
        clock: StoreClock | None = None,
        fetches: int = 1,
        folder: str = FILES,
    ) -> None:
        self._store, self._clock, self._folder = store, clock or StoreClock(system_clock, store), folder
        self.files = FileSet(store, cache, fetches)

    @classmethod
    def open(cls, url: str, options: Mapping[str, Any] | None = None) -> Reader:
        """Return this process's reader of the store at `url`; `options` as `Hummock.options` gives them."""
        settings = dict(options or {})
        key = (os.getpid(), url, *sorted((name, str(value)) for name, value in settings.items()))
        with _readers_lock:
            found = _readers.get(key)
            if found is None:
                folder = choose_cache_folder(url, settings.get("cache_dir"))
                counters = get_counters(url)
                cache = ArrowCache(folder, int(settings.get("cache_bytes", CACHE_BYTES)), counters)
                objects = wrap_with_retries(open_object_store(url, create=False), counters)
                if settings.get("spool"):
                    objects = SpooledObjectStore(objects, Path(settings["spool"]))
                fetches, own = int(settings.get("fetches", FETCHES)), f"{find_branch_place(url)}{FILES}"
                found = _readers[key] = cls(objects, cache, fetches=fetches, folder=own)
            return found

    def scan(
        self,
        table: TableVersion,
        epoch: int,
        *,
        columns: Sequence[str] | None = None,
        hash_range: HashRange | None = None,
        written_at: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of `table` at `epoch` in (hash, key) order; `hash_range` is inclusive.

        With `written_at` the last column is WRITTEN_AT. Raises EpochExpired below the safe epoch, InvalidRow for an unknown
        column.
        """
        names = resolve_columns(table.table, columns)
        ssts = list_newest_first(table.as_of(epoch))
        expiry = expiry_at(table, epoch)
        hiding = [] if expiry is None else expiry.columns
        needed = list(dict.fromkeys([HASH, *table.primary_key, OP, *names, *hiding]))
        fields = [table.schema.field(name) for name in names]
        times = WriteTimes(table, epoch) if written_at else None
        if times is not None:
            names, fields = [*names, WRITTEN_AT], [*fields, pa.field(WRITTEN_AT, WRITTEN_AT_TYPE)]
        schema = pa.schema(fields)

        load = build_loader(self.files, needed, table.schema)

        def read(ssts: Sequence[SstInfo], later: Iterable[SstInfo]) -> Sequence[pa.Table]:
            found = load(ssts, later)
            return found if times is None else list(map(times.append_time, found, ssts))

        parts = merge_parts(
            ssts,
            read,
            table.primary_key,
            hash_range,
            keep_tombstones=False,
            expiry=expiry,
        )
        found = 0
        for rows in parts:
            found += rows.num_rows
            yield from split_batches(rows.select(names), schema)
        if should_verify():
            check_rows_at_most(table.name, found, table.as_of(epoch))

    def read_changes(
        self,
        table: TableVersion,
        after: int,
        upto: int,
        *,
        columns: Sequence[str] | None = None,
        hash_range: HashRange | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the net change in (after, upto] as signed rows: the columns and `_w`, -1 the old row, +1 the
        new one.

        Changes that `columns` do not show are left out. Raises EpochExpired if the log no longer reaches back
        to `after`.
        """
        names = resolve_columns(table.table, columns)
        for change in read_net_changes(self.files, table, after, upto, names, hash_range):
            signed = as_weights(change, table, names)
            yield from split_batches(signed, signed.schema)

    def read_log(self, table: TableVersion, after: int, upto: int) -> Iterator[pa.RecordBatch]:
        """Yield the net change in (after, upto] as log rows: `_op`, the row, `_old_<column>`."""
        for change in read_net_changes(self.files, table, after, upto, table.schema.names, None):
            rows = as_log(change, table)
            yield from split_batches(rows, rows.schema)

    def compare(
        self,
        table: TableVersion,
        after: int,
        upto: int,
        *,
        columns: Sequence[str],
        by: Literal["log", "snapshots"] | None = None,
    ) -> Iterator[NetChanges]:
        """Yield what changed between two epochs, looked at through `columns`: one net change a key, in (hash, key) order.

        By the change log its cost follows the change, by the two snapshots it follows the table. By default the log is read,
        unless it has more rows than both snapshots, or rows hide by themselves, of which no log tells. Raises EpochExpired.
        """
        names = resolve_columns(table.table, columns)
        if by is None:
            by = "snapshots" if is_log_too_long(table, after, upto) else "log"
        if by == "log":
            return read_net_changes(self.files, table, after, upto, names, None)
        return compare_snapshots(self.files, table, after, upto, names)

    def compare_tables(
        self, one: TableVersion, other: TableVersion, epochs: tuple[int, int], *, columns: Sequence[str]
    ) -> Iterator[NetChanges]:
        """Yield by what another table of the same keys differs from one, each at an epoch, looked at through `columns`, in (hash,
        key) order.

        The cost follows both tables. Raises EpochExpired.
        """
        return compare_tables(self.files, (one, other), epochs, resolve_columns(one.table, columns))

    def count_rows(self, table: TableVersion, epoch: int) -> int:
        """Return how many rows a table has at an epoch, at a cost that follows what was written since its oldest run."""
        return count_rows(self.files, table, epoch)

    def read_key_history(
        self, table: TableVersion, key: pa.Table, span: tuple[int, int], *, columns: Sequence[str]
    ) -> KeyHistory:
        """Return what stood under one whole key from the first epoch of a span to the last. Raises EpochExpired."""
        return read_key_history(self.files, table, key, span, resolve_columns(table.table, columns))

    def lookup(
        self,
        table: TableVersion,
        keys: pa.RecordBatch | pa.Table,
        epoch: int,
        *,
        columns: Sequence[str] | None = None,
        null_safe: bool = False,
    ) -> tuple[np.ndarray, pa.Table]:
        """Return (index into `keys` per matched row, ascending; the matched rows' columns) at `epoch`.

        `keys` hold the distribution key (or leading primary-key columns where there is none) and any other
        columns, which must be equal too. A null matches nothing unless `null_safe`. The cost follows the
        keys, not the table.
        """
        if isinstance(keys, pa.RecordBatch):
            keys = pa.Table.from_batches([keys])
        names = resolve_columns(table.table, columns)
        runs, expiry = table.as_of(epoch), expiry_at(table, epoch)
        lookup_keys = prepare_keys(table.table, keys, null_safe)
        return find_rows(self.files, table.table, runs, lookup_keys, names, expiry)

    def lookup_in_parts(
        self,
        table: TableVersion,
        keys: pa.Table,
        epoch: int,
        *,
        columns: Sequence[str],
        null_safe: bool = False,
        key_range: KeyRange | None = None,
    ) -> Iterator[tuple[np.ndarray, pa.Table]]:
        """Yield what `lookup` returns in parts, each of other keys and of bounded size: few keys may match many rows.

        With `between` only rows within these bounds are found, at a cost that follows them.
        """
        names = resolve_columns(table.table, columns)
        runs, expiry = table.as_of(epoch), expiry_at(table, epoch)
        lookup_keys = prepare_keys(table.table, keys, null_safe, key_range)
        return find_in_parts(
            lookup_keys, lambda some: find_rows(self.files, table.table, runs, some, names, expiry)
        )

    def find_first_rows(
        self,
        table: TableVersion,
        keys: pa.Table,
        epoch: int,
        *,
        columns: Sequence[str],
        last: bool = False,
        key_range: KeyRange | None = None,
    ) -> tuple[np.ndarray, pa.Table]:
        """Return (index into `keys`, ascending; `columns` of the first row in key order, or the `last`, of each) at `epoch`.

        `keys` are leading columns of the primary key, the distribution key among them; null equals null. The cost follows the
        keys, not how many rows each has. With `between` only rows within these bounds count. Raises InvalidRow for other keys,
        and for a table with a time to live.
        """
        if expiry_at(table, epoch) is not None:
            raise InvalidRow(f"table {table.name} has a time to live: its first rows are found by a scan")
        names = resolve_columns(table.table, columns)
        runs = table.as_of(epoch)
        lookup_keys = prepare_keys(table.table, keys, True, key_range)
        index, rows = find_first_rows(self.files, table.table, runs, lookup_keys, names, last=last)
        if should_verify():
            lookup_keys = dataclasses.replace(lookup_keys, most=MOST_MATCHES)
            with contextlib.suppress(TooManyMatches):
                everything = find_rows(self.files, table.table, runs, lookup_keys, names)
                check_first_rows(table.table, index, rows, everything, last)
        return index, rows

    def write_run(
        self, table: Table, rows: pa.Table, *, last_wins: bool = False, old: pa.Table | None = None
    ) -> list[SstInfo]:
        """Write rows (the table's columns and `_op`: 0 put, 1 delete; any order) as sorted files, durable but
        not visible.

        One row a key: raises DuplicateKey otherwise, or keeps the last one with `last_wins`. InvalidRow for
        wrong columns. `old` are the rows that they replace or delete, where that is known under the commit's precondition.
        """
        ssts = self.write_runs([(table, rows)], last_wins=last_wins)[0]
        return ssts if old is None else with_replaced(table, ssts, old)

    def write_runs(
        self, writes: Sequence[tuple[Table, pa.Table]], *, last_wins: bool = False
    ) -> list[list[SstInfo]]:
        """Write the rows of several tables, each as `write_run` does; small tables share one object.

        One call per task and epoch makes one PUT, however many small tables the task writes.
        """
        runs = [self.sort_into_pieces(table, rows, last_wins=last_wins) for table, rows in writes]
        infos = iter(self.write_pieces([piece for some in runs for piece in some]))
        return [
            [with_fingerprint(table, next(infos), piece) for piece in some]
            for (table, _), some in zip(writes, runs, strict=True)
        ]

    def sort_into_pieces(self, table: Table, rows: pa.Table, *, last_wins: bool) -> list[pa.Table]:
        """Return rows in the form and order of files, cut into the parts that become files; writes nothing."""
        if rows.num_rows == 0:
            return []
        return split_pieces(sort_rows(table, to_file_rows(table, rows), last_wins=last_wins))

    def with_held(self, overlay: Mapping[str, SortedFile]) -> Reader:
        """Return this reader with sorted rows, by id, that are read where no object holds them yet."""
        reader = copy.copy(self)
        reader.files = self.files.with_held(overlay)
        return reader

    def with_store(self, store: ObjectStore) -> Reader:
        """Return a reader of the same files and cache by way of another object store."""
        return Reader(store, self.files.cache, self._clock, self.files.fetches, self._folder)

    def with_cache(self, cache: ArrowCache) -> Reader:
        """Return a reader of the same files by way of another cache."""
        return Reader(self._store, cache, self._clock, self.files.fetches, self._folder)

    @property
    def objects(self) -> ObjectStore:
        """The object store that the files are read from."""
        return self._store

    def plan_objects(self, pieces: Sequence[pa.Table]) -> list[tuple[Payload, tuple[int, ...]]]:
        """Return the objects that sorted pieces will make, and which of the pieces each holds; writes nothing."""
        return list(plan_payloads(pieces, self._clock, self._folder))

    def write_object(self, payload: Payload) -> tuple[SstInfo, ...]:
        """Write one object, the same bytes to the same path each time, and through to the cache."""
        return write_payload(self._store, self.files, payload)

    def write_pieces(self, rows: Sequence[pa.Table]) -> list[SstInfo]:
        """Write rows that are in the form and order of files, and through to the cache; one file each."""
        owner, bundle = _bundle.get() or (None, None)
        taken = [bundle.add(one) if bundle is not None and owner is self else None for one in rows]
        left = [one for one, info in zip(rows, taken, strict=True) if info is None]
        written = iter(write_payloads(self._store, self.files, self.plan_objects(left)))
        return [next(written) if info is None else info for info in taken]

    @contextlib.contextmanager
    def bundle_writes(self) -> Iterator[None]:
        """Let the small files that this thread writes inside lie in one object, which is durable on leaving.

        Until then the processes of this machine read them from its cache. After an error there is no object.
        """
        bundle = OpenBundle(self._store, self.files, self._clock, self._folder)
        token = _bundle.set((self, bundle))
        try:
            yield
        finally:
            _bundle.reset(token)
        bundle.put()


def resolve_columns(table: Table, columns: Sequence[str] | None) -> list[str]:
    """Return the columns to read, all if None; raises InvalidRow for one that the table lacks."""
    if columns is None:
        return list(table.schema.names)
    for name in columns:
        if name not in table.schema.names:
            raise InvalidRow(
                f"table {table.name} has no column {name}; it has {', '.join(table.schema.names)}"
            )
    return list(columns)


def split_batches(rows: pa.Table, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield rows as batches of the given schema."""
    for batch in rows.to_batches(max_chunksize=BATCH_ROWS):
        if batch.num_rows:
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema) if batch.num_columns else batch


def choose_cache_folder(url: str, cache_dir: str | os.PathLike[str] | None) -> Path:
    """Return the folder of a store's decoded files: below `cache_dir`, $TIDELINE_CACHE_DIR, or the user's
    temporary folder. A branch has that of the store that it began from: most of its files are that store's.
    """
    base = choose_cache(cache_dir)
    if base is None:
        user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
        base = os.path.join(tempfile.gettempdir(), f"tideline-cache-{user}")
    return Path(base) / hashlib.sha256(find_root_url(url).rstrip("/").encode()).hexdigest()[:16]


def choose_cache(cache_dir: str | os.PathLike[str] | None) -> str | None:
    """Return the folder that was asked for, by argument or environment; None leaves it to each process, whose user may differ."""
    chosen = cache_dir or os.environ.get("TIDELINE_CACHE_DIR")
    return None if not chosen else str(chosen)

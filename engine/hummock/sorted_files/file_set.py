"""Sorted files as a process sees them: decoded, mapped from the shared cache, or only the row groups that are
asked for.
"""

from __future__ import annotations

import copy
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from engine.errors import CorruptObject, StorageError, Unavailable
from engine.hummock.object_store import ObjectStore
from engine.hummock.rows.column_defaults import build_default_values
from engine.hummock.rows.expiry import parse_birth_ms
from engine.hummock.rows.ordering import as_numbers, one_chunk
from engine.hummock.sorted_files.arrow_cache import MAPPED_FROM_BYTES, ArrowCache
from engine.hummock.sorted_files.assumption_checks import (
    check_cached,
    check_described,
    check_hash_range,
    check_row_groups,
)
from engine.hummock.sorted_files.sst import (
    BUNDLE,
    ROW_GROUP_ROWS,
    SortedValues,
    read_by_row_group,
    read_hash_range,
    read_row_groups,
    read_sst,
)
from engine.hummock.version import HASH, OP, ROW_EPOCH, SstInfo
from engine.verification import should_verify

OPEN_FILES, HELD_BYTES = 4_096, 128 << 20
"""So many files are open at most, and so many bytes of those that are too small to be mapped: projects have hundreds of them."""
IDLE_SECONDS = 300.0
"""What nobody has used for so long is closed: mostly files that were merged into others."""
RECENT_ANSWERS, RECENT_BYTES = 64, 16 << 20
"""So many answers are kept for the next readers, and so many bytes of the files that they hold."""
HOT_AFTER = 3
SMALL_BYTES = 4 << 20
COLD_SHARE = 0.25


@dataclass(frozen=True)
class SortedFile:
    """A decoded file: one chunk a column, its hashes and operations as NumPy views."""

    rows: pa.Table
    hashes: np.ndarray
    operations: np.ndarray
    _numbers: dict[str, np.ndarray | None] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, rows: pa.Table) -> SortedFile:
        """Return the view of decoded rows."""
        return cls(rows, one_chunk(rows.column(HASH)).to_numpy(), one_chunk(rows.column(OP)).to_numpy())

    def read_numbers(self, name: str) -> np.ndarray | None:
        """Return a column as a NumPy view, None if its values are no numbers or some are null."""
        if name not in self._numbers:
            self._numbers[name] = as_numbers(self.rows.column(name))
        return self._numbers[name]

    @cached_property
    def held_bytes(self) -> int:
        """The bytes that it takes of the process's memory: none where it is mapped."""
        size = self.rows.nbytes
        return size if size < MAPPED_FROM_BYTES else 0


@dataclass(frozen=True)
class SearchValues:
    """What a file is searched for: sorted values of column `by`; None if they have no order that row groups are found by."""

    by: str
    find: Callable[[], SortedValues | None]

    @cached_property
    def values(self) -> SortedValues | None:
        """The values, which are found when they are asked for."""
        return self.find()


class OpenFiles:
    """Files by id, of which the least recently used go first; not safe for threads."""

    def __init__(self) -> None:
        self._files: OrderedDict[str, tuple[SortedFile, float]] = OrderedDict()
        """Each with when it was used last, in seconds, the one that was used longest ago first."""
        self._held_bytes = 0

    def __contains__(self, sst_id: str) -> bool:
        return sst_id in self._files

    def find(self, sst_id: str) -> SortedFile | None:
        """Return a file, which counts as used now."""
        found = self._files.get(sst_id)
        if found is None:
            return None
        self._files[sst_id] = found[0], time.monotonic()
        self._files.move_to_end(sst_id)
        return found[0]

    def add(self, sst_id: str, file: SortedFile) -> None:
        """Keep a file, and drop others beyond OPEN_FILES and HELD_BYTES, or that nobody has used for IDLE_SECONDS."""
        self._drop(sst_id)
        now = time.monotonic()
        self._files[sst_id] = file, now
        self._held_bytes += file.held_bytes
        while len(self._files) > 1:
            oldest, (_, used) = next(iter(self._files.items()))
            is_over = len(self._files) > OPEN_FILES or self._held_bytes > HELD_BYTES
            if not is_over and now - used <= IDLE_SECONDS:
                break
            self._drop(oldest)

    def clear(self) -> None:
        """Drop all of them."""
        self._files.clear()
        self._held_bytes = 0

    def _drop(self, sst_id: str) -> None:
        dropped = self._files.pop(sst_id, None)
        self._held_bytes -= 0 if dropped is None else dropped[0].held_bytes


class RecentAnswers:
    """What was found in files a moment ago, by a key that names them all; the oldest answers go first; safe for threads."""

    def __init__(self) -> None:
        self._answers: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._held_bytes = 0
        self._lock = threading.Lock()

    def find(self, key: Hashable) -> Any | None:
        """Return an answer, None if it is not kept."""
        with self._lock:
            found = self._answers.get(key)
        return None if found is None else found[0]

    def add(self, key: Hashable, answer: Any, held_bytes: int) -> None:
        """Keep an answer that holds so many bytes, unless it alone holds too many."""
        if held_bytes > RECENT_BYTES:
            return
        with self._lock:
            _, replaced = self._answers.pop(key, (None, 0))
            self._answers[key] = answer, held_bytes
            self._held_bytes += held_bytes - replaced
            while len(self._answers) > RECENT_ANSWERS or self._held_bytes > RECENT_BYTES:
                _, (_, dropped) = self._answers.popitem(last=False)
                self._held_bytes -= dropped

    def clear(self) -> None:
        """Drop all of them."""
        with self._lock:
            self._answers.clear()
            self._held_bytes = 0


class FileSet:
    """The files that a process has open, over the cache of the machine and the object store; safe for
    threads.

    `fetches` is how many files that the machine has not seen may be fetched from afar at a time.
    """

    def __init__(self, store: ObjectStore, cache: ArrowCache, fetches: int = 1) -> None:
        self._store, self.cache, self.fetches = store, cache, fetches
        self._open = OpenFiles()
        self.recent_answers = RecentAnswers()
        self._fetch_counts: dict[str, int] = {}
        self._overlay: Mapping[str, SortedFile] = {}
        self._lock = threading.Lock()
        self.counters = cache.counters

    def open_file(self, info: SstInfo) -> SortedFile:
        """Return a file, decoding it into the cache if the machine has not seen it."""
        found = self.find_open(info)
        return found if found is not None else self._decode(info)

    def fetch(
        self, info: SstInfo, sought: SearchValues | None = None, ranges: Executor | None = None
    ) -> SortedFile:
        """Return a file that is not `opened`; while it is cold just its row groups that may hold what is `sought`.

        They are fetched at the same time by the threads of `ranges`.
        """
        if sought is None:
            return self._decode(info)
        with self._lock:
            self._fetch_counts[info.sst_id] = times = self._fetch_counts.get(info.sst_id, 0) + 1
        values = sought.values if _is_cold(info, times) else None
        if values is None:
            return self._decode(info)
        some = read_row_groups(self._store, info, sought.by, values, COLD_SHARE, ranges)
        if some is None:
            return self._decode(info)
        if should_verify():
            check_row_groups(info, some, read_sst(self._store, info), sought.by, values)
        return SortedFile.of(some)

    def estimate_bytes(self, info: SstInfo, sought: SearchValues | None) -> int:
        """Return how much memory `fetched` takes at most, about."""
        with self._lock:
            fetch_count = self._fetch_counts.get(info.sst_id, 0) + 1
        cold = sought is not None and _is_cold(info, fetch_count)
        return int(info.size * COLD_SHARE) if cold else info.size

    def is_remote(self, info: SstInfo) -> bool:
        """Whether the file's object is not one of this machine, so that each request for it takes a while."""
        return self._store.local_path(info.path) is None

    def read_columns(self, info: SstInfo, columns: list[str], schema: pa.Schema) -> pa.Table:
        """Return some columns of a file of a table with `schema`.

        A file of this machine that is not decoded is read from Parquet and not kept; one from afar is kept,
        since the other tasks that scan the table would fetch it as a whole again.
        """
        found = self.find_open(info)
        if found is None and not self.is_remote(info):
            return with_columns(read_sst(self._store, info, columns), columns, schema, info)
        return with_columns((found or self._decode(info)).rows, columns, schema, info)

    def read_columns_in_range(
        self, info: SstInfo, columns: list[str], schema: pa.Schema, hash_range: tuple[int, int]
    ) -> pa.Table:
        """Return what `columns` does; of a file that reaches out of a range of hashes maybe only the row groups within it.

        Those are not kept: who reads so merges files that are nobody's soon.
        """
        inside = hash_range[0] <= info.min_hash and info.max_hash <= hash_range[1]
        if inside or not info.sections:
            return self.read_columns(info, columns, schema)
        found = self.find_open(info)
        rows = self._read_in_range(info, columns, hash_range) if found is None else found.rows
        return with_columns(rows, columns, schema, info)

    def _read_in_range(self, info: SstInfo, columns: list[str], hash_range: tuple[int, int]) -> pa.Table:
        try:
            rows = read_hash_range(self._store, info, columns, hash_range)
        except (CorruptObject, Unavailable):
            raise
        except StorageError:  # it is missing, which is reported as for a whole file
            return read_sst(self._store, info, columns)
        if should_verify():
            check_hash_range(info, rows, read_sst(self._store, info, [HASH]), hash_range)
        return rows

    def read_in_parts(self, info: SstInfo, columns: list[str], schema: pa.Schema) -> Iterator[pa.Table]:
        """Yield some columns of a file of a table with `schema`, a row group at a time: no more of it is held, unless it is
        mapped anyway.
        """
        found = self.find_open(info)
        if found is None:
            parts = read_by_row_group(self._store, info, columns)
        else:
            starts = range(0, info.rows, ROW_GROUP_ROWS)
            parts = (found.rows.slice(start, ROW_GROUP_ROWS) for start in starts)
        for rows in parts:
            yield with_columns(rows, columns, schema, info)

    def is_open(self, info: SstInfo) -> bool:
        """Whether this process reads the file from memory or the cache."""
        with self._lock:
            return info.sst_id in self._open

    def keep(self, sst_id: str, rows: pa.Table) -> bool:
        """Write a fresh file's decoded rows through to the cache, and return whether they are there."""
        return self.cache.store(sst_id, rows)

    def with_held(self, overlay: Mapping[str, SortedFile]) -> FileSet:
        """Return these files and those of `held`, by id, that no object holds yet."""
        files = copy.copy(self)
        files._overlay = overlay
        return files

    def forget(self) -> None:
        """Release all open files."""
        self.recent_answers.clear()
        with self._lock:
            self._open.clear()

    def find_open(self, info: SstInfo) -> SortedFile | None:
        """Return a file that this process has open or finds in the cache, None if it has to be fetched."""
        sst_id = info.sst_id
        if sst_id in self._overlay:
            return self._overlay[sst_id]
        with self._lock:
            found = self._open.find(sst_id)
        if found is not None:
            self.counters.add("cache_hits")
            return found
        rows = self.cache.load(sst_id, info.rows)
        self.counters.add("cache_misses" if rows is None else "cache_hits")
        if rows is not None and should_verify() and self._is_written(info):
            check_cached(info, rows, lambda: read_sst(self._store, info))
        return None if rows is None else self._remember(info, SortedFile.of(rows))

    def _is_written(self, info: SstInfo) -> bool:
        """Whether the store has a file's object: a bundle is written once its last file is in it."""
        return not info.path.endswith(BUNDLE) or self._store.head(info.path) is not None

    def _decode(self, info: SstInfo) -> SortedFile:
        rows = read_sst(self._store, info)
        self.cache.store(info.sst_id, rows)
        mapped = self.cache.load(info.sst_id, info.rows)
        return self._remember(info, SortedFile.of(rows if mapped is None else mapped))

    def _remember(self, info: SstInfo, file: SortedFile) -> SortedFile:
        if should_verify():
            check_described(info, file.rows)
        with self._lock:
            self._fetch_counts.pop(info.sst_id, None)
            self._open.add(info.sst_id, file)
        return file


def _is_cold(info: SstInfo, fetch_count: int) -> bool:
    return info.length > SMALL_BYTES and fetch_count < HOT_AFTER


def with_columns(rows: pa.Table, columns: list[str], schema: pa.Schema, info: SstInfo) -> pa.Table:
    """Return columns of a file's rows; one that the table got after the file was written has its default, and the row
    epoch is when the file was named.
    """
    known = set(rows.column_names)
    if known.issuperset(columns):
        return rows.select(columns)
    arrays = [
        rows.column(name) if name in known else _fill_absent(name, schema, info, rows.num_rows)
        for name in columns
    ]
    return pa.Table.from_arrays(arrays, names=columns)


def _fill_absent(name: str, schema: pa.Schema, info: SstInfo, rows: int) -> pa.Array[Any]:
    if name == ROW_EPOCH:
        return pa.repeat(pa.scalar(parse_birth_ms(info.path), pa.int64()), rows)
    return build_default_values(schema.field(name), rows)

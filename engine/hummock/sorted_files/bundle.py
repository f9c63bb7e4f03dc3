"""From sorted rows to objects: a large file is an object of its own, the small ones of one writing task share one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa

from engine.hummock.object_store import ObjectStore
from engine.hummock.sorted_files.assumption_checks import check_sorted
from engine.hummock.sorted_files.file_set import FileSet
from engine.hummock.sorted_files.sst import BUNDLE, FILES, PLAIN, build_sst_info, encode_sst, generate_path
from engine.hummock.store_clock import StoreClock
from engine.hummock.version import SstInfo, build_sst_id
from engine.verification import should_verify

SHARED_BYTES = 4 << 20
"""Rows up to this size in memory share an object with others of the same task."""
BUNDLE_BYTES = 64 << 20
PARALLEL_BYTES = 1 << 20
WRITERS = 4


@dataclass(frozen=True)
class Payload:
    """One object to write: its name, and the sorted rows of each file in it."""

    path: str
    rows: tuple[pa.Table, ...]

    def encode(self) -> tuple[pa.Buffer, tuple[SstInfo, ...]]:
        """Return the object and what the manifest needs to know of each file in it."""
        files = [encode_sst(rows) for rows in self.rows]
        offsets = [0, *itertools.accumulate(len(data) for data in files)]
        infos = tuple(
            build_sst_info(rows, data, self.path, offset)
            for rows, data, offset in zip(self.rows, files, offsets, strict=False)
        )
        return (files[0] if len(files) == 1 else pa.py_buffer(b"".join(files))), infos


class OpenBundle:
    """One object in `folder` that takes files of one write after the other.

    They are read from the cache of this machine at once; in the store they are after `put`.
    """

    def __init__(self, store: ObjectStore, files: FileSet, clock: StoreClock, folder: str = FILES) -> None:
        self._store, self._files, self._clock, self._folder = store, files, clock, folder
        self._path = ""
        self._parts: list[pa.Buffer] = []
        self._bytes = 0

    def add(self, rows: pa.Table) -> SstInfo | None:
        """Take sorted rows as one more file, and return what the manifest needs to know of it.

        None if they are to be written by themselves: they are many, or the cache cannot keep them.
        """
        if rows.nbytes > SHARED_BYTES or self._bytes > BUNDLE_BYTES:
            return None
        if should_verify():
            check_sorted(rows)
        self._path = self._path or generate_path(self._clock.stamp(), BUNDLE, self._folder)
        data = encode_sst(rows)
        info = build_sst_info(rows, data, self._path, self._bytes)
        if not self._files.keep(info.sst_id, rows):
            return None
        self._parts.append(data)
        self._bytes += len(data)
        return info

    def put(self) -> None:
        """Write the object, if any file is in it: they are durable now, but not visible."""
        if self._parts:
            self._store.put(self._path, memoryview(b"".join(self._parts)))


def plan_payloads(
    pieces: Sequence[pa.Table], clock: StoreClock, folder: str = FILES
) -> Iterator[tuple[Payload, tuple[int, ...]]]:
    """Yield the objects in `folder` for `pieces` and, for each, which of the pieces it holds."""
    small = [n for n, rows in enumerate(pieces) if rows.nbytes <= SHARED_BYTES]
    for n, rows in enumerate(pieces):
        if rows.nbytes > SHARED_BYTES:
            yield Payload(generate_path(clock.stamp(), PLAIN, folder), (rows,)), (n,)
    while small:
        sizes = itertools.accumulate(pieces[n].nbytes for n in small)
        count = max(1, sum(size <= BUNDLE_BYTES for size in sizes))
        bundled, small = small[:count], small[count:]
        path = generate_path(clock.stamp(), BUNDLE if len(bundled) > 1 else PLAIN, folder)
        yield Payload(path, tuple(pieces[n] for n in bundled)), tuple(bundled)


def write_payloads(
    store: ObjectStore, files: FileSet, objects: Sequence[tuple[Payload, tuple[int, ...]]]
) -> list[SstInfo]:
    """Write objects, durable but not visible, and through to the cache; one info per piece, in the order of the pieces."""
    if len(objects) > 1:
        with ThreadPoolExecutor(min(len(objects), WRITERS)) as pool:
            payload_infos = list(pool.map(lambda each: write_payload(store, files, each[0]), objects))
    else:
        payload_infos = [write_payload(store, files, payload) for payload, _ in objects]
    found: dict[int, SstInfo] = {}
    for (_, places), infos in zip(objects, payload_infos, strict=True):
        found.update(zip(places, infos, strict=True))
    return [found[n] for n in range(len(found))]


def write_payload(store: ObjectStore, files: FileSet, payload: Payload) -> tuple[SstInfo, ...]:
    """Write one object, and its files through to the cache."""
    (first, *rest) = payload.rows
    if should_verify():
        for rows in payload.rows:
            check_sorted(rows)
    if rest or first.nbytes < PARALLEL_BYTES:
        data, infos = payload.encode()
        store.put(payload.path, memoryview(data))
        for info, rows in zip(infos, payload.rows, strict=True):
            files.keep(info.sst_id, rows)
        return infos
    with ThreadPoolExecutor(1) as background:  # the cache is written while Parquet is encoded and synced
        cached = background.submit(files.keep, build_sst_id(payload.path, 0), first)
        data, infos = payload.encode()
        store.put(payload.path, memoryview(data))
        cached.result()
    return infos

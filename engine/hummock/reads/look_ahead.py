"""Fetching ahead: a bucket answers after tens of milliseconds, to sixteen requests as to one."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa

from engine.hummock.reads.merge import Load
from engine.hummock.sorted_files.file_set import FileSet, SearchValues, SortedFile, with_columns
from engine.hummock.version import SstInfo

FETCHES = 16
"""So many files are fetched from afar at a time, and so many parts of them."""
FETCHED_BYTES = 256 << 20
"""So much of them, decoded, at a time; one that is larger is fetched alone."""
FIRST_FILES = 4
"""So many files a search asks for at first that may end before the last one, then twice as many each time."""


class LookAhead:
    """Opens the files of one read in their order; where one has to be fetched, so are the next ones that are not here.

    `first` is how many are fetched at first. What is fetched in vain, as the read ends before, tells nobody of its errors.
    """

    def __init__(self, files: FileSet, first: int = FETCHES) -> None:
        self._files, self._width = files, first
        self._coming: dict[str, Future[SortedFile]] = {}
        self._ranges: ThreadPoolExecutor | None = None

    def open(self, sst: SstInfo, following: Iterable[SstInfo] = ()) -> SortedFile:
        """Return a file; `following` are those that will be asked for next, as far as is known by now."""
        found = self.find(sst)
        return self.fetch(sst, following) if found is None else found

    def find(self, sst: SstInfo) -> SortedFile | None:
        """Return a file that is here or on its way; None if `fetch` has to get it."""
        coming = self._coming.pop(sst.sst_id, None) if self._coming else None
        return self._files.find_open(sst) if coming is None else coming.result()

    def fetch(
        self, sst: SstInfo, following: Iterable[SstInfo] = (), sought: SearchValues | None = None
    ) -> SortedFile:
        """Return a file that is not here, or, while it is cold, just its row groups that may hold what is `sought`.

        `following` are the files that will be asked for next, for the same or for less.
        """
        if self._files.fetches == 1 or not self._files.is_remote(sst):
            return self._files.fetch(sst, sought)
        self._fetch(self._choose_due(sst, following, sought), sought)
        return self._coming.pop(sst.sst_id).result()

    def open_all(self, ssts: Sequence[SstInfo]) -> Iterator[tuple[SstInfo, SortedFile]]:
        """Yield files as a whole."""
        for at, sst in enumerate(ssts, 1):
            yield sst, self.open(sst, itertools.islice(ssts, at, None))

    def _choose_due(
        self, sst: SstInfo, following: Iterable[SstInfo], sought: SearchValues | None
    ) -> list[SstInfo]:
        """Return a file that has to be fetched, and those to be fetched with it."""
        due, size = [sst], self._files.estimate_bytes(sst, sought)
        width, self._width = min(self._width, self._files.fetches), 2 * self._width
        for other in following:
            if len(due) >= width:
                break
            if other in due or other.sst_id in self._coming or self._files.find_open(other) is not None:
                continue
            size += self._files.estimate_bytes(other, sought)
            if size > FETCHED_BYTES:
                break
            due.append(other)
        return due

    def _fetch(self, due: Sequence[SstInfo], sought: SearchValues | None) -> None:
        if sought is not None and self._ranges is None:
            self._ranges = ThreadPoolExecutor(self._files.fetches, thread_name_prefix="range")
        pool = ThreadPoolExecutor(len(due), thread_name_prefix="fetch")
        for sst in due:
            self._coming[sst.sst_id] = pool.submit(self._files.fetch, sst, sought, self._ranges)
        pool.shutdown(wait=False)


def build_loader(files: FileSet, columns: list[str], schema: pa.Schema) -> Load:
    """Return what gives some columns of files of a table with `schema`, as `FileSet.columns` does of one.

    What will be needed later is fetched from the second time on: many a reader wants no more than the first rows.
    """
    ahead, is_first = LookAhead(files), True

    def load(ssts: Sequence[SstInfo], later: Iterable[SstInfo]) -> list[pa.Table]:
        nonlocal is_first
        found: list[pa.Table] = []
        later, is_first = () if is_first else later, False
        for at, sst in enumerate(ssts, 1):
            if files.is_remote(sst):
                following = filter(files.is_remote, itertools.chain(itertools.islice(ssts, at, None), later))
                found.append(with_columns(ahead.open(sst, following).rows, columns, schema, sst))
            else:
                found.append(files.read_columns(sst, columns, schema))
        return found

    return load


def build_range_loader(
    files: FileSet, columns: list[str], schema: pa.Schema, hash_range: tuple[int, int]
) -> Load:
    """Return the rows of a range of hashes in files, and maybe more, as `FileSet.read_columns_in_range` does."""

    def load(ssts: Sequence[SstInfo], later: Iterable[SstInfo]) -> list[pa.Table]:
        def read_range(sst: SstInfo) -> pa.Table:
            return files.read_columns_in_range(sst, columns, schema, hash_range)

        if len(ssts) < 2 or not any(map(files.is_remote, ssts)):
            return list(map(read_range, ssts))
        with ThreadPoolExecutor(min(len(ssts), files.fetches), thread_name_prefix="fetch") as pool:
            return list(pool.map(read_range, ssts))

    return load

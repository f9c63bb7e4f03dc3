"""Which of the files that were found are still to be taken: they are held against the records of what was."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.arrow import as_values, to_mask
from engine.connectors.landing.place import FoundFile, build_stamp
from engine.connectors.landing.tables import FILES, FileRecord, find_file_records, read_file_records
from engine.hummock import Hummock

LOOKED_UP_AT_ONCE = 2_000


@dataclass(frozen=True)
class PendingFile:
    """A file to be taken, or one that was changed after it was taken, or one that is half taken.

    `path` is how it is stored, `place` how the folder or bucket knows it. A `fault` says why it can't be read.
    """

    path: str
    size: int
    mtime_ns: int
    record: FileRecord | None = None
    place_path: str = ""
    fault: str | None = None
    etag: str = ""

    @property
    def stamp(self) -> tuple[int, int | str]:
        """What tells that a file is still the same."""
        return build_stamp(self.size, self.mtime_ns, self.etag)

    @property
    def has_changed(self) -> bool:
        """Whether the file is another one than its record tells of."""
        return self.record is not None and not is_same(self.record, self)


def is_same(record: FileRecord, file: FoundFile | PendingFile) -> bool:
    """Tell whether a file is what it was when its record was written."""
    return build_stamp(record.seen_size, record.seen_mtime_ns, record.seen_etag) == file.stamp


class FileRecordCache:
    """What one process knows of the records of one table's files."""

    def __init__(self, table: str, table_id: int) -> None:
        self._table, self._table_id = table, table_id
        self._known: tuple[int | None, dict[str, FileRecord | None]] = (None, {})

    def select_pending(self, store: Hummock, found: Sequence[FoundFile]) -> Iterator[PendingFile]:
        """Yield the files whose record is missing or says something else; all others wait for nothing any more."""
        if len(found) > LOOKED_UP_AT_ONCE:
            unlike = self._find_changed(store, found)
            found = [found[at] for at in np.flatnonzero(unlike).tolist()]
        paths = [encode_path(file.path) for file in found]
        records = self._find_records(store, paths)
        for file, path in zip(found, paths, strict=True):
            record = records[path]
            if record is None or record.position is not None or not is_same(record, file):
                yield PendingFile(path, file.size, file.mtime_ns, record, file.path, file.fault, file.etag)

    def _find_records(self, store: Hummock, paths: list[str]) -> dict[str, FileRecord | None]:
        """Return the records of files, None where there is none; asked for once as long as no record changes."""
        version = store.version
        table = version.tables.get(FILES)
        epoch = None if table is None else table.committed_epoch
        known = self._known[1] if self._known[0] == epoch else {}
        unknown = [path for path in paths if path not in known]
        found = find_file_records(store, version, self._table, self._table_id, unknown)
        records = {path: known[path] if path in known else found.get(path) for path in paths}
        self._known = (epoch, records)
        return records

    def _find_changed(self, store: Hummock, found: Sequence[FoundFile]) -> np.ndarray:
        """Compare many files with all records at once: which of them differ, or have none."""
        records = read_file_records(store, self._table, self._table_id)
        if not records.num_rows:
            return np.ones(len(found), dtype=bool)
        paths = pa.array([encode_path(file.path) for file in found], pa.string())
        found_at = pc.index_in(paths, value_set=records.column("path").combine_chunks())
        known, at = to_mask(found_at.is_valid()), found_at.fill_null(0).to_numpy()
        sizes = np.fromiter((file.size for file in found), np.int64, len(found))
        times = np.fromiter((file.mtime_ns for file in found), np.int64, len(found))
        tags = np.array([file.etag for file in found], dtype=object)
        recorded = np.array([tag or "" for tag in as_values(records.column("seen_etag"))], dtype=object)[at]
        same_time = records.column("seen_mtime_ns").take(at).to_numpy() == times
        same: np.ndarray = (records.column("seen_size").take(at).to_numpy() == sizes) & (
            (recorded == tags) & (same_time | (tags != ""))
        )
        unlike: np.ndarray = ~(known & same)
        return unlike


def encode_path(path: str) -> str:
    """Return a file's path as text that can be stored; one that is not UTF-8 begins with `./`, with which no other does."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return "./" + os.fsencode(path.replace("\\", "\\\\")).decode("utf-8", "backslashreplace")
    return path

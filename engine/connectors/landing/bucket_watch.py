"""Which files of a bucket are still to be taken: listed from the last name on, and from time to time as a whole.

A bucket tells of no change, so each look is a request; one lists a thousand names. Where there are more, a look lists what comes
behind the last name that was seen, and everything is listed again whenever twenty times as long has passed as that takes. A file
whose name comes before others that are there is found then, and so is one that was replaced.
"""

from __future__ import annotations

import threading
import time

from engine.connectors.formats.file_format import FileOptions
from engine.connectors.landing.bucket import LandingBucket, build_found_file
from engine.connectors.landing.pending import FileRecordCache, PendingFile
from engine.connectors.landing.place import FoundFile, is_readable_path
from engine.errors import SourceError, StorageError
from engine.hummock import Hummock

SMALL = 1_000
"""Up to so many names are listed each time: it is one request."""
REST = 20
LOOK_SECONDS = 1.0
"""How often is looked at most, but for a poll."""


class BucketWatch:
    """What one process knows of one landing place in a bucket and its records."""

    warnings: tuple[str, ...] = ()

    def __init__(self, table: str, table_id: int, place: LandingBucket, options: FileOptions) -> None:
        self.table_id, self.place = table_id, place
        self._table, self._options = table, options
        self._records = FileRecordCache(table, table_id)
        self._lock = threading.Lock()
        self._waiting: dict[str, FoundFile] = {}
        self._doubted: set[str] = set()
        self._names, self._last = 0, ""
        self._looked, self._due = float("-inf"), float("-inf")

    def list_pending(self, store: Hummock, *, fresh: bool = True) -> tuple[PendingFile, ...]:
        """Return what is to be taken, in the order of the paths; raises SourceError if the place can't be listed.

        Without `fresh` what the last look has found will do, if it was a second ago.
        """
        with self._lock:
            if fresh or time.monotonic() - self._looked >= LOOK_SECONDS:
                try:
                    self._list_bucket()
                except StorageError as error:
                    raise SourceError(f"table {self._table}: {error}") from error
                finally:
                    self._looked = time.monotonic()
            pending = list(self._records.select_pending(store, list(self._waiting.values())))
            self._waiting = {file.place_path: self._waiting[file.place_path] for file in pending}
        return tuple(sorted(pending, key=lambda file: file.path))

    def recheck(self, place: str) -> None:
        """Look at a file again, which was not what it was when it was listed."""
        self._doubted.add(place)

    def _list_bucket(self) -> None:
        started = time.monotonic()
        whole = self._names <= SMALL or started >= self._due
        names, last = (0, "") if whole else (self._names, self._last)
        found: dict[str, FoundFile] = {} if whole else dict(self._waiting)
        for info in self.place.list_objects(last):
            names, last = names + 1, info.path
            file = build_found_file(info) if is_readable_path(info.path, self._options) else None
            if file is not None:
                found[file.path] = file
        for path in () if whole else self._doubted & found.keys():
            file = self.place.look_at(path)
            if file is None:
                del found[path]
            else:
                found[path] = file
        self._waiting, self._names, self._last, self._doubted = found, names, last, set()
        if whole:
            self._due = time.monotonic() + REST * (time.monotonic() - started)

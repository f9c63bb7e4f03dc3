"""The chain of manifests: finding the newest, following it, and adding to it by creating the next number if
absent.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from engine.errors import CommitTimeout, CorruptObject
from engine.hummock.delta import apply, rebase
from engine.hummock.epoch import Clock
from engine.hummock.manifest import (
    CHECKPOINT_EVERY,
    Manifest,
    decode,
    encode,
    manifest_number,
    manifest_path,
    version_of,
)
from engine.hummock.metrics import Counters
from engine.hummock.object_store import ObjectStore
from engine.hummock.version import Commit, Version

BOUNDARY_PATH = "manifest/boundary"
PROBES = 4
COMMIT_SECONDS = 60.0
TRUSTED_SECONDS = 5.0
"""A base that was the newest this short a time ago cannot have been collected: manifests live
RETAINED_SECONDS at least.
"""
RETAINED_SECONDS = 600.0
RELIST_SECONDS = 300.0


class ManifestChain:
    """The newest version as far as this process knows, and the loop that adds to it; safe for threads."""

    def __init__(self, store: ObjectStore, clock: Clock, counters: Counters | None = None) -> None:
        self._store, self._clock = store, clock
        self._counters = counters or Counters()
        self._lock = threading.RLock()
        self._version = Version()
        self._known_at = time.monotonic()
        self._version = self._open()

    @property
    def version(self) -> Version:
        """The newest version known, without I/O."""
        return self._version

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever committed."""
        return self._version.number == 0

    def refresh(self) -> Version:
        """Follow the chain to its end: probe the next numbers, list only if there are many or too much time
        has passed.
        """
        with self._lock:
            if time.monotonic() - self._known_at > RELIST_SECONDS:
                self._version = self._open()
                return self._version
            for _ in range(PROBES):
                asked = time.monotonic()
                manifest = self._get(self._version.number + 1)
                if manifest is None:
                    self._known_at = asked
                    return self._version
                self._version = apply(self._version, manifest.delta)
            self._version = self._open(self._version)
            return self._version

    def commit(self, commit: Commit) -> Version:
        """Add `commit` as the next manifest; on a lost race rebase it on the winner and try again.

        Raises what the invariants raise, and CommitTimeout after 60 s of lost races.
        """
        with self._lock:
            deadline = time.monotonic() + COMMIT_SECONDS
            attempt = 0
            while True:
                if self._attempt(commit):
                    self._counters.committed(commit)
                    return self._version
                attempt += 1
                self._counters.add("rebases")
                if time.monotonic() > deadline:
                    raise CommitTimeout(
                        f"the commit lost {attempt} races in {COMMIT_SECONDS:.0f} s; the store is at "
                        f"manifest {self._version.number}: commit fewer, larger batches, or from fewer processes"
                    )
                if attempt > 2:
                    time.sleep(random.uniform(0, min(0.01 * attempt, 0.5)))

    def _attempt(self, commit: Commit) -> bool:
        base = self._version
        delta = rebase(commit, base, uuid.uuid4().hex, self._clock())
        version = apply(base, delta)
        known_at, path = self._known_at, manifest_path(delta.number)
        won = self._store.put_if_absent(path, encode(delta, version))
        if not won:
            if won is None:
                self._counters.add("ambiguous")
            winner = self._get(delta.number)
            if winner is None:
                if won is False:  # it was there and is not now: collected, so this process is far behind
                    self._version = self._open()
                return False
            if winner.delta.commit_id != delta.commit_id:
                self._version = apply(base, winner.delta)
                self._known_at = time.monotonic()
                self.refresh()
                return False
        if time.monotonic() - known_at > TRUSTED_SECONDS and delta.number <= self._boundary():
            self._store.delete([path])
            self._version = self._open()
            return False
        self._version = version
        self._known_at = time.monotonic()
        return True

    def numbers(self) -> list[int]:
        """Return the numbers of the manifests that are stored, ascending; a LIST."""
        start = manifest_path(self._boundary())
        found = (manifest_number(info.path) for info in self._store.list("manifest/", start))
        return sorted(number for number in found if number is not None)

    def collect(self, upto: int) -> int:
        """Delete the manifests up to `upto` after advancing the durable boundary; return how many."""
        doomed = [number for number in self.numbers() if number <= upto]
        if doomed:
            self._store.put(BOUNDARY_PATH, str(max(upto, self._boundary())).encode())
            self._store.delete([manifest_path(number) for number in doomed])
        return len(doomed)

    def _boundary(self) -> int:
        data = self._store.get(BOUNDARY_PATH)
        return int(data) if data else 0

    def _open(self, known: Version | None = None) -> Version:
        """Return the newest version, from the last checkpoint or from `known`, whichever is nearer."""
        asked = time.monotonic()
        start = manifest_path(known.number) if known is not None else manifest_path(self._boundary())
        found = [manifest_number(info.path) for info in self._store.list("manifest/", start)]
        newest = max((number for number in found if number is not None), default=known.number if known else 0)
        self._known_at = asked
        if newest == 0:
            return Version()
        checkpoint = newest - newest % CHECKPOINT_EVERY
        if known is not None and known.number >= checkpoint:
            version = known
        elif checkpoint == 0:
            version = Version()
        else:
            manifest = self._get(checkpoint)
            if manifest is None or manifest.checkpoint is None:
                raise CorruptObject(
                    f"{manifest_path(checkpoint)}, a checkpoint, is missing; restore it from a copy"
                )
            version = version_of(manifest.checkpoint, manifest.delta)
        for manifest in self._get_all(range(version.number + 1, newest + 1)):
            version = apply(version, manifest.delta)
        return version

    def _get_all(self, numbers: Sequence[int]) -> list[Manifest]:
        if not numbers:
            return []
        with ThreadPoolExecutor(min(8, len(numbers))) as pool:
            manifests = list(pool.map(self._get, numbers))
        for number, manifest in zip(numbers, manifests, strict=True):
            if manifest is None:
                raise CorruptObject(
                    f"{manifest_path(number)} is missing from the chain; restore it from a copy"
                )
        return [manifest for manifest in manifests if manifest is not None]

    def _get(self, number: int) -> Manifest | None:
        path = manifest_path(number)
        data = self._store.get(path)
        return None if data is None else decode(data, path)

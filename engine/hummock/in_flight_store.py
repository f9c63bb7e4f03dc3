"""Commits that were handed over and are on their way: who made them goes on over what the store will be, at once.

A bucket answers after tens of milliseconds. A writer that waits for each answer spends its time so; here it goes on with the
next epoch while the files of the one before are uploaded and its manifest is created. What was handed over is committed in its
order, many at once in one manifest; where one is refused, so are all behind it, since they were made over it, and the writer
begins anew over what the store really is. Nobody else sees anything before its manifest.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import platform
import shutil
import threading
import time
import uuid
from collections import OrderedDict, deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote

from engine.errors import GroundLost, InvariantViolation, TidelineError, WriteStopped
from engine.hummock.epoch import ORIGIN_MS, seconds_of
from engine.hummock.manifests.chain import Ticket
from engine.hummock.manifests.delta import apply_delta, rebase
from engine.hummock.manifests.invariants import parse_created_ms
from engine.hummock.object_store.spooled import SpooledObjectStore
from engine.hummock.private_folder import make_private
from engine.hummock.reads.verify_assumptions import verify_commit
from engine.hummock.sorted_files.sst import BUNDLE
from engine.hummock.store import Hummock
from engine.hummock.version import Commit, Version
from engine.hummock.writes.write_stop import with_write_stop

UPLOADS = 8
BARRIER_WAIT_SECONDS = 0.1
"""So long what brings no table on, a barrier, waits for something that does: both make one manifest then."""
LOOK_SECONDS = 0.01
SHARED_UPLOADS = 64
"""So many uploads of bundles are remembered for the commits that have other parts of them."""
SPOOL = "spool"
"""The option that tells the tasks of a writer where they leave small files for it to upload."""


class InFlightCommit:
    """A commit on its way: the uploads of its files, and its place in the chain."""

    def __init__(self, ticket: Ticket, uploads: Sequence[Future[None]]) -> None:
        self.ticket, self.uploads = ticket, uploads
        self.outcome: Future[Version] = Future()
        self.since = time.monotonic()
        self.patience = 0.0
        """Until when it waits for what is uploaded at the same time: a quarter of what its own files took."""

    @property
    def advances_tables(self) -> bool:
        """Whether it brings a table on, so that a reader sees more than before."""
        return bool(self.ticket.commit.writes or self.ticket.commit.epochs)

    @property
    def is_uploaded(self) -> bool:
        """Whether its files are in the store, or cannot be."""
        if not all(upload.done() for upload in self.uploads):
            return False
        now = time.monotonic()
        self.patience = self.patience or now + (now - self.since) / 4
        return True


class InFlightStore(Hummock):
    """A store as one writer sees it that does not wait for its commits: `version` holds those that are on their way.

    `base` is the same store as everybody sees it. With `spool` tasks of this machine leave their small files in a folder, from
    which they are uploaded before their commit; without, they write to the store themselves. Safe for threads.
    """

    def __init__(self, base: Hummock, *, spool: bool) -> None:
        self._base, self.url, self.counters = base, base.url, base.counters
        self._chain, self._clock, self._row_ids = base._chain, base._clock, base._row_ids
        self._place = base._place
        self._background, self.maintenance, self.buffer = base._background, base.maintenance, base.buffer
        self._folder = _make_spool_folder(base) if spool else None
        self._objects, self.reader, self.options = base._objects, base.reader, base.options
        self._spooled: SpooledObjectStore | None = None
        if self._folder is not None:
            self._objects = self._spooled = SpooledObjectStore(base._objects, self._folder)
            self.reader = base.reader.with_store(self._spooled)
            self.options = {**base.options, SPOOL: str(self._folder)}
        self._snapshots = self._open_snapshots()
        self._changed = threading.Condition(threading.RLock())
        self._queue: deque[InFlightCommit] = deque()
        self._ahead: tuple[Version, tuple[str, ...], Version] | None = None
        """What `version` was made of the last time: the store's own, the commits on their way over it, and what they lead to."""
        self._broken: BaseException | None = None
        self._awaited = 0
        """How many threads wait until all that was handed over stands."""
        self._collected = 0
        """The collector's horizon up to which the spool was looked through."""
        self._thread: threading.Thread | None = None
        self._uploads: ThreadPoolExecutor | None = None
        self._shared: OrderedDict[str, Future[None]] = OrderedDict()
        """The last uploads of bundles, of which several commits may have parts; one that has failed is tried again."""

    @property
    def version(self) -> Version:
        """The newest version known, with what is on its way; its number and epoch are those of the store."""
        while True:
            with self._changed:
                try:
                    return self._derive_version()
                except TidelineError:
                    left = self._oldest_outcome()
            left.exception()

    def refresh(self) -> Version:
        """Return the newest version; while something is on its way its own manifests bring the news."""
        if not self._queue:
            self._base.refresh()
        return self.version

    def hand_over(self, commit: Commit) -> Version:
        """Put a commit behind those that are on their way, and return the version that will begin with it.

        Raises what the invariants raise over what is on its way. Whether it stands, `settle` tells. A commit says at which
        epoch its tables are: what it gets by itself is known only once it stands.
        """
        unlabelled = sorted({*commit.writes, *commit.watermarks} - commit.epochs.keys())
        if unlabelled:
            raise InvariantViolation(f"a commit that is handed over has to say the epoch of {unlabelled[0]}")
        tables = [name for name, ssts in commit.writes.items() if ssts]
        ticket = Ticket(with_write_stop(verify_commit(commit, self.reader.files), tables), float("inf"))
        paths = sorted({sst.path for ssts in commit.writes.values() for sst in ssts})
        while True:
            with self._changed:
                try:
                    base = self._derive_version()
                except TidelineError:
                    left = self._oldest_outcome()
                else:
                    try:
                        return self._append(ticket, base, paths)
                    except WriteStopped:
                        break
            left.exception()
        return self.commit(commit)  # which waits until there are fewer runs

    def commit(self, commit: Commit) -> Version:
        """Commit once what is on its way stands; raises GroundLost if that does not, else as `Hummock.commit`."""
        self.settle()
        for path in sorted({sst.path for ssts in commit.writes.values() for sst in ssts}):
            self._upload(path)
        return self._base.commit(commit)

    def claim(self, writer: str) -> int:
        """Take over as `writer` and return its new generation, once what is on its way stands."""
        self.settle()
        return self._base.claim(writer)

    @property
    def newest(self) -> InFlightCommit | None:
        """The commit that was handed over last and is on its way yet, None if there is none."""
        with self._changed:
            return self._queue[-1] if self._queue else None

    @property
    def outcome(self) -> Future[Version] | None:
        """How what was handed over since `begin_anew` comes out; None if all of it stands."""
        with self._changed:
            if self._broken is not None:  # what was handed over later may stand, but not all
                refused: Future[Version] = Future()
                refused.set_exception(self._broken)
                return refused
            return self._queue[-1].outcome if self._queue else None

    def settle(self) -> None:
        """Wait until all that was handed over stands; raises GroundLost if something since `begin_anew` does not."""
        self._wait()
        with self._changed:
            self._raise_if_broken()

    def begin_anew(self) -> None:
        """Forget that commits were refused: what is handed over from here on is made over what the store really is."""
        with self._changed:
            self._broken = None
        self._collect_spool()

    def close(self) -> None:
        """Wait for what is on its way, and let go of the threads and the spool; the store itself stays open."""
        self._wait()
        with self._changed:
            thread, self._thread = self._thread, None
            pool, self._uploads = self._uploads, None
            self._changed.notify_all()
        if thread is not None:
            thread.join()
        if pool is not None:
            pool.shutdown(wait=True)
        self.reader.files.forget()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _wait(self) -> None:
        """Wait until what was handed over stands, or cannot."""
        with self._changed:
            newest, self._awaited = self.newest, self._awaited + 1
            self._changed.notify_all()
        try:
            if newest is not None:
                newest.outcome.exception()
        finally:
            with self._changed:
                self._awaited -= 1

    def _raise_if_broken(self) -> None:
        if self._broken is not None:
            raise GroundLost(
                f"an epoch that was on its way could not be committed: {self._broken}"
            ) from self._broken

    def _list_waiting(self, known: Version) -> tuple[str, ...]:
        """The commits on their way that a version of the store does not hold."""
        made = self._chain.made
        ids = (handed.ticket.commit_id for handed in self._queue)
        return tuple(one for one in ids if one not in made or made[one] > known.number)

    def _derive_version(self) -> Version:
        known = self._chain.version
        waiting = self._list_waiting(known)
        version, done = known, 0
        if self._ahead is not None and self._ahead[0] is known:
            _, before, ahead = self._ahead
            if waiting[: len(before)] == before:
                version, done = ahead, len(before)
        if done < len(waiting):
            left = set(waiting[done:])
            for handed in self._queue:
                if handed.ticket.commit_id in left:
                    version = _apply_ticket(version, handed.ticket)
        self._ahead = (known, waiting, version)
        return version

    def _oldest_outcome(self) -> Future[Version]:
        """Return the outcome of what was handed over first: where it does not fit the news, its own thread will find that out."""
        if not self._queue:
            raise
        return self._queue[0].outcome

    def _append(self, ticket: Ticket, base: Version, paths: Sequence[str]) -> Version:
        version = _apply_ticket(base, ticket)
        ticket.follows = self._queue[-1].ticket if self._queue else None
        uploads = [self._begin_upload(path) for path in paths]
        self._queue.append(InFlightCommit(ticket, uploads))
        for upload in uploads:
            upload.add_done_callback(lambda _: self._notify())
        self._ahead = (self._chain.version, self._list_waiting(self._chain.version), version)
        self._start()
        return version

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._commit_all, name="in-flight", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _get_pool(self) -> ThreadPoolExecutor:
        if self._uploads is None:
            self._uploads = ThreadPoolExecutor(UPLOADS, thread_name_prefix="upload")
        return self._uploads

    def _begin_upload(self, path: str) -> Future[None]:
        """Return the upload of an object that is on its way or done, or begin it."""
        known = self._shared.get(path)
        if known is not None and not (known.done() and known.exception()):
            return known
        begun = self._get_pool().submit(self._upload, path)
        if path.endswith(BUNDLE):
            self._shared[path] = begun
            self._shared.move_to_end(path)
            if len(self._shared) > SHARED_UPLOADS:
                self._shared.popitem(last=False)
        return begun

    def _upload(self, path: str) -> None:
        if self._spooled is not None:
            self._spooled.upload(path)

    def _collect_spool(self) -> None:
        """Let go of files in the spool that no commit may name any more: failed epochs have left them, or tasks that died."""
        horizon = self._chain.version.horizon_ms
        if self._folder is None or horizon == self._collected:
            return
        for left in self._folder.glob("*"):
            with contextlib.suppress(FileNotFoundError):  # uploaded at this moment
                if _read_created_ms(left) < horizon:
                    left.unlink()
        self._collected = horizon

    def _commit_all(self) -> None:
        """Commit what was handed over, in its order, as soon as its files are in the store."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._thread is not threading.current_thread())
                if not self._queue:
                    return
                ready = self._list_ready()
                if not ready:
                    self._changed.wait(LOOK_SECONDS)
                    continue
            try:
                self._commit_some(ready)
            except BaseException as error:  # whatever it is, nobody may wait for what does not come
                self._lose(error)

    def _list_ready(self) -> list[InFlightCommit]:
        """Return what can be committed next; nothing while something is near that can go with it.

        What goes before it keeps it from the chain for as long as a manifest takes.
        """
        ready = list(itertools.takewhile(lambda handed: handed.is_uploaded, self._queue))
        brought = [handed for handed in ready if handed.advances_tables]
        if len(ready) < len(self._queue):  # the next one has files, which are being uploaded
            is_late = any(time.monotonic() >= handed.patience for handed in brought)
            return ready if is_late else []
        if brought:
            return ready
        is_waiting = not self._awaited and time.monotonic() - self._queue[0].since < BARRIER_WAIT_SECONDS
        return [] if is_waiting else ready

    def _commit_some(self, ready: Sequence[InFlightCommit]) -> None:
        error: BaseException | None = None
        going: list[InFlightCommit] = []
        for handed in ready:
            failed = (upload.exception() for upload in handed.uploads)
            error = next((found for found in failed if found is not None), None)
            if error is not None:
                break
            going.append(handed)
        if going:
            self._chain.commit_all([handed.ticket for handed in going])
        done: list[tuple[InFlightCommit, Version]] = []
        for handed in going:
            try:
                done.append((handed, handed.ticket.result()))
            except BaseException as refused:
                error = refused
                break
        with self._changed:
            for _ in done:
                self._queue.popleft()
            if error is not None:
                self._lose(error)
        for handed, version in done:
            handed.outcome.set_result(version)
            self.maintenance.compact_after_write(
                [name for name, ssts in handed.ticket.commit.writes.items() if ssts]
            )

    def _lose(self, error: BaseException) -> None:
        """Refuse what is on its way: it was made over what could not be committed."""
        with self._changed:
            lost = list(self._queue)
            self._queue.clear()
            self._ahead, self._broken = None, error
        for handed in lost:
            handed.outcome.set_exception(error)


def _apply_ticket(base: Version, ticket: Ticket) -> Version:
    """The version that a commit leads to, with the number and epoch that the store has by now: its own nobody knows yet."""
    delta = rebase(ticket.commit, base, ticket.commit_id, seconds_of(base.epoch))
    return dataclasses.replace(apply_delta(base, delta), number=base.number, epoch=base.epoch)


def _make_spool_folder(base: Hummock) -> Path | None:
    """Return a new folder of this process beside the decoded files, None where none can be made; those of dead ones go."""
    above = base.reader.files.cache.folder / SPOOL
    own = f"{platform.node()}-"
    folder = above / f"{own}{os.getpid()}-{uuid.uuid4().hex[:8]}"
    if not make_private(above):
        return None
    for left in above.iterdir():
        pid = left.name.removeprefix(own).partition("-")[0]
        if left.name.startswith(own) and pid.isdigit() and not _is_alive(int(pid)):
            shutil.rmtree(left, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700)
        return folder
    return None


def _read_created_ms(spooled: Path) -> int:
    """Return when a file of the spool was named, in epoch time; of one that was not written to its end when that began."""
    try:
        return parse_created_ms(unquote(spooled.name))
    except InvariantViolation:
        return int(spooled.stat().st_mtime * 1000) - ORIGIN_MS


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True

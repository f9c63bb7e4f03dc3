"""Where backups of a store are: `backup/<number>`, one object a backup, over `files/`, which they share.

Each run that makes a backup first claims the next number by creating `run/<number>`, which it touches while it works. Its backup
is there when `backup/<number>` is created, once for all: by the run, or, where the run has died, by the next one, as void. So a
run that was given up cannot finish later, and only one at a time deletes files.
"""

from __future__ import annotations

import contextlib
import posixpath
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

import msgspec

from engine.errors import Conflict, CorruptObject, StorageError, Unavailable, UnknownStore
from engine.hummock.backups.backup_format import (
    SUMMARY_BYTES,
    VOID,
    Backup,
    BackupSummary,
    decode_backup,
    decode_summary,
    list_backup_files,
)
from engine.hummock.clock import Clock, system_clock
from engine.hummock.metrics import Counters
from engine.hummock.object_store import ObjectStore, open_object_store
from engine.hummock.object_store.branch import split_branch_url
from engine.hummock.object_store.retrying import wrap_with_retries
from engine.hummock.store_clock import StoreClock

BACKUPS, FILES, RUNS = "backup/", "files/", "run/"
_TORN = ".tmp-"
"""What the names of objects begin with that a process has half written to a directory."""
_COPY = re.compile(r"[^/]*[0-9a-f]{32}\.\w+")
RUN_SECONDS = 300.0
"""A run of which nothing was heard for so long has died."""
TOUCH_SECONDS = 60.0
ANSWER_SECONDS = 60.0


class _RunRecord(msgspec.Struct, frozen=True):
    """Who is at work under a number, and since when."""

    owner: str
    began: float


@dataclass
class Run:
    """A run that makes backup `number`; `cleans` where an earlier one may have left files that no backup names."""

    number: int
    owner: str
    began: float
    cleans: bool
    touched: float
    finished: bool = field(default=False)


@dataclass(frozen=True)
class Sweep:
    """What a sweep deleted: how many files, their bytes; and why backups could not be read, by number: then it deletes none."""

    files: int
    bytes: int
    unreadable: Mapping[int, str]


class BackupPlace:
    """A place for the backups of one store; `open_place` opens one."""

    def __init__(self, url: str, objects: ObjectStore, clock: Clock) -> None:
        self.url, self.objects, self.clock = url, objects, StoreClock(clock, objects)

    def read_file_sizes(self, tick: Callable[[], None] = lambda: None) -> dict[str, int]:
        """Return the stored files, by name, with their bytes; `tick` is called after every thousand."""
        sizes: dict[str, int] = {}
        for info in self.objects.list(FILES):
            sizes[info.path.removeprefix(FILES)] = info.size
            if len(sizes) % 1000 == 0:
                tick()
        return sizes

    def list_backups(self) -> list[BackupSummary]:
        """Return the backups, the oldest first; those that cannot be read are left out."""
        return self._read_summaries()[0]

    def list_unreadable(self) -> dict[int, str]:
        """Return why backups cannot be listed, by number."""
        return self._read_summaries()[1]

    def read_backup(self, number: int | None = None) -> Backup:
        """Return a backup, by default the newest; raises UnknownStore if there is none."""
        numbers = self._list_numbers(BACKUPS) if number is None else [number]
        for each in reversed(numbers):
            path = _build_path(BACKUPS, each)
            data = self.objects.get(path)
            backup = None if data is None else decode_backup(data, path)
            if backup is not None:
                return backup
        which = "no backup" if number is None else f"no backup {number}"
        raise UnknownStore(f"{which} at {self.url}: `tideline backup {self.url} --list` shows what is there")

    def begin(self, store: str) -> Run:
        """Claim the next number for a backup of the store at an address; raises Conflict while another run is alive.

        Raises StorageError if the place is a store, or holds the backups of another one, or one of both is inside of the other.
        """
        check_apart(self.url, store)
        if next(iter(self.objects.list("manifest/")), None) is not None:
            raise StorageError(f"{self.url} is a store itself: name another place for the backups")
        runs, backups = self._list_runs(), self._list_numbers(BACKUPS)
        for number, seconds in runs.items():
            if seconds <= RUN_SECONDS:
                raise Conflict(
                    f"backup {number} to {self.url} is under way, by a sign of {seconds:.0f} s ago: wait for its end; if its "
                    f"process is gone, begin again in {RUN_SECONDS - seconds + 1:.0f} s"
                )
        newest = self._find_newest_summary(backups)
        if newest is not None and _name_store(newest.store) != _name_store(store):
            raise StorageError(
                f"{self.url} holds backups of {newest.store}, this store is {store}: name another place for its backups"
            )
        run = self._claim(max([0, *runs, *backups]) + 1)
        for number in runs:
            self._create(_build_path(BACKUPS, number), VOID)
            self.objects.delete([_build_path(RUNS, number)])
        given_up = max(backups, default=0) > (newest.number if newest else 0)
        run.cleans = bool(runs) or given_up
        return run

    def touch(self, run: Run) -> None:
        """Tell now and then that a run is alive; raises Conflict if another has given it up."""
        if self.clock.monotonic() - run.touched < TOUCH_SECONDS:
            return
        self._require_alive(run)
        if not run.finished and self.objects.head(_build_path(BACKUPS, run.number)) is not None:
            raise _build_given_up(run)
        self.objects.put(_build_path(RUNS, run.number), _encode_record(run))
        run.touched = self.clock.monotonic()

    def finish(self, run: Run, data: bytes) -> None:
        """Make a run's backup visible by one creation; raises Conflict if another has given it up."""
        self._require_alive(run)
        if self._create(_build_path(BACKUPS, run.number), data) != data:
            raise _build_given_up(run)
        run.finished = True

    def end(self, run: Run) -> None:
        """Let go of a run's number; what was not finished is void from now on."""
        if not run.finished:
            self._create(_build_path(BACKUPS, run.number), VOID)
        self.objects.delete([_build_path(RUNS, run.number)])

    @contextlib.contextmanager
    def hold_run(self, store: str) -> Iterator[Run]:
        """Give a run for the block, and end it."""
        run = self.begin(store)
        try:
            yield run
        except Exception:
            with contextlib.suppress(StorageError):
                self.end(run)
            raise
        except BaseException:
            self.end(run)
            raise
        self.end(run)

    def drop_old(self, run: Run, keep: int) -> list[int]:
        """Delete all backups but the newest `keep`, and return their numbers; their files stay until they are swept.

        One that cannot be read is none of those that are kept, and goes with those that are older.
        """
        summaries, unreadable = self._read_summaries()
        kept = [summary.number for summary in summaries[-keep:]]
        older = {*unreadable, *(summary.number for summary in summaries)}
        doomed = sorted(number for number in older if kept and number < kept[0])
        self.touch(run)
        self.objects.delete([_build_path(BACKUPS, number) for number in doomed])
        return doomed

    def sweep(self, run: Run) -> Sweep:
        """Delete the files that no backup names, and what dead processes have half written; return how many and their bytes.

        While there is a backup that cannot be read, no file goes: nobody knows which ones it needs.
        """
        sizes, needed, unreadable = (
            self.read_file_sizes(lambda: self.touch(run)),
            set[str](),
            dict[int, str](),
        )
        for number in self._list_numbers(BACKUPS):
            path = _build_path(BACKUPS, number)
            try:
                data = self.objects.get(path)
                backup = None if data is None else decode_backup(data, path)
            except CorruptObject as error:
                unreadable[number] = str(error)
                continue
            needed |= {file.name for file in list_backup_files(backup.version)} if backup else set()
            self.touch(run)
        doomed = sorted(name for name in sizes if name not in needed and _is_copy(name) and not unreadable)
        for start in range(0, len(doomed), 1000):
            self._require_alive(run)
            self.objects.delete([f"{FILES}{name}" for name in doomed[start : start + 1000]])
            self.touch(run)
        torn = [info.path for folder in (BACKUPS, RUNS) for info in self.objects.list(f"{folder}{_TORN}")]
        self.objects.delete(torn)
        return Sweep(len(doomed), sum(sizes[name] for name in doomed), unreadable)

    def _require_alive(self, run: Run) -> None:
        if self.clock.monotonic() - run.touched > RUN_SECONDS / 2:
            raise Conflict(
                f"backup {run.number} to {self.url} stood still for too long to go on: begin again, it goes on with what is there"
            )

    def _claim(self, number: int) -> Run:
        run = Run(number, uuid.uuid4().hex, self.clock(), cleans=False, touched=self.clock.monotonic())
        data = _encode_record(run)
        if self._create(_build_path(RUNS, number), data) != data:
            raise Conflict(f"another backup to {self.url} has begun at the same moment: wait for its end")
        return run

    def _create(self, path: str, data: bytes) -> bytes:
        """Create an object if it is absent, and return what is there for certain then."""
        until = self.clock.monotonic() + ANSWER_SECONDS
        while True:
            if self.objects.put_if_absent(path, data):
                return data
            if (stored := self.objects.get(path)) is not None:
                return stored
            if self.clock.monotonic() > until:
                raise Unavailable(
                    f"{self.url} did not answer whether {path} was created: `tideline backup {self.url} --list` shows what is "
                    "there"
                )
            self.clock.sleep(self.clock.jitter(1.0))

    def _list_runs(self) -> dict[int, float]:
        """Return the runs by number, with the seconds since they were heard of."""
        found = {info.path.removeprefix(RUNS): info.modified for info in self.objects.list(RUNS)}
        now = self.clock.stamp()
        return {int(name): max(0.0, now - at) for name, at in found.items() if name.isdigit()}

    def _list_numbers(self, folder: str) -> list[int]:
        names = (info.path.removeprefix(folder) for info in self.objects.list(folder))
        return sorted(int(name) for name in names if name.isdigit())

    def _find_newest_summary(self, numbers: Sequence[int]) -> BackupSummary | None:
        for number in reversed(numbers):
            with contextlib.suppress(CorruptObject):
                if (summary := self._read_summary(number)) is not None:
                    return summary
        return None

    def _read_summaries(self) -> tuple[list[BackupSummary], dict[int, str]]:
        """Return the backups, the oldest first, and why others cannot be read, by number."""
        found: list[BackupSummary] = []
        unreadable: dict[int, str] = {}
        for number in self._list_numbers(BACKUPS):
            try:
                summary = self._read_summary(number)
            except CorruptObject as error:
                unreadable[number] = str(error)
            else:
                found += [] if summary is None else [summary]
        return found, unreadable

    def _read_summary(self, number: int) -> BackupSummary | None:
        path = _build_path(BACKUPS, number)
        return decode_summary(self.objects.get_range(path, 0, SUMMARY_BYTES), path)


def open_place(
    url: str, *, create: bool, objects: ObjectStore | None = None, clock: Clock = system_clock
) -> BackupPlace:
    """Open a place for backups, by `objects` if they are given; raises StorageError for what is no address."""
    if split_branch_url(url)[1]:
        raise StorageError(f"{url} is the address of a branch: name another place for the backups")
    try:
        inner = objects if objects is not None else open_object_store(url, create=create)
    except UnknownStore as error:
        raise UnknownStore(f"there are no backups at {url}: correct the address") from error
    return BackupPlace(url.rstrip("/"), wrap_with_retries(inner, Counters(), clock), clock)


def _name_store(url: str) -> str:
    """Return the address of a store in one of its spellings."""
    scheme, separator, path = re.sub("^s3a:", "s3:", url.rstrip("/")).partition("://")
    if scheme == "file":
        path = posixpath.normpath(unquote(path.removeprefix("localhost")))
    return f"{scheme}{separator}{path}"


def check_apart(place: str, store: str) -> None:
    """Raise StorageError where a place is inside of the store, or the store inside of it: one would take files of the other."""
    outer, inner = _name_store(place), _name_store(split_branch_url(store)[0])
    for folder, other, words in (
        (inner, outer, f"{place} is inside of the store {store}, whose collections would delete the backups"),
        (outer, inner, f"the store {store} is inside of {place}"),
    ):
        if other.startswith(folder.rstrip("/") + "/"):
            raise StorageError(f"{words}: name another place for the backups")


def _is_copy(name: str) -> bool:
    """Tell whether a stored file is a copy that a backup made, whole or not; others are none of its business."""
    return name.startswith(_TORN) or _COPY.fullmatch(name) is not None


def _build_path(folder: str, number: int) -> str:
    return f"{folder}{number:020d}"


def _encode_record(run: Run) -> bytes:
    return msgspec.json.encode(_RunRecord(run.owner, run.began))


def _build_given_up(run: Run) -> Conflict:
    return Conflict(
        f"backup {run.number} was given up, as it stood still, and another has begun: begin again"
    )

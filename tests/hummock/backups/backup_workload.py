"""Backups of a store that is written meanwhile, with requests that fail: `python -m tests.hummock.backups.backup_workload range 0 300`.

One process writes, compacts and collects; others make backups whose requests fail by a seed, to the store as to the place of the
backups, and which may crash at any request. The model is what each table was at each epoch. Each backup that is there is restored,
and goes on, after each step that dropped some, and at the end.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import random
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path

from engine.errors import CommitTimeout, CommitUncertain, Conflict, Unavailable
from engine.hummock import Delete, Hummock, Put
from engine.hummock.backups import copying
from engine.hummock.backups.back_up import BackupOptions, BackupReport, back_up
from engine.hummock.backups.backup_format import list_backup_files
from engine.hummock.backups.backup_place import FILES, RUN_SECONDS, BackupPlace, open_place
from engine.hummock.backups.copying import CopyProgress
from engine.hummock.backups.restore import open_target, restore_backup
from engine.hummock.object_store import ObjectStore
from engine.hummock.upkeep.backup_holds import HOLD_SECONDS
from engine.testing.faulty import Crashed, FaultPlan, FaultyObjectStore, RequestFault
from engine.testing.manual_clock import ManualClock
from engine.testing.memory import MemoryObjectStore
from tests.hummock.conftest import SCHEMA, content, keys, rows
from tests.hummock.small import small_sizes

STEPS = 40
GRACE = 900.0
TABLES = {"t": ["id"], "u": None}
STORE, PLACE = "memory://store", "memory://backups"
NO_STALE_LISTS = frozenset(RequestFault) - {RequestFault.stale}
"""Places of backups must list what is there, as all that are supported do."""
Rows = dict[int, str]
REFUSED = (Conflict, CommitTimeout, CommitUncertain, Unavailable)


class BackupWorld:
    """The store, the place of its backups, and what both must hold."""

    def __init__(self, seed: int, cache: Path) -> None:
        self.chance, self.clock, self.cache = random.Random(seed), ManualClock(seed), cache
        self.stored, self.copies = MemoryObjectStore(self.clock), MemoryObjectStore(self.clock)
        self.past: dict[str, list[tuple[int, Rows]]] = {name: [(0, {})] for name in TABLES}
        self.trace: list[str] = []
        self.made: dict[int, int] = {}
        """The epochs of the backups that were told to be there, by number."""
        self.rate = self.chance.choice([0.0, 0.02, 0.05, 0.1])
        self.store = self.open(STORE, self.stored)
        for name, distribution in TABLES.items():
            self.store.create_table(name, SCHEMA, ["id"], distribution)

    def open(self, url: str, objects: ObjectStore) -> Hummock:
        """Open a store, as a process of its own would."""
        return Hummock.open(
            url, cache_dir=self.cache, retention_seconds=600.0, object_store=objects, clock=self.clock
        )

    def open_backups(self, objects: ObjectStore | None = None) -> BackupPlace:
        """Open the place of the backups, by default without faults."""
        return open_place(PLACE, create=True, objects=objects or self.copies, clock=self.clock)

    def write(self) -> None:
        """Write and delete some rows of one table or of both."""
        self.store.refresh()
        changed: dict[str, tuple[Rows, list[int]]] = {}
        for name in self.chance.sample([*TABLES], self.chance.randint(1, len(TABLES))):
            values = {self.chance.randrange(12): f"{len(self.past[name])}.{n}" for n in range(4)}
            changed[name] = values, [self.chance.randrange(12)]
        writes = {name: [Put(rows(dict(new))), Delete(keys(*gone))] for name, (new, gone) in changed.items()}
        epoch = self.store.ingest_batch(writes)
        for name, (new, gone) in changed.items():
            after = {**self.past[name][-1][1], **new}
            self.past[name].append((epoch, {key: after[key] for key in after if key not in gone}))

    def maintain(self, longest: float = 5000.0) -> None:
        """Compact, or let time pass and collect."""
        if self.chance.random() < 0.5:
            self.store.compact(self.chance.choice([*TABLES]))
            return
        self.clock.sleep(self.chance.choice([0.0, 1.0, longest]))
        self.store.gc(grace_seconds=self.chance.choice([0.0, GRACE]))

    def disturb(self, _: CopyProgress) -> None:
        """Go on beside a backup that copies."""
        if self.chance.random() < 0.3:
            self.chance.choice([self.write, lambda: self.maintain(20.0)])()

    def back_up(self, crash_at: tuple[int | None, int | None] = (None, None)) -> BackupReport | None:
        """Make a backup with faults, and perhaps a crash at a request to the store, or to the place; None if it failed."""
        plans = [FaultPlan(self.chance.randrange(1 << 30), self.rate, crash_at=crash_at[0])]
        plans += [FaultPlan(self.chance.randrange(1 << 30), self.rate, 0.0, NO_STALE_LISTS, crash_at[1])]
        seen = [
            FaultyObjectStore(inner, plan, self.clock)
            for inner, plan in zip((self.stored, self.copies), plans, strict=True)
        ]
        keep, verify = self.chance.choice([None, None, 1, 3]), self.chance.random() < 0.3
        options, failed = BackupOptions(keep, verify, self.disturb), False
        try:
            report = back_up(self.open(STORE, seen[0]), self.open_backups(seen[1]), options)
        except (*REFUSED, Crashed) as error:
            self.trace.append(f"  {type(error).__name__}: {error}")
            failed = True
        finally:
            for objects in seen:
                objects.settle()
                objects.deliver_late()
        if failed:
            self.note_unfinished(keep)
            return None
        self.trace.append(f"  backup {report.summary.number}, dropped {report.dropped}")
        self.made[report.summary.number] = report.summary.epoch
        self.made = {number: epoch for number, epoch in self.made.items() if number not in report.dropped}
        return report

    def note_unfinished(self, keep: int | None) -> None:
        """A backup that failed after its object was created is there, and may have dropped others."""
        there = [summary.number for summary in self.open_backups().list_backups()]
        if keep and there and there[-1] not in self.made:
            self.made = {number: epoch for number, epoch in self.made.items() if number in there}

    def run(self) -> None:
        """Run the whole program, and look for what is left."""
        for _ in range(STEPS):
            verb = self.chance.choices([self.write, self.maintain, self.run_backup], [6, 3, 3])[0]
            self.trace.append(verb.__name__)
            verb()
        self.check()
        self.check_nothing_left()

    def run_backup(self) -> None:
        """Make a backup, which may crash, after a time in which one that had died is taken for dead, or not."""
        self.clock.sleep(self.chance.choice([0, 2 * HOLD_SECONDS]))
        at = self.chance.randrange(1, 60) if self.chance.random() < 0.4 else None
        self.back_up((at, None) if self.chance.random() < 0.5 else (None, at))

    def check(self) -> None:
        """Restore each backup that is there, and hold it against the model; what was told to be there is."""
        place = self.open_backups()
        summaries = {summary.number: summary for summary in place.list_backups()}
        assert set(self.made) <= set(summaries), f"backups {set(self.made) - set(summaries)} are gone"
        for number in summaries:
            self.check_restored(place, number)

    def check_restored(self, place: BackupPlace, number: int) -> None:
        """Restore a backup; it has the rows of its epoch, and of those before it that it keeps, and goes on."""
        objects, url = MemoryObjectStore(self.clock), f"memory://restored/{number}"
        if not self.try_restore(objects, url, number):
            restore_backup(place, open_target(url, objects=objects, clock=self.clock), number)
        epoch = place.read_backup(number).summary.epoch
        assert self.made.get(number, epoch) == epoch
        restored = self.open(url, objects)
        for name, past in self.past.items():
            safe = restored.version.tables[name].safe_epoch
            for at in {epoch, *(since for since, _ in past if max(safe, 1) <= since <= epoch)}:
                expected = [found for since, found in past if since <= at][-1]
                assert content(restored, name, at) == expected, f"backup {number}, {name} at {at}"
        expected = content(restored) | {99: "new"}
        restored.ingest_batch({"t": Put(rows({99: "new"}))})
        restored.compact("t")
        self.clock.sleep(2 * GRACE)
        restored.gc(grace_seconds=GRACE)
        assert content(restored) == content(self.open(url, objects)) == expected
        assert not restored.version.branches and not any(
            info.path.startswith("branch/") for info in objects.list("")
        )

    def try_restore(self, objects: ObjectStore, url: str, number: int) -> bool:
        """Begin a restore whose requests fail, and which may die before its store is there; whether it is there."""
        plans = [FaultPlan(self.chance.randrange(1 << 30), self.rate, 0.0, NO_STALE_LISTS) for _ in range(2)]
        copies, restored = (
            FaultyObjectStore(inner, plan, self.clock)
            for inner, plan in zip((self.copies, objects), plans, strict=True)
        )

        def die(progress: CopyProgress) -> None:
            if progress.done == progress.files or self.chance.random() < 0.1:
                raise Crashed("during a restore")

        with contextlib.suppress(*REFUSED, Crashed):
            restore_backup(
                self.open_backups(copies),
                open_target(url, objects=restored, clock=self.clock),
                number,
                tell=die,
            )
        restored.settle()
        return any(info.path[-1].isdigit() for info in objects.list("manifest/"))

    def check_nothing_left(self) -> None:
        """After a backup without faults the place has what its backups name, and the store nothing of them."""
        self.rate = 0.0
        self.clock.sleep(HOLD_SECONDS + RUN_SECONDS)
        report = back_up(self.store, self.open_backups(), BackupOptions(keep=2))
        self.made[report.summary.number] = report.summary.epoch
        self.check_files()
        assert not any(self.copies.list("run/"))
        self.clock.sleep(10 * GRACE)
        for _ in range(2):
            self.store.gc(grace_seconds=GRACE)
            self.clock.sleep(10 * GRACE)
        self.store.gc(grace_seconds=GRACE)
        assert not self.store.version.branches and not self.store.version.catalog
        assert not [info.path for info in self.stored.list("branch/")]

    def check_files(self) -> None:
        """The files of the place are those that its backups name."""
        place = self.open_backups()
        numbers = [summary.number for summary in place.list_backups()]
        named = {
            file.name for number in numbers for file in list_backup_files(place.read_backup(number).version)
        }
        assert {info.path.removeprefix(FILES) for info in self.copies.list(FILES)} == named


@contextlib.contextmanager
def one_file_at_a_time() -> Iterator[None]:
    """Let backups copy one file at a time, so that all else can happen between any two."""
    before = copying.MOST_BYTES
    copying.MOST_BYTES = 0
    try:
        yield
    finally:
        copying.MOST_BYTES = before


def run_seed(seed: int) -> str | None:
    """Run one seed; None, or what went wrong and the line that replays it."""
    with tempfile.TemporaryDirectory(prefix="tideline-backups-") as folder:
        world: BackupWorld | None = None
        try:
            with small_sizes(), one_file_at_a_time():
                world = BackupWorld(seed, Path(folder))
                world.run()
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            steps = [] if world is None else world.trace[-16:]
            shown = "\n".join([*steps, traceback.format_exc(limit=-8)])
            return f"{shown}\nreplay: python -m tests.hummock.backups.backup_workload range {seed} {seed + 1}"
    return None


def main() -> None:
    """Run a range of seeds on two processes and stop at the first that fails."""
    os.environ.setdefault("TIDELINE_VERIFY", "1")
    if len(sys.argv) != 4 or sys.argv[1] != "range":
        sys.exit("usage: python -m tests.hummock.backups.backup_workload range FIRST END")
    seeds = range(int(sys.argv[2]), int(sys.argv[3]))
    with multiprocessing.get_context("spawn").Pool(
        min(2, len(seeds)), logging.disable, [logging.WARNING]
    ) as pool:
        for done, failure in enumerate(pool.imap(run_seed, seeds, chunksize=2), start=1):
            if failure is not None:
                print(failure)
                sys.exit(1)
            if done % 20 == 0:
                print(f"{done} seeds", flush=True)
    print(f"{len(seeds)} seeds: every backup is what the store was at its epoch, and nothing is left")


if __name__ == "__main__":
    main()

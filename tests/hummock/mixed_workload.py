"""A mixed workload on stores whose requests fail by a seed: `python -m tests.hummock.mixed_workload --seeds 0:1000`.

Three processes share one object store in memory and a test clock. Each request of each may fail; another process may run
between any two requests; a process may crash at any request and is started anew. After every step the ledger holds what the
manifests say against what the writers were told, and the engine's reads against the ledger.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from engine.errors import (
    CommitTimeout,
    CommitUncertain,
    Conflict,
    EpochExpired,
    Fenced,
    StorageError,
    TableExists,
    Unavailable,
    UnknownTable,
)
from engine.hummock import Commit, Delete, Hummock, Put, Table
from engine.hummock.compaction.worker import CompactionWorker
from engine.hummock.epoch import epoch_at
from engine.hummock.object_store import ObjectStore
from engine.testing.faulty import Crashed, FaultyObjectStore
from engine.testing.manual_clock import ManualClock
from engine.testing.memory import MemoryObjectStore
from tests.hummock.conftest import SCHEMA, content, keys, log, rows
from tests.hummock.dated import DatedObjectStore
from tests.hummock.faulty_process import Process, Shared
from tests.hummock.kept_fingerprints import list_wrong_fingerprints
from tests.hummock.ledger import Ledger, Write, difference
from tests.hummock.small import small_sizes

STEPS = 40
RETENTION = 600.0
GRACE = 900.0
TABLES = ("t", "u")
SHARED = Path("/dev/shm")
REFUSED = (Conflict, Fenced, UnknownTable, TableExists, CommitTimeout, Unavailable, EpochExpired)
UNCERTAIN = (CommitUncertain, Crashed)


class World:
    """The object store, the clock, the processes, and the ledger that judges them."""

    def __init__(self, seed: int, cache: Path) -> None:
        self.chance, self.clock = random.Random(seed), ManualClock(seed)
        on_disk = self.chance.random() < 0.2  # where writes can be torn
        self.inner: ObjectStore = (
            DatedObjectStore(cache / "store", self.clock) if on_disk else MemoryObjectStore(self.clock)
        )
        self.cache, self.url = cache / "cache", f"memory://{seed}"
        shared = Shared(
            self.chance,
            self.clock,
            self.inner,
            self.url,
            self.cache,
            RETENTION,
            rate=self.chance.choice([0.0, 0.02, 0.05, 0.15]),
            outages=self.chance.choice([0.0, 0.0, 0.01]),
            interrupt=self.maybe_interrupt,
        )
        self.ledger = Ledger(self.inner)
        self.trace: list[str] = []
        self._interrupting = True
        self.processes = [Process(name, shared) for name in "abc"]
        self.observer = Hummock.open(
            self.url,
            cache_dir=self.cache,
            retention_seconds=RETENTION,
            object_store=self.inner,
            clock=self.clock,
            auto_compact="off",
        )
        for name, distribution in zip(TABLES, (["id"], None), strict=True):
            self.observer.create_table(name, SCHEMA, ["id"], distribution)
        self.ledger.follow()
        self._interrupting = False

    def maybe_interrupt(self, running: FaultyObjectStore) -> None:
        """Run a step of another process in the middle of one, at most one deep."""
        if self._interrupting or self.chance.random() > 0.05:
            return
        self._interrupting = True
        try:
            other = self.chance.choice([p for p in self.processes if p.objects is not running])
            self.step(other, self.chance.choice([self.write, self.compact, self.commit_labelled, self.claim]))
        finally:
            self._interrupting = False

    def stall(self, process: Process) -> None:
        """Let a process stand still for longer than the grace time while another one collects."""
        if not self._interrupting:
            self._interrupting = True
            try:
                self.clock.sleep(5 * GRACE)
                self.step(self.chance.choice([p for p in self.processes if p is not process]), self.collect)
            finally:
                self._interrupting = False

    def run(self) -> None:
        """Run the whole workload and settle accounts."""
        for _ in range(STEPS):
            process = self.chance.choice(self.processes)
            verbs, weights = zip(*self.verbs(), strict=True)
            self.step(process, self.chance.choices(verbs, weights)[0])
            if self.chance.random() < 0.5:
                process.objects.deliver_late()
            self.check()
        for process in self.processes:
            process.objects.deliver_late()
        self.ledger.settle()
        self.check(every_epoch=True)
        self.check_that_nothing_is_left_over()

    def verbs(self) -> list[tuple[Callable[[Process], None], int]]:
        """What a process may do, and how often."""
        return [
            (self.write, 10),
            (self.hand_over, 4),
            (self.commit_labelled, 4),
            (self.read, 6),
            (self.read_log, 4),
            (self.compact, 4),
            (self.collect, 3),
            (self.claim, 2),
            (self.hold, 3),
            (self.recreate, 1),
            (self.let_time_pass, 2),
            (self.reopen, 2),
        ]

    def step(self, process: Process, verb: Callable[[Process], None]) -> None:
        """Run one verb; what may go wrong ends in an error that says what happened."""
        self.trace.append(f"{process.name}: {verb.__name__}")
        try:
            verb(process)
        except (*REFUSED, *UNCERTAIN) as error:
            self.trace.append(f"  {type(error).__name__}: {error}")
        if process.objects.crashed:
            process.store = None
        self.ledger.follow()

    def write(self, process: Process) -> None:
        """Write to both tables, or to one, by ingest_batch or an epoch batch."""
        store = process.opened()
        tables = self.chance.choice([TABLES, TABLES, ("t",), ("u",)])
        puts, deletes = self._some_rows(tables)
        write = self.ledger.write(puts, deletes)
        if self.chance.random() < 0.5:
            self._try(write, lambda: store.ingest_batch({t: _operations(write, t) for t in tables}))
        else:
            self._try(write, lambda: _by_batch(store, write))

    def hand_over(self, process: Process) -> None:
        """Hand some epochs over to the shared buffer and wait for them."""
        store = process.opened()
        writes, sealed = [], []
        for _ in range(self.chance.randrange(1, 4)):
            puts, _ = self._some_rows(TABLES)
            writes.append(write := self.ledger.write(puts, {}, left_out=set()))
            with store.epoch(wait=False) as batch:
                for table in TABLES:
                    batch.put(table, rows(write.puts[table]))
            sealed.append(batch.sealed)
        for write, epoch in zip(writes, sealed, strict=True):
            try:
                write.acknowledged = epoch.result()  # type: ignore[union-attr]
                write.left_out = epoch.left_out  # type: ignore[union-attr]
            except UNCERTAIN as error:
                self.trace.append(f"  {write.token}: {type(error).__name__}: {error}")
            except StorageError as error:
                write.refused = f"{type(error).__name__}: {error}"
                self.trace.append(f"  {write.token} refused: {write.refused}")

    def commit_labelled(self, process: Process) -> None:
        """Write as a job does: files first, then a commit by a claimed generation, sometimes an old one."""
        store = process.opened()
        if process.generation is None:
            return self.claim(process)
        puts, _ = self._some_rows(("t",))
        write = self.ledger.write(puts, {}, writer="job", generation=process.generation)
        table = store.table("t")

        def work() -> int:
            stored = rows(write.puts["t"]).append_column(
                "_op", pa.array([0] * len(write.puts["t"]), pa.uint8())
            )
            ssts = store.reader.write_run(table, stored)
            if self.chance.random() < 0.3:
                self.stall(process)
            commit = Commit(writes={"t": ssts}, writer="job", generation=process.generation)
            return store.commit(commit).epoch

        try:
            self._try(write, work)
        except Fenced:
            process.generation = None
            raise

    def claim(self, process: Process) -> None:
        """Take over as the job."""
        store = process.opened()
        process.generation = None
        try:
            process.generation = store.claim("job")
            self.ledger.claims["acknowledged"] += 1
        except UNCERTAIN:
            self.ledger.claims["uncertain"] += 1
            raise

    def read(self, process: Process) -> None:
        """Read a table at a random epoch that it knows."""
        store = process.opened()
        store.refresh()
        name = self.chance.choice(TABLES)
        table = store.version.tables[name]
        epoch = self.chance.choice(self._readable(store, name) or [None])
        expected = self.ledger.at(name, table.committed_epoch if epoch is None else epoch)
        if self.chance.random() < 0.5:
            assert content(store, name, epoch) == expected
        else:
            ids = [*range(12), -1]
            found = store.multi_get(name, keys(*ids), epoch).column("v").to_pylist()
            assert dict(zip(ids, found, strict=True)) == {i: expected.get(i) for i in ids}

    def read_log(self, process: Process) -> None:
        """Read a net change between two epochs that it knows."""
        store = process.opened()
        store.refresh()
        name = self.chance.choice(TABLES)
        epochs = self._readable(store, name)
        if len(epochs) > 1:
            after, upto = sorted(self.chance.sample(epochs, 2))
            expected = difference(self.ledger.at(name, after), self.ledger.at(name, upto))
            assert log(store, after, upto, name) == expected

    def compact(self, process: Process) -> None:
        """Compact a table, fully or its newest runs, or do what a compactor finds to do."""
        store = process.opened()
        verb = self.chance.choice(["compact", "compact_l0", "compactor"])
        if verb == "compactor":
            CompactionWorker(store, process.name).run_once()
        else:
            getattr(store, verb)(self.chance.choice(TABLES))

    def collect(self, process: Process) -> None:
        """Collect garbage, sometimes after a long time."""
        self.clock.sleep(self.chance.choice([0, 1000, 5000]))
        process.opened().gc(grace_seconds=self.chance.choice([GRACE, 4 * GRACE]))

    def hold(self, process: Process) -> None:
        """Pin a readable epoch, acknowledge one, or let go."""
        store = process.opened()
        name, part = self.chance.choice(TABLES), self.chance.choice(["acks", "pins"])
        store.refresh()
        epochs = self._readable(store, name)
        epoch = self.chance.choice([*epochs[-4:], None])
        store.commit(Commit(**{part: {name: {process.name: epoch}}}))

    def recreate(self, process: Process) -> None:
        """Drop a table and create it again, in one commit."""
        store = process.opened()
        name = self.chance.choice(TABLES)
        store.commit(Commit(drop=(name,), create=(Table(name, SCHEMA, ("id",), ("id",)),)))

    def let_time_pass(self, _: Process) -> None:
        """Nothing happens for a while."""
        self.clock.sleep(self.chance.choice([1, 60, 400, 3000]))

    def reopen(self, process: Process) -> None:
        """Close the handle; the next verb opens the store again."""
        if process.store is not None:
            process.store.close()
        process.store = None

    def check(self, every_epoch: bool = False) -> None:
        """Hold the store, seen without faults, against the ledger."""
        self.ledger.follow()
        version = self.observer.refresh()
        assert version.number == self.ledger.number
        self.ledger.everything_referenced_is_there(version)
        assert not list_wrong_fingerprints(self.observer.reader, version)
        for name in TABLES:
            table = version.tables[name]
            held = [*table.acks.values(), *table.pins.values()]
            assert all(table.safe_epoch <= epoch for epoch in held), "history was cut below a pin"
            first = self.ledger.past[name][0][0]
            assert table.safe_epoch <= max(first, epoch_at(self.clock() - RETENTION)), (
                "history was cut too early"
            )
            assert content(self.observer, name) == self.ledger.past[name][-1][1]
            epochs = self._readable(self.observer, name)
            for epoch in epochs if every_epoch else self.chance.sample(epochs, min(1, len(epochs))):
                assert content(self.observer, name, epoch) == self.ledger.at(name, epoch), (
                    f"{name} at {epoch}"
                )

    def check_that_nothing_is_left_over(self) -> None:
        """After the grace time a collection leaves what the version refers to, and no manifest below the boundary."""
        for _ in range(2):
            self.clock.sleep(10 * GRACE)
            self.observer.gc(grace_seconds=GRACE)
            self.ledger.follow()
        version = self.observer.version
        stored = {info.path for info in self.inner.list("")}
        referenced = set().union(*(table.list_objects() for table in version.tables.values()))
        assert {path for path in stored if path.startswith("sst/")} == referenced
        boundary = int(self.inner.get("manifest/boundary") or 0)
        others = {"manifest/boundary", "manifest/hint"}
        assert {
            path for path in stored - referenced - others if path < f"manifest/{boundary + 1:020d}"
        } == set()
        self.check(every_epoch=True)

    def _readable(self, store: Hummock, name: str) -> list[int]:
        table = store.version.tables[name]
        return [e for e, _ in self.ledger.past[name] if max(1, table.safe_epoch) <= e <= store.version.epoch]

    def _some_rows(
        self, tables: tuple[str, ...]
    ) -> tuple[dict[str, dict[int, str]], dict[str, frozenset[int]]]:
        chance = self.chance
        puts = {t: {chance.randrange(12): f"v{chance.randrange(100)}" for _ in range(4)} for t in tables}
        return puts, {t: frozenset(chance.sample(range(12), chance.randrange(3))) for t in tables}

    def _try(self, write: Write, work: Callable[[], int]) -> None:
        try:
            write.acknowledged = work()
        except REFUSED as error:
            write.refused = f"{type(error).__name__}: {error}"
            raise
        self.trace.append(f"  {write.token} in {write.acknowledged}")


def _operations(write: Write, table: str) -> list[Put | Delete]:
    return [Put(rows(write.puts[table])), Delete(keys(*write.deletes[table]))]


def _by_batch(store: Hummock, write: Write) -> int:
    with store.epoch() as batch:
        for table in write.puts:
            batch.put(table, rows(write.puts[table]))
            batch.delete(table, keys(*write.deletes[table]))
    assert batch.result_epoch is not None
    return batch.result_epoch


def run_seed(seed: int) -> str | None:
    """Run one seed; None, or what went wrong and the line that replays it."""
    with tempfile.TemporaryDirectory(
        prefix="tideline-faults-", dir=SHARED if SHARED.is_dir() else None
    ) as folder:
        world: World | None = None
        try:
            with small_sizes():
                world = World(seed, Path(folder))
                world.run()
        except BaseException:
            if sys.exc_info()[0] is KeyboardInterrupt:
                raise
            steps = [] if world is None else world.trace[-12:]
            faults = (
                [] if world is None else [line for p in world.processes for line in p.objects.plan.log[-4:]]
            )
            shown = "\n".join([*steps, *faults, traceback.format_exc(limit=-6)])
            return f"{shown}\nreplay: python -m tests.hummock.mixed_workload --seeds {seed}"
    return None


def main() -> None:
    """Run a range of seeds on two processes and stop at the first that fails."""
    os.environ.setdefault("TIDELINE_VERIFY", "1")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:1000", help="one seed, or first:end")
    first, _, end = parser.parse_args().seeds.partition(":")
    seeds = range(int(first), int(end) if end else int(first) + 1)
    with multiprocessing.get_context("spawn").Pool(min(2, len(seeds))) as pool:
        for done, failure in enumerate(pool.imap(run_seed, seeds, chunksize=4), start=1):
            if failure is not None:
                print(failure)
                sys.exit(1)
            if done % 100 == 0:
                print(f"{done} seeds", flush=True)
    print(f"{len(seeds)} seeds: nothing lost, doubled, visible early, or deleted while referenced")


if __name__ == "__main__":
    main()

"""Branches on stores whose requests fail by a seed: `python -m tests.hummock.branch_workload range 0 300`.

Three processes share one object store in memory and a test clock; each may crash at any request, and another may run between any
two. They write to a store and to its branches, compact and collect in all of them, create branches, also of branches, and drop
them. The model is a dictionary for each, made from the manifests that are there; each write says what it was told. At the end all
branches are dropped, and what is left is what the store's version names.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import random
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from engine.errors import (
    BranchExists,
    CommitTimeout,
    CommitUncertain,
    Conflict,
    Fenced,
    StorageError,
    Unavailable,
    UnknownStore,
)
from engine.hummock import Commit, Hummock
from engine.hummock.manifests.delta import Delta
from engine.hummock.manifests.manifest import decode_manifest, manifest_path
from engine.hummock.object_store.branch import find_branch_place
from engine.hummock.version import build_place
from engine.testing.faulty import Crashed, FaultyObjectStore
from engine.testing.manual_clock import ManualClock
from engine.testing.memory import MemoryObjectStore
from tests.hummock.conftest import SCHEMA, content, rows
from tests.hummock.faulty_process import Process, Shared
from tests.hummock.kept_fingerprints import list_wrong_fingerprints
from tests.hummock.small import small_sizes

STEPS = 50
RETENTION, GRACE = 600.0, 900.0
TABLES = ("t", "u")
NAMES = ("x", "y")
REFUSED = (Conflict, Fenced, CommitTimeout, Unavailable, BranchExists)
UNCERTAIN = (CommitUncertain, Crashed)
Rows = dict[int, str]


@dataclass
class BranchModel:
    """What a store or a branch must hold: by table what it was from which epoch on."""

    place: str
    past: dict[str, list[tuple[int, Rows]]]
    number: int = 0
    closed: bool = False
    children: dict[str, str] = field(default_factory=dict)
    """The places of its branches by name."""

    def at(self, table: str, epoch: int) -> Rows:
        """The rows of a table at an epoch."""
        return [found for since, found in self.past[table] if since <= epoch][-1]


class BranchWorld:
    """The object store, the processes, and the models of all branches that are there."""

    def __init__(self, seed: int, cache: Path) -> None:
        self.chance, self.clock = random.Random(seed), ManualClock(seed)
        self.inner, self.cache, self.url = MemoryObjectStore(self.clock), cache, f"memory://{seed}"
        rate, outages = self.chance.choice([0.0, 0.02, 0.05, 0.12]), self.chance.choice([0.0, 0.0, 0.01])
        shared = Shared(
            self.chance,
            self.clock,
            self.inner,
            self.url,
            cache,
            RETENTION,
            rate,
            outages,
            self.maybe_interrupt,
        )
        self.trace: list[str] = []
        self.tokens: dict[str, tuple[str, Rows]] = {}
        """Of each write, by its token: the table and the rows."""
        self.places: dict[str, str] = {}
        self.told: dict[str, int | str] = {}
        """Of each write its epoch, or why it was refused."""
        self.found: dict[str, int] = {}
        self.models = {"": BranchModel("", {name: [(0, {})] for name in TABLES})}
        self._interrupting = True
        self.observers: dict[str, Hummock] = {}
        root = self.observe("")
        for name, distribution in zip(TABLES, (["id"], None), strict=True):
            root.create_table(name, SCHEMA, ["id"], distribution)
        self.processes = [Process(name, shared) for name in "abc"]
        self.handles: dict[str, dict[str, Hummock]] = {process.name: {} for process in self.processes}
        self.follow()
        self._interrupting = False

    def open(self, place: str, objects: object) -> Hummock:
        """Open what is at a place."""
        return Hummock.open(
            f"{self.url}/{place}".rstrip("/"),
            cache_dir=self.cache,
            retention_seconds=RETENTION,
            object_store=objects,  # type: ignore[arg-type]
            clock=self.clock,
        )

    def observe(self, place: str) -> Hummock:
        """Return a handle whose requests do not fail."""
        if place not in self.observers or self.chance.random() < 0.1:
            self.observers[place] = self.open(place, self.inner)
        return self.observers[place]

    def handle(self, process: Process, place: str) -> Hummock:
        """Return a process's handle of a place."""
        if process.objects.crashed:
            process.start()
            self.handles[process.name] = {}
        handles = self.handles[process.name]
        if place not in handles:
            handles[place] = self.open(place, process.objects)
        return handles[place]

    def maybe_interrupt(self, running: FaultyObjectStore) -> None:
        """Run a step of another process in the middle of one, at most one deep."""
        if self._interrupting or self.chance.random() > 0.06:
            return
        self._interrupting = True
        try:
            other = self.chance.choice([p for p in self.processes if p.objects is not running])
            verbs = [self.write, self.write, self.compact, self.create, self.drop, self.collect]
            self.step(other, self.chance.choice(verbs), follow=False)
        finally:
            self._interrupting = False

    def run(self) -> None:
        """Run the whole program, drop all branches, and look for what is left."""
        verbs: dict[Callable[[Process, str], None], int] = {
            self.write: 12,
            self.write_late: 2,
            self.compact: 5,
            self.collect: 5,
            self.create: 4,
            self.drop: 2,
            self.read: 4,
            self.reopen: 2,
            self.wait: 2,
        }
        for _ in range(STEPS):
            self.step(self.chance.choice(self.processes), self.chance.choices([*verbs], [*verbs.values()])[0])
            self.check()
        self.settle()
        self.check(every_epoch=True)
        self.drop_all()
        self.check_nothing_left()

    def step(self, process: Process, verb: Callable[[Process, str], None], *, follow: bool = True) -> None:
        """Run one verb at a place that is there, or that the process still has open."""
        places = [*self.models, *self.models, *self.handles[process.name]]
        place = self.chance.choice(places)
        self.trace.append(f"{process.name}: {verb.__name__} {place}")
        try:
            verb(process, place)
        except (*REFUSED, *UNCERTAIN) as error:
            self.trace.append(f"  {type(error).__name__}: {error}")
        except StorageError as error:
            self.trace.append(f"  {type(error).__name__}: {error}")
            if follow:
                self.settle()
            self._judge_failure(process, verb, place, error)
        if follow:
            if self.chance.random() < 0.5:
                process.objects.deliver_late()
            self.follow()

    def _judge_failure(
        self, process: Process, verb: Callable[[Process, str], None], place: str, error: StorageError
    ) -> None:
        """Raise if a store or a branch that is there failed; of those that were dropped everything may be gone."""
        self.handles[process.name].pop(place, None)
        if isinstance(error, UnknownStore) and verb in (self.create, self.drop):
            return  # another process has dropped the same branch
        self.follow()
        model = self.models.get(place)
        assert model is None or model.closed, f"{place or 'the store'} failed: {error}"

    def write(self, process: Process, place: str, pause: float = 0.0) -> None:
        """Write rows to a table, with a token by which the manifest is known."""
        store = self.handle(process, place)
        table, token = self.chance.choice(TABLES), f"w{len(self.tokens)}"
        values: Rows = {self.chance.randrange(10): f"{token}.{n}" for n in range(4)}
        self.tokens[token], self.places[token] = (table, values), place
        try:
            stored = rows(dict(values)).append_column("_op", pa.array([0] * len(values), pa.uint8()))
            ssts = store.reader.write_run(store.table(table), stored)
            self.clock.sleep(pause)
            self.told[token] = store.commit(Commit(writes={table: ssts}, catalog={"token": token})).epoch
            self.trace.append(f"  {token} in {self.told[token]}")
        except UNCERTAIN:
            raise
        except StorageError as error:
            self.told[token] = f"{type(error).__name__}: {error}"
            raise

    def write_late(self, process: Process, place: str) -> None:
        """Stand still for longer than the grace time between the file and its commit, while another collects or drops."""
        other = self.chance.choice([p for p in self.processes if p is not process])
        store = self.handle(process, place)
        store.refresh()
        verbs = [self.collect, self.drop] if place else [self.collect]
        if not self._interrupting:
            self._interrupting = True
            try:
                for verb in (*verbs, self.collect):
                    self.follow()
                    self.clock.sleep(2 * GRACE)
                    self.step(other, verb)
            finally:
                self._interrupting = False
        self.write(process, place)

    def compact(self, process: Process, place: str) -> None:
        """Compact a table."""
        store = self.handle(process, place)
        getattr(store, self.chance.choice(["compact", "compact_l0"]))(self.chance.choice(TABLES))

    def collect(self, process: Process, place: str) -> None:
        """Collect garbage, sometimes after a long time."""
        if not self._interrupting:
            self.clock.sleep(self.chance.choice([0, 1000, 5000]))
        self.handle(process, place).gc(grace_seconds=self.chance.choice([GRACE, 4 * GRACE]))

    def create(self, process: Process, place: str) -> None:
        """Create a branch, of a branch too."""
        if place.count("branch/") < 3:
            name = self.chance.choice(NAMES)
            branch = self.handle(process, place).create_branch(name)
            self.trace.append(f"  {branch.url}")
            if self.chance.random() < 0.5:
                self.handle(process, f"{find_branch_place(branch.url)}")

    def drop(self, process: Process, place: str) -> None:
        """Drop a branch if there is one."""
        store = self.handle(process, place)
        names = [branch.name for branch in store.list_branches()]
        if names:
            store.drop_branch(self.chance.choice(names))

    def read(self, process: Process, place: str) -> None:
        """Read both tables; what they hold is checked by the observers."""
        store = self.handle(process, place)
        store.refresh()
        for name in TABLES:
            content(store, name)

    def reopen(self, process: Process, _: str) -> None:
        """Close all handles."""
        self.handles[process.name] = {}

    def wait(self, _: Process, __: str) -> None:
        """Nothing happens for a while."""
        self.clock.sleep(self.chance.choice([1, 60, 400, 3000]))

    def settle(self) -> None:
        """Let all that is under way arrive."""
        for process in self.processes:
            process.objects.deliver_late()
        self.follow()

    def follow(self) -> None:
        """Bring the models on by the manifests that are there."""
        for place in list(self.models):
            if place in self.models:
                self._follow_one(self.models[place])

    def _follow_one(self, model: BranchModel) -> None:
        while True:
            path = f"{model.place}{manifest_path(model.number + 1)}"
            data = self.inner.get(path)
            if data is None:
                return
            manifest = decode_manifest(data, path)
            model.number += 1
            for delta in manifest.deltas:
                self._apply(model, delta)
            begun = {name for delta in manifest.deltas for name, begins in delta.branches.items() if begins}
            for name in begun:
                self._begin(model, name)

    def _apply(self, model: BranchModel, delta: Delta) -> None:
        assert not model.closed, f"a commit follows the end of {model.place}"
        token = delta.catalog.get("token") if delta.writes else None
        if token is not None:
            table, values = self.tokens[token]
            assert token not in self.found, f"{token} is committed twice"
            told = self.told.get(token, delta.epoch)
            gone = isinstance(told, str) and told.startswith("BranchDropped")  # it came right before the end
            assert told == delta.epoch or gone, f"{token} is in {delta.epoch}, told was {told}"
            self.found[token] = delta.epoch
            model.past[table].append((delta.epoch, {**model.past[table][-1][1], **values}))
        for name, begins in delta.branches.items():
            if not begins:
                gone = model.children.pop(name)
                self._follow_one(self.models[gone])
                assert self.models[gone].closed
                assert not self.models[gone].children, f"{gone} has branches and was dropped"
                del self.models[gone]
                self.observers.pop(gone, None)
        model.closed |= delta.closed

    def _begin(self, model: BranchModel, name: str) -> None:
        place = f"{model.place}{build_place(name, model.number)}"
        model.children[name] = place
        past = {table: list(entries) for table, entries in model.past.items()}
        self.models[place] = BranchModel(place, past)
        self._follow_one(self.models[place])

    def check(self, every_epoch: bool = False) -> None:
        """Hold what each store and branch gives to read against its model."""
        self.follow()
        for place, model in self.models.items():
            if model.closed:
                continue
            store = self.observe(place)
            version = store.refresh()
            assert version.number == model.number, place
            assert not list_wrong_fingerprints(store.reader, version), place
            for token, told in self.told.items():
                if self.places[token] == place and isinstance(told, int):
                    assert token in self.found, f"{token} was told to be in {told} and is nowhere"
            for name in TABLES:
                table = version.tables[name]
                missing = [path for path in table.list_objects() if self.inner.head(path) is None]
                assert not missing, f"{place or 'the store'} lost {missing}"
                assert content(store, name) == model.past[name][-1][1], f"{place} {name}"
                epochs = [e for e, _ in model.past[name] if max(1, table.safe_epoch) <= e]
                for epoch in epochs if every_epoch else self.chance.sample(epochs, min(1, len(epochs))):
                    assert content(store, name, epoch) == model.at(name, epoch), f"{place} {name} at {epoch}"

    def drop_all(self) -> None:
        """Drop every branch, those of branches first."""
        for place in sorted(self.models, key=len, reverse=True):
            model = self.models.get(place)
            for name in list(model.children) if model else ():
                self.observe(place).drop_branch(name)
        self.follow()
        assert set(self.models) == {""}

    def check_nothing_left(self) -> None:
        """After the grace time a collection leaves what the store's version names."""
        for _ in range(3):
            self.clock.sleep(10 * GRACE)
            self.observe("").gc(grace_seconds=GRACE)
        version = self.observe("").refresh()
        assert not version.branches
        self.follow()
        referenced = set().union(*(table.list_objects() for table in version.tables.values()))
        stored = {info.path for info in self.inner.list("")}
        assert {path for path in stored if not path.startswith("manifest/")} == referenced
        first = int(self.inner.get("manifest/boundary") or 0) + 1
        chain = {manifest_path(number) for number in range(first, version.number + 1)}
        assert stored - referenced - {"manifest/boundary", "manifest/hint"} == chain
        for name in TABLES:
            assert content(self.open("", self.inner), name) == self.models[""].past[name][-1][1]


def run_seed(seed: int) -> str | None:
    """Run one seed; None, or what went wrong and the line that replays it."""
    with tempfile.TemporaryDirectory(prefix="tideline-branches-") as folder:
        world: BranchWorld | None = None
        try:
            with small_sizes():
                world = BranchWorld(seed, Path(folder))
                world.run()
        except BaseException:
            if sys.exc_info()[0] is KeyboardInterrupt:
                raise
            steps = [] if world is None else world.trace[-16:]
            faults = [line for p in world.processes for line in p.objects.plan.log[-4:]] if world else []
            shown = "\n".join([*steps, *faults, traceback.format_exc(limit=-6)])
            return f"{shown}\nreplay: python -m tests.hummock.branch_workload range {seed} {seed + 1}"
    return None


def main() -> None:
    """Run a range of seeds on two processes and stop at the first that fails."""
    os.environ.setdefault("TIDELINE_VERIFY", "1")
    if len(sys.argv) != 4 or sys.argv[1] != "range":
        sys.exit("usage: python -m tests.hummock.branch_workload range FIRST END")
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
    print(f"{len(seeds)} seeds: nothing lost, and nothing left after all branches were dropped")


if __name__ == "__main__":
    main()

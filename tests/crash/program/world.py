"""What a program acts on: a store in memory, the process that has it open, what may fail, and what must be there."""

from __future__ import annotations

import random
from pathlib import Path

from engine.connectors.sinks.delivery import Delivery
from engine.errors import EpochFailed
from engine.hummock import Commit, Hummock, Table
from engine.meta.catalog.stored_catalog import encode_entries, load_catalog
from engine.runtime.domains.flush import FlushRunner
from engine.runtime.executor import FragmentTask
from engine.sql.catalog import Relation, RelationColumn
from engine.testing.faulty import FaultPlan, FaultyObjectStore
from engine.testing.manual_clock import ManualClock
from engine.testing.memory import MemoryObjectStore
from tests.crash.broken import Broken
from tests.crash.checks import Checks
from tests.crash.program.event_verbs import Arrived, check_events, create_events
from tests.crash.reference import ReferenceExecutor
from tests.crash.tables import TABLES, CrashTable, bag_of

START = 1_790_000_000.0
RETENTION = 600.0


class World(Checks):
    """One seed's store and the process that runs; `trace` tells what was done, `rows` what the tables must hold."""

    _pending_rows: dict[str, dict[int, tuple[int, int]]] | None = None
    _pending_events: Arrived | None = None

    def __init__(self, seed: int, folder: Path, steps: int = 40) -> None:
        super().__init__(random.Random(seed))
        self.seed, self.steps, self.folder = seed, steps, folder
        self.clock = ManualClock(seed, START)
        self.disk = MemoryObjectStore(self.clock)
        self.rows: dict[str, dict[int, tuple[int, int]]] = {name: {} for name in TABLES}
        self.failing: set[str] = set()
        self.created = 0
        self.trace: list[str] = []
        self.zombies: list[FlushRunner] = []
        self.outside: dict[str, MemoryObjectStore] = {}
        self._open()
        for name, table in TABLES.items():
            self._create_table(name, table)
        self.events, self.event_time = Arrived(), 1_000
        create_events(self.store)

    def _open(self) -> None:
        """Start a process: what the last one held in memory is gone."""
        plan = FaultPlan(self.random.randrange(1 << 30), rate=self.random.choice((0.0, 0.01)))
        self.objects = FaultyObjectStore(self.disk, plan, self.clock)
        cache = self.folder / f"cache-{self.random.randrange(3)}"
        self.store = Hummock.open(
            "memory://store",
            cache_dir=str(cache),
            retention_seconds=RETENTION,
            object_store=self.objects,
            clock=self.clock,
        )
        self.flusher = self._flush_run(self.store)
        self.targets = FaultPlan(plan.seed, rate=self.random.choice((0.0, 0.05)))
        self._reached: dict[str, FaultyObjectStore] = {}
        self._deliveries: dict[str, Delivery] = {}

    def _flush_run(self, store: Hummock) -> FlushRunner:
        executor = ReferenceExecutor(store, self._before)
        run = FlushRunner(store, executor, backfill_rows=60, threads=1, clock=self.clock)
        run.backfill.largest_step = self.random.choice((5, 20, 1000))
        return run

    def _before(self, task: FragmentTask) -> None:
        self.clock.sleep(self.random.choice((0.0, 0.01, 0.1)))
        owner = load_catalog(self.store.version).owners.get(task.fragment.table)
        if owner in self.failing:
            raise EpochFailed(f"{owner} is made to fail")

    def _find_out(self) -> None:
        """After a crash in a write: all of it is there or nothing is."""
        if self._pending_rows is not None:
            before, after = self.rows, self._pending_rows
            found = {name: self._content(name, None) for name in TABLES}
            if found == {name: bag_of(name, rows) for name, rows in after.items()}:
                self.rows = after
            elif found != {name: bag_of(name, rows) for name, rows in before.items()}:
                raise Broken("a crashed write is neither whole nor absent")
            self._pending_rows = None
        if self._pending_events is not None:
            self.events = check_events(self.store, self.events, self._pending_events)
            self._pending_events = None
        stored = load_catalog(self.store.refresh())
        self.texts = {name: text for name, text in self.texts.items() if name in stored.plans}

    def _create_table(self, name: str, made: CrashTable) -> None:
        found = tuple(
            RelationColumn(column, kind, nullable=column not in made.key) for column, kind in made.columns
        )
        relation = Relation(
            name=name, kind="table", columns=found, primary_key=made.key, distribution_key=made.key
        )
        table = Table(name, made.schema, made.key, made.key)
        self.store.commit(Commit(create=(table,), catalog=encode_entries({name: relation}, {})))

"""A process of a workload, in this one: its requests fail by a seed, it may crash at any, and others run between two of them."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.hummock import Hummock
from engine.hummock.object_store import ObjectStore
from engine.testing.faulty import FaultPlan, FaultyObjectStore
from engine.testing.manual_clock import ManualClock


@dataclass
class Shared:
    """What all processes of a workload have in common, and how often what goes wrong.

    `interrupt` is called between two requests and may run another process.
    """

    chance: random.Random
    clock: ManualClock
    inner: ObjectStore
    url: str
    cache: Path
    retention_seconds: float
    rate: float
    outages: float
    interrupt: Callable[[FaultyObjectStore], None]


class Process:
    """One process of the workload: its view of the objects, and its handle while it is alive."""

    def __init__(self, name: str, shared: Shared) -> None:
        self.name, self._shared = name, shared
        self.generation: int | None = None
        self.lives = 0
        self.start()

    def start(self) -> None:
        """Begin a new life, with new faults."""
        shared, chance = self._shared, self._shared.chance
        self.lives += 1
        crash_at = chance.randrange(1, 150) if chance.random() < 0.3 else None
        plan = FaultPlan(chance.randrange(1 << 30), shared.rate, shared.outages, crash_at=crash_at)
        self.objects = Interleaved(shared, plan)
        self.store: Hummock | None = None

    def opened(self) -> Hummock:
        """Return its handle, opening the store if need be."""
        if self.objects.crashed:
            self.start()
        if self.store is None:
            self.store = Hummock.open(
                self._shared.url,
                cache_dir=self._shared.cache,
                retention_seconds=self._shared.retention_seconds,
                object_store=self.objects,
                clock=self._shared.clock,
            )
        return self.store


class Interleaved(FaultyObjectStore):
    """Lets another process run before a request now and then, as processes that race do."""

    def __init__(self, shared: Shared, plan: FaultPlan) -> None:
        super().__init__(shared.inner, plan, shared.clock)
        self._interrupt = shared.interrupt

    def _choose_fault(self, kind: str, path: str) -> tuple[Any, random.Random]:
        if not self.crashed and threading.current_thread() is threading.main_thread():
            self._interrupt(self)
        return super()._choose_fault(kind, path)

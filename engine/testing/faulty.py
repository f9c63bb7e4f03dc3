"""An object store that fails as real ones do, by a seed: for tests of the engine, and of what is built on it.

Which request fails, and how, follows from the seed, the kind of request, the object and how often it was asked for, so a
failure replays from its seed, whatever the order in which threads ask. Several of these over one inner store are several
processes; a crash ends one of them for good.
"""

from __future__ import annotations

import random
import re
import threading
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from engine.errors import Unavailable
from engine.hummock.clock import Clock
from engine.hummock.object_store import ObjectInfo, ObjectStore

TIMEOUT_SECONDS = 10.0
SLOW_SECONDS = 5.0
STALE_SECONDS = 10.0
OUTAGE_SECONDS = 200.0


class RequestFault(StrEnum):
    """One way in which a request goes wrong."""

    before = "an error before the effect"
    after = "an error after the effect"
    timeout = "no answer, whether or not there was an effect"
    late = "no answer, and the effect comes later"
    slow = "a slow answer"
    conflict = "409: a creation raced, and nothing was decided"
    busy = "503: slow down"
    torn = "half of the bytes in a temporary file, and an error"
    stale = "a listing without the newest objects and with deleted ones"


READS = (RequestFault.before, RequestFault.timeout, RequestFault.slow, RequestFault.busy)
WRITES = (
    RequestFault.before,
    RequestFault.after,
    RequestFault.timeout,
    RequestFault.slow,
    RequestFault.busy,
    RequestFault.torn,
)
POSSIBLE: dict[str, tuple[RequestFault, ...]] = {
    "put_if_absent": (*WRITES, RequestFault.late, RequestFault.conflict),
    "put": WRITES,
    "get": READS,
    "get_range": READS,
    "list": (*READS, RequestFault.stale),
    "delete": (
        RequestFault.before,
        RequestFault.after,
        RequestFault.timeout,
        RequestFault.slow,
        RequestFault.busy,
    ),
    "head": READS,
}


class Crashed(BaseException):
    """The process is gone: nothing that it does has an effect any more. No `except Exception` catches it."""


@dataclass
class FaultPlan:
    """What goes wrong: each request with probability `rate`, by `seed`; a crash at request `crash_at`, if given.

    `outages` is the probability that a request begins a time in which none is answered. `kinds` narrows the faults.
    `log` keeps what was done, for the one who reads a failure.
    """

    seed: int
    rate: float = 0.05
    outages: float = 0.0
    kinds: frozenset[RequestFault] = frozenset(RequestFault)
    crash_at: int | None = None
    log: list[str] = field(default_factory=list)


class FaultyObjectStore:
    """One process's view of `inner`, with the faults of `plan`, on `clock`."""

    def __init__(self, inner: ObjectStore, plan: FaultPlan, clock: Clock) -> None:
        self.inner, self.plan, self._clock = inner, plan, clock
        self.requests = 0
        self.crashed = False
        self._dark_until = float("-inf")
        self._asked: Counter[tuple[str, str]] = Counter()
        self._names: dict[str, str] = {}
        self._late: list[tuple[str, bytes]] = []
        self._written: list[tuple[float, ObjectInfo]] = []
        self._deleted: list[tuple[float, ObjectInfo]] = []
        self._lock = threading.RLock()
        self._effects = 0
        self._no_effects = threading.Condition(self._lock)

    def put_if_absent(self, path: str, data: bytes) -> bool | None:
        """Create an object, or fail."""
        fault, chance = self._choose_fault("put_if_absent", path)
        if fault in (RequestFault.conflict, RequestFault.busy, RequestFault.before):
            return None
        if fault is RequestFault.late:
            with self._lock:
                self._late.append((path, data))
            return None
        if fault is RequestFault.torn:
            self._tear(path, data)
        if fault is RequestFault.timeout and chance.random() < 0.5:
            return None
        with self._guard_effect():
            won = self.inner.put_if_absent(path, data)
        if won:
            self._record_write(path, len(data))
        self._crash_after()
        return None if fault in (RequestFault.after, RequestFault.timeout) else won

    def put(self, path: str, data: bytes | memoryview) -> None:
        """Create or replace an object, or fail."""
        fault, chance = self._choose_fault("put", path)
        if fault is RequestFault.torn:
            self._tear(path, bytes(data))
        if self._is_lost(fault, chance):
            self._fail("put", path, fault)
        with self._guard_effect():
            self.inner.put(path, data)
        self._record_write(path, len(data))
        self._crash_after()
        self._fail_after("put", path, fault)

    def get(self, path: str) -> bytes | None:
        """Return an object's bytes or None, or fail."""
        fault, _ = self._choose_fault("get", path)
        self._refuse("get", path, fault)
        return self.inner.get(path)

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        """Return a part of an object, or fail."""
        fault, _ = self._choose_fault("get_range", path)
        self._refuse("get_range", path, fault)
        return self.inner.get_range(path, offset, length)

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects below a prefix, or fail; a stale listing shows what was true some seconds ago."""
        fault, _ = self._choose_fault("list", prefix)
        self._refuse("list", prefix, fault)
        found = self.inner.list(prefix, start_after)
        if fault is not RequestFault.stale:
            yield from found
            return
        since = self._clock.monotonic() - STALE_SECONDS
        with self._lock:
            new = {info.path for at, info in self._written if at >= since}
            gone = [info for at, info in self._deleted if at >= since]
        shown = {info.path: info for info in found if info.path not in new}
        shown |= {i.path: i for i in gone if i.path.startswith(prefix) and i.path > start_after}
        for path in sorted(shown):
            yield shown[path]

    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects, or fail."""
        for path in paths:
            fault, chance = self._choose_fault("delete", path)
            if self._is_lost(fault, chance):
                self._fail("delete", path, fault)
            info = self.inner.head(path)
            with self._guard_effect():
                self.inner.delete([path])
            if info is not None:
                with self._lock:
                    self._deleted.append((self._clock.monotonic(), info))
            self._crash_after()
            self._fail_after("delete", path, fault)

    def head(self, path: str) -> ObjectInfo | None:
        """Return an object's size and age or None, or fail."""
        fault, _ = self._choose_fault("head", path)
        self._refuse("head", path, fault)
        return self.inner.head(path)

    def local_path(self, path: str) -> Path | None:
        """None: everything goes through requests, so that it can fail."""
        return None

    def now(self) -> float | None:
        """Return the time of the clock that the simulated world goes by."""
        return self._clock()

    def deliver_late(self) -> None:
        """Let the creations that are under way arrive now."""
        with self._lock:
            late, self._late = self._late, []
        for path, data in late:
            self.inner.put_if_absent(path, data)

    def settle(self) -> None:
        """Wait until no request of a thread of this process can have an effect any more; needed after a crash only."""
        with self._no_effects:
            self._no_effects.wait_for(lambda: self._effects == 0)

    @contextmanager
    def _guard_effect(self) -> Iterator[None]:
        """A request whose process is alive at its start; it is carried out even if the process dies meanwhile."""
        with self._lock:
            self._check_alive()
            self._effects += 1
        try:
            yield
        finally:
            with self._no_effects:
                self._effects -= 1
                self._no_effects.notify_all()

    def _choose_fault(self, kind: str, path: str) -> tuple[RequestFault | None, random.Random]:
        """Count a request, crash if it is time, and return what goes wrong with it."""
        with self._lock:
            self._check_alive()
            self.requests += 1
            name = self._normalize_path(path)
            self._asked[kind, name] += 1
            chance = random.Random(f"{self.plan.seed}/{kind}/{name}/{self._asked[kind, name]}")
            if self._late and chance.random() < 0.5:
                self.deliver_late()
            if self.requests == self.plan.crash_at and chance.random() < 0.5:
                self._crash(f"before {kind} {path}")
            possible = [fault for fault in POSSIBLE[kind] if fault in self.plan.kinds]
            fault = chance.choice(possible) if possible and chance.random() < self.plan.rate else None
            if self.plan.outages and chance.random() < self.plan.outages:
                self._dark_until = self._clock.monotonic() + chance.uniform(0, OUTAGE_SECONDS)
            if self._clock.monotonic() < self._dark_until:
                fault = RequestFault.before
            if fault is not None:
                self.plan.log.append(f"request {self.requests}: {kind} {path}: {fault}")
        if fault is RequestFault.slow:
            self._clock.sleep(chance.uniform(0, SLOW_SECONDS))
        elif fault in (RequestFault.timeout, RequestFault.late):
            self._clock.sleep(chance.uniform(0, TIMEOUT_SECONDS))
        if self.requests == self.plan.crash_at and kind not in ("put", "put_if_absent", "delete"):
            self._crash(f"before {kind} {path}")
        return fault, chance

    def _crash_after(self) -> None:
        if self.requests == self.plan.crash_at:
            self._crash("after the effect of the last request")

    def _crash(self, where: str) -> None:
        self.crashed = True
        self.plan.log.append(f"request {self.requests}: crash {where}")
        raise Crashed(where)

    def _check_alive(self) -> None:
        if self.crashed:
            raise Crashed("the process is gone")

    def _normalize_path(self, path: str) -> str:
        """A name that is the same in every run: random parts of paths give way to the order of first use."""
        if not re.search(r"[0-9a-f]{32}", path):
            return path
        return self._names.setdefault(path, f"object {len(self._names)}")

    def _is_lost(self, fault: RequestFault | None, chance: random.Random) -> bool:
        return fault in (RequestFault.before, RequestFault.busy, RequestFault.torn) or (
            fault is RequestFault.timeout and chance.random() < 0.5
        )

    def _refuse(self, kind: str, path: str, fault: RequestFault | None) -> None:
        if fault in (RequestFault.before, RequestFault.busy, RequestFault.timeout):
            self._fail(kind, path, fault)

    def _fail_after(self, kind: str, path: str, fault: RequestFault | None) -> None:
        if fault in (RequestFault.after, RequestFault.timeout):
            self._fail(kind, path, fault)

    def _fail(self, kind: str, path: str, fault: RequestFault | None) -> None:
        raise Unavailable(f"{kind} {path}: {fault}")

    def _tear(self, path: str, data: bytes) -> None:
        """Leave what a process leaves that dies while it writes to a directory."""
        target = self.inner.local_path(path)
        if target is not None:
            target.parent.mkdir(parents=True, exist_ok=True)
            torn = target.parent / f".tmp-{uuid.UUID(int=random.Random(data).getrandbits(128)).hex}"
            torn.write_bytes(data[: len(data) // 2])
        self._fail("write", path, RequestFault.torn)

    def _record_write(self, path: str, size: int) -> None:
        with self._lock:
            self._written.append((self._clock.monotonic(), ObjectInfo(path, size, self._clock())))

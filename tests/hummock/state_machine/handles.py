"""What all rules stand on: two handles of one store that may crash at any request, and the model of its tables."""

from __future__ import annotations

import dataclasses
import inspect
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine

from engine.hummock import Hummock
from engine.hummock.epoch import epoch_at
from engine.hummock.manifests.manifest import decode_manifest, manifest_path
from engine.hummock.upkeep.pins import Pin
from engine.testing.faulty import Crashed, FaultPlan, FaultyObjectStore
from tests.hummock.dated import DatedObjectStore
from tests.hummock.other_process import AheadClock, OtherProcess
from tests.hummock.table_model import KEYS, Modelled, Rows, Written

RETENTION = 600.0
NAMES = ("x", "y", "z")
names = st.sampled_from(NAMES)
a_values, b_values = st.integers(0, 3) | st.none(), st.sampled_from(["", "x", "y"]) | st.none()
row_keys = st.tuples(a_values, b_values)
handles = st.integers(0, 1)
requests = st.none() | st.integers(1, 12)
choices = st.integers(0, 1 << 16)
"""Taken modulo the number of what there is to choose from: what is drawn must not depend on times and crashes."""
SHARED = Path("/dev/shm")


class Handles(RuleBasedStateMachine):
    """Two handles of one store, and what its tables must hold."""

    steps: ClassVar[int] = 0
    other: ClassVar[OtherProcess] = OtherProcess()

    def __init__(self) -> None:
        super().__init__()
        base = SHARED if SHARED.is_dir() else None
        self.folder = Path(tempfile.mkdtemp(prefix="tideline-machine-", dir=base))
        self.clock = AheadClock()
        self.inner = DatedObjectStore(self.folder / "store", self.clock)
        self.stores: list[Hummock | None] = [None, None]
        self.objects: list[FaultyObjectStore | None] = [None, None]
        self.tables: dict[str, Modelled] = {}
        self.generations: dict[str, int] = {}
        self.done = self.added = 0
        self.verbs: list[str] = []
        self.pins: list[tuple[int, Pin, float]] = []

    def step(self) -> None:
        """Count a verb, and take down which it was."""
        frame = inspect.currentframe()
        while frame is not None and frame.f_code.co_name in ("step", "crashing", "write"):
            frame = frame.f_back
        assert frame is not None
        given = {n: v for n, v in frame.f_locals.items() if n not in ("self", "store", "model")}
        self.verbs.append(f"{frame.f_code.co_name} {given}")
        self.done += 1
        type(self).steps += 1

    def teardown(self) -> None:
        """Let go of the store."""
        for store in self.stores:
            if store is not None:
                store.close()
        shutil.rmtree(self.folder)

    def store(self, who: int) -> Hummock:
        """A handle, opened if it was closed or has crashed, that knows the newest version."""
        opened = self.stores[who]
        if opened is None:
            self.objects[who] = objects = FaultyObjectStore(self.inner, FaultPlan(0, 0.0), self.clock)
            opened = self.stores[who] = Hummock.open(
                (self.folder / "store").as_uri(),
                cache_dir=self.folder / f"cache{who}",
                retention_seconds=RETENTION,
                object_store=objects,
                clock=self.clock,
            )
        opened.refresh()
        return opened

    def crashing(self, who: int, at: int | None, work: Callable[[Hummock], Any]) -> tuple[bool, Any]:
        """Do `work`; with `at` the process dies at that request of it. Whether it survived, and the result."""
        self.step()
        store = self.store(who)
        objects = self.objects[who]
        assert objects is not None
        objects.plan.crash_at = None if at is None else objects.requests + at
        try:
            return True, work(store)
        except Crashed:
            objects.settle()
            self.stores[who] = None
            return False, None
        finally:
            objects.plan.crash_at = None

    def write(
        self, who: int, at: int | None, work: Callable[[Hummock], Any], *afters: dict[str, Written]
    ) -> None:
        """Do writes that lead to `afters`, and take down which of them were committed: all, or after a crash the first."""
        number = self.store(who).version.number
        survived, _ = self.crashing(who, at, work)
        expected = iter(afters)
        committed = 0
        while (data := self.inner.get(manifest_path(number := number + 1))) is not None:
            for delta in decode_manifest(data, "").deltas:
                if not delta.labels:
                    continue  # a compaction that came with the write
                committed += 1
                after = next(expected)
                assert set(after) == set(delta.labels)
                for name, written in after.items():
                    assert delta.labels[name] > self.tables[name].past[-1].label
                    labelled = dataclasses.replace(written, label=delta.labels[name])
                    self.tables[name].past.append(labelled)
        assert committed == len(afters) or not survived

    def newest(self, who: int, name: str) -> int:
        """The epoch that a read without one sees."""
        committed = self.store(who).version.tables[name].committed_epoch
        return epoch_at(self.clock()) if self.tables[name].expires == "ttl" else committed

    def readable(self, store: Hummock, name: str) -> list[int]:
        """Epochs of the table that can be read as they were, and the newest."""
        table, model = store.version.tables[name], self.tables[name]
        labels = [each.label for each in model.past if each.label >= table.safe_epoch]
        if model.expires == "ttl":  # rows that were hidden all the retention may have been deleted
            held = table.clamp_truncation(epoch_at(self.clock() - RETENTION))
            return sorted({each for each in labels if each >= held} | {self.newest(self.done % 2, name)})
        return sorted({*labels, table.committed_epoch, table.safe_epoch} - {0}) or [table.committed_epoch]


def chosen(among: Sequence[Any], choice: int) -> Any:
    """Return the one that a drawn number means."""
    return among[choice % len(among)]


def key_rows(keys: Any) -> pa.Table:
    """Return keys as rows."""
    return pa.table({"a": [k[0] for k in keys], "b": [k[1] for k in keys]}, schema=KEYS)


def rows_by_key(batches: Any) -> Rows:
    """Return what was read, by key; no key may come twice."""
    found: Rows = {}
    for batch in batches:
        for row in batch.to_pylist():
            key = (row.pop("a"), row.pop("b"))
            assert key not in found
            found[key] = row
    return found

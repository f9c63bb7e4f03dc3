"""Tables and views over a store in memory, flushed by the reference executor: for tests of single interleavings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from engine.hummock import Delete, Hummock, Put
from engine.meta.catalog.stored_catalog import load_catalog
from engine.meta.epochs.content import Content
from engine.runtime.domains.flush import FlushRunner
from engine.runtime.domains.flush_run import FlushRun
from engine.testing.manual_clock import ManualClock
from engine.testing.memory import MemoryObjectStore
from tests.crash.program.view_verbs import ViewVerbs
from tests.crash.program.world import START, World
from tests.crash.reference import ReferenceExecutor
from tests.crash.tables import CrashTable


class ViewsInMemory:
    """One store; every `process` opens it anew, as another process would."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock, self._processes = folder, ManualClock(1, START), 0
        self._objects = MemoryObjectStore(self.clock)
        self.store = self._opened()
        self.flusher = self._flusher(self.store)

    def process(self) -> FlushRunner:
        """Return the runs of one more process."""
        return self._flusher(self._opened())

    def table(self, name: str, *columns: str) -> None:
        """Create a table of whole numbers; the first column is the key."""
        made = CrashTable(
            tuple((column, "bigint") for column in columns), columns[:1], lambda *row: row, lambda row: row[0]
        )
        World._create_table(SimpleNamespace(store=self.store), name, made)  # type: ignore[arg-type]

    def view(self, name: str, text: str, **options: str) -> None:
        """Create a view."""
        ViewVerbs._commit_view(SimpleNamespace(store=self.store), name, text, options)  # type: ignore[arg-type]

    def put(self, table: str, **row: int) -> int:
        """Write a row; return the epoch."""
        self.clock.sleep(1.0)
        return self.store.ingest_batch({table: [Put(pa.table({name: [row[name]] for name in row}))]})

    def delete(self, table: str, **key: int) -> int:
        """Delete a row; return the epoch."""
        self.clock.sleep(1.0)
        return self.store.ingest_batch({table: [Delete(pa.table({name: [key[name]] for name in key}))]})

    def rows(self, view: str, epoch: int | None = None) -> list[dict[str, int]]:
        """Return a view's rows in the columns that users see."""
        self.store.refresh()
        shown = [c.name for c in load_catalog(self.store.version).catalog.get(view).visible_columns]
        found = [row for batch in self.store.iter(view, epoch=epoch) for row in batch.to_pylist()]
        return sorted(({name: row[name] for name in shown} for row in found), key=str)

    def content(self) -> Content:
        """Return at which epochs tables have content."""
        version = self.store.refresh()
        return Content(version, load_catalog(version).inputs)

    def _opened(self) -> Hummock:
        self._processes += 1
        cache = str(self.folder / f"cache-{self._processes}")
        return Hummock.open("memory://store", cache_dir=cache, object_store=self._objects, clock=self.clock)

    def _flusher(self, store: Hummock) -> FlushRunner:
        return FlushRunner(
            store, ReferenceExecutor(store, lambda task: None), backfill_rows=60, threads=1, clock=self.clock
        )


def hook_runs(
    monkeypatch: pytest.MonkeyPatch, runner: FlushRunner, name: str, hook: Callable[..., Any]
) -> None:
    """Let the runs of one process call `hook` in place of a method; it gets the method, bound, and what that is given."""
    method = getattr(FlushRun, name)

    def hooked(run: FlushRun, *given: Any) -> Any:
        return hook(partial(method, run), *given) if run.store is runner.store else method(run, *given)

    monkeypatch.setattr(FlushRun, name, hooked)

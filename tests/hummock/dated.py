"""Object stores whose time is a test's clock: the simulated world's, by which all its machines go unless their clock is wrong."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from engine.hummock.clock import Clock
from engine.hummock.object_store import open_object_store
from engine.hummock.object_store.local import LocalObjectStore


class DatedObjectStore(LocalObjectStore):
    """A directory whose files are as old as a clock says."""

    def __init__(self, root: Path, clock: Clock) -> None:
        super().__init__(root)
        self._dates = clock

    def put_if_absent(self, path: str, data: bytes) -> bool | None:
        won = super().put_if_absent(path, data)
        if won:
            self._date(path)
        return won

    def put(self, path: str, data: bytes | memoryview) -> None:
        super().put(path, data)
        self._date(path)

    def now(self) -> float:
        return self._dates()

    def _date(self, path: str) -> None:
        os.utime(self.root / path, (self._dates(), self._dates()))


class TimedObjectStore:
    """Any object store, telling the time of a clock."""

    def __init__(self, url: str, clock: Clock) -> None:
        self._inner, self._clock = open_object_store(url), clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def now(self) -> float:
        return self._clock()

"""A flush that waits runs again for what reads a view that outlasted the run before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from engine.hummock import Hummock
from engine.runtime.domains import epochs
from engine.runtime.domains.epochs import EpochRunner
from engine.runtime.epoch.report import FlushReport


class Runs:
    """Runs of which the first leaves a domain behind that has ended by the time that somebody asks, or tells of it itself."""

    tells = False

    def __init__(self, *_: object, **__: object) -> None:
        self.count = 0
        self.lanes = SimpleNamespace(list_busy=dict, wait=lambda: None, has_ended=False, reported=0)

    def run(self, *_: Any, **__: Any) -> FlushReport:
        """Note a run."""
        self.count += 1
        if self.tells:
            self.lanes.reported = 1
        else:
            self.lanes.has_ended = self.count == 1
        return FlushReport((), 0.0)


@pytest.mark.parametrize("tells", [False, True], ids=["unseen", "told of"])
@pytest.mark.parametrize(("wait", "runs"), [(True, 2), (False, 1)])
def test_one_that_has_ended_is_followed_by_its_readers(
    monkeypatch: pytest.MonkeyPatch, wait: bool, runs: int, tells: bool
) -> None:
    monkeypatch.setattr(Runs, "tells", tells)
    monkeypatch.setattr(epochs, "FlushRunner", Runs)
    found = EpochRunner(Hummock.__new__(Hummock), lambda store: None, in_flight=1)  # type: ignore[arg-type,return-value]
    found.run_pending(wait=wait)
    assert found.runner.count == runs  # type: ignore[attr-defined]

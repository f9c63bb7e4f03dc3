"""What happens between a run's shared action and the turns of its domains."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from engine.runtime.epoch.shared_action import SharedActions
from engine.runtime.executor import PlannedEpochs

AfterAction = Callable[[Callable[[SharedActions], None]], None]


@pytest.fixture
def after_action(monkeypatch: pytest.MonkeyPatch) -> AfterAction:
    """Return what has something happen after each shared action, whose results have not been taken yet."""
    run = SharedActions.run

    def happen_after(happen: Callable[[SharedActions], None]) -> None:
        def run_and_happen(
            actions: SharedActions, spark: SparkSession, planned: PlannedEpochs, tasks: int
        ) -> int:
            computed = run(actions, spark, planned, tasks)
            happen(actions)
            return computed

        monkeypatch.setattr(SharedActions, "run", run_and_happen)

    return happen_after

"""What the demo looks at while it runs: the store's manifest for the views, Dagster's instance for the runs."""

from __future__ import annotations

import datetime
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
from dagster import DagsterRunStatus, RunsFilter

from dagster_tideline.driver.driver_job import DRIVER_RUN
from dagster_tideline.models.loader import Model
from dagster_tideline.runs.epoch_job import EPOCH_RUN
from dagster_tideline.runs.event_throttle import EPOCHS
from dagster_tideline.runs.liveness import ACTIVE
from dagster_tideline.runs.pending import Pending, find_pending
from engine.hummock.epoch import seconds_of
from engine.meta.catalog.stored_catalog import load_catalog
from engine.meta.epochs.frontier import compute_frontiers
from tideline import Hummock

SENSOR_TAG = "dagster/sensor_name"


@dataclass(frozen=True)
class ViewLine:
    """One view as the demo shows it: rows as Dagster was told of last, seconds an epoch of these, `lag` is now; in seconds."""

    name: str
    epoch: int | None
    changed: int
    seconds: float
    freshness: float
    lag: float


class Watch:
    """Reads store and instance; starts nothing and changes nothing."""

    def __init__(
        self,
        store: Hummock,
        instance: dg.DagsterInstance,
        models: Sequence[Model],
        began: datetime.datetime,
    ) -> None:
        self.store = store
        self.instance = instance
        self.models = models
        self.views = [model.name for model in models if model.kind == "materialized view"]
        self.began = began
        self._events: tuple[int, dict[str, dict[str, float]]] = (-1, {})

    def find_pending(self) -> Pending:
        """Return what the next run would have to do."""
        return find_pending(self.store, self.models)

    def list_runs(self, *statuses: DagsterRunStatus) -> list[dg.DagsterRun]:
        """Return the runs with one of these statuses that a sensor has asked for since the demo began."""
        found = self.instance.get_runs(RunsFilter(statuses=list(statuses), created_after=self.began))
        return [run for run in found if run.job_name in (EPOCH_RUN, DRIVER_RUN) and SENSOR_TAG in run.tags]

    def list_failures(self) -> list[str]:
        """Return what the failed runs of this demo said."""
        return [self._find_reason(run) for run in self.list_runs(DagsterRunStatus.FAILURE)]

    def await_idle(self, seconds: float) -> bool:
        """Wait until no run that ends by itself is under way; False after `seconds`."""
        deadline = time.monotonic() + seconds
        while any(run.job_name == EPOCH_RUN for run in self.list_runs(*ACTIVE)):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.2)
        return True

    def list_lines(self) -> list[ViewLine]:
        """Return one line per view."""
        version = self.store.refresh()
        stored = load_catalog(version)
        known = compute_frontiers(version, stored.order, stored.inputs)
        told = self._read_last_events(version.number)
        found = []
        for name in self.views:
            table = version.tables.get(name)
            event = told.get(name, {})
            seconds = event.get("seconds_total", 0.0) / max(1.0, event.get(EPOCHS, 1))
            state = known.get(name)
            since = state.oldest_change if state is not None and state.lagging else None
            found.append(
                ViewLine(
                    name,
                    table.committed_epoch if table is not None else None,
                    int(event.get("rows_out", 0)),
                    seconds,
                    event.get("lag_seconds", 0.0) + seconds,
                    max(0.0, time.time() - seconds_of(since)) if since is not None else 0.0,
                )
            )
        return found

    def _read_last_events(self, version: int) -> dict[str, dict[str, float]]:
        if self._events[0] != version:
            found = {}
            for record in self.instance.get_asset_records([dg.AssetKey(name) for name in self.views]):
                last = record.asset_entry.last_materialization_record
                event = last.asset_materialization if last is not None else None
                metadata = event.metadata if event is not None else {}
                numbers = {k: v.value for k, v in metadata.items() if isinstance(v.value, int | float)}
                found[record.asset_entry.asset_key.to_user_string()] = numbers
            self._events = (version, found)
        return self._events[1]

    def _find_reason(self, run: dg.DagsterRun) -> str:
        for event in reversed(self.instance.all_logs(run.run_id)):
            failure = event.dagster_event
            if failure is not None and failure.is_step_failure:
                data = failure.step_failure_data
                text = data.user_failure_data.description if data.user_failure_data else None
                return text or (data.error.to_string() if data.error else "no reason was given")
        return "no reason was given"


def open_instance(folder: Path) -> dg.DagsterInstance:
    """Open the Dagster instance of a DAGSTER_HOME."""
    return dg.DagsterInstance.from_config(str(folder))

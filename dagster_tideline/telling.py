"""Events of a run that commits every second: an asset is told of at once, then at distances, with the sums of what came."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import dagster as dg
from dagster._core.definitions.data_version import CODE_VERSION_TAG, DATA_VERSION_TAG

from dagster_tideline.epoch_events import Event

SUMMED = (
    "files",
    "rows_in",
    "rows_out",
    "dead_rows",
    "inserted",
    "updated",
    "deleted",
    "bytes",
    "driver_bytes",
    "seconds_total",
)
"""Numbers of which an event holds the sum since the last one; of all others it holds the newest."""
EPOCHS = "epochs"

_Key = tuple[str, str | None, bool]
"""Asset, partition, and whether it is observed: what is said of a partition in quarantine takes no materialization's place."""
_Check = tuple[dg.AssetKey, str]
_Outcome = tuple[bool, dg.AssetCheckSeverity, str | None]


@dataclass
class _Waiting:
    event: dg.AssetMaterialization | dg.AssetObservation
    epochs: int = 1


@dataclass
class Telling:
    """Which events of assets are passed on, and which wait: of one asset at most one in `seconds`, and the newest once it rests.

    A check that comes out in another way is told at once.

    `code_versions` are those of the assets' models. The store of a Dagster instance keeps every event for ever: without this
    a day of epochs a second would be 86,400 events an asset.
    """

    seconds: float
    code_versions: Mapping[str, str]
    versions: dict[str, str | None] = field(default_factory=dict)
    """The data versions as they were seen last, told or not: what the next epoch is compared with."""
    _told: dict[_Key, float] = field(default_factory=dict)
    _waiting: dict[_Key, _Waiting] = field(default_factory=dict)
    _outcomes: dict[_Check, tuple[_Outcome | None, float]] = field(default_factory=dict)
    """How each check came out that was told last, and when."""
    _checks: dict[_Check, dg.AssetCheckEvaluation] = field(default_factory=dict)

    def take(self, event: Event, now: float) -> Iterator[Event]:
        """Yield an event if it is time for one of its asset, else keep it."""
        if isinstance(event, dg.AssetCheckEvaluation):
            yield from self._checked(event, now)
            return
        shown = self._plain(event)
        observed = isinstance(shown, dg.AssetObservation)
        key = (shown.asset_key.to_user_string(), shown.partition, observed)
        if not observed:  # of a partition as well: which ones have changed is asked for since the newest
            self.versions[key[0]] = (shown.tags or {}).get(DATA_VERSION_TAG)
        waiting = self._waiting.get(key)
        if waiting is not None:
            self._waiting[key] = _Waiting(_merged(waiting.event, shown), waiting.epochs + 1)
        else:
            self._waiting[key] = _Waiting(shown)
        yield from self.due(now)

    def _checked(self, event: dg.AssetCheckEvaluation, now: float) -> Iterator[dg.AssetCheckEvaluation]:
        """Yield how a check came out at once if that is news, else when the time of its asset's events has come."""
        key = (event.asset_key, event.check_name)
        outcome = (event.passed, event.severity, event.description)
        told, at = self._outcomes.get(key, (None, float("-inf")))
        self._checks[key] = event
        if outcome != told or now - at >= self.seconds:
            self._outcomes[key] = (outcome, now)
            yield self._checks.pop(key)

    def due(self, now: float, *, all_of_them: bool = False) -> Iterator[Event]:
        """Yield the events whose time has come, or with `all_of_them` whatever waits."""
        for check in list(self._checks):
            outcome, at = self._outcomes[check]
            if all_of_them or now - at >= self.seconds:
                self._outcomes[check] = (outcome, now)
                yield self._checks.pop(check)
        for key in list(self._waiting):
            if all_of_them or now - self._told.get(key, float("-inf")) >= self.seconds:
                waiting = self._waiting.pop(key)
                self._told[key] = now
                shown = waiting.event
                if isinstance(shown, dg.AssetMaterialization):
                    shown = shown.with_metadata({**shown.metadata, EPOCHS: waiting.epochs})
                yield shown

    def rest(self, newest: Mapping[str, str | None]) -> Iterator[Event]:
        """Yield whatever waits, as the run ends; `newest` are the data versions told by now, by a successor, too.

        An asset's newest event is taken for its state, so none may say an older version than the one before it.
        """
        for event in self.due(0.0, all_of_them=True):
            if isinstance(event, dg.AssetMaterialization) and event.partition is None:
                tags = dict(event.tags or {})
                own, told = tags.get(DATA_VERSION_TAG, ""), newest.get(event.asset_key.to_user_string()) or ""
                if own.isdigit() and told.isdigit() and int(own) < int(told):
                    tags[DATA_VERSION_TAG] = told
                    event = dg.AssetMaterialization(event.asset_key, metadata=event.metadata, tags=tags)
            yield event

    def _plain(self, event: dg.MaterializeResult[Any] | dg.AssetMaterialization | dg.AssetObservation) -> Any:
        """Return what an op that has no assets of its own may yield in the place of an asset's result."""
        if not isinstance(event, dg.MaterializeResult):
            return event
        assert event.asset_key is not None
        name = event.asset_key.to_user_string()
        tags = dict(event.tags or {})
        if event.data_version is not None:
            tags[DATA_VERSION_TAG] = event.data_version.value
        if name in self.code_versions:
            tags[CODE_VERSION_TAG] = self.code_versions[name]
        return dg.AssetMaterialization(event.asset_key, metadata=event.metadata, tags=tags)


def _merged(
    before: dg.AssetMaterialization | dg.AssetObservation, now: dg.AssetMaterialization | dg.AssetObservation
) -> dg.AssetMaterialization | dg.AssetObservation:
    if not isinstance(before, dg.AssetMaterialization) or not isinstance(now, dg.AssetMaterialization):
        return now
    summed = {}
    for name in SUMMED:
        parts = [_number(event.metadata.get(name)) for event in (before, now)]
        if any(part is not None for part in parts):
            summed[name] = sum(part for part in parts if part is not None)
    kept = {name: value for name, value in before.metadata.items() if name not in now.metadata}
    return now.with_metadata({**kept, **now.metadata, **summed})


def _number(value: Any) -> int | float | None:
    found = getattr(value, "value", value)
    return found if isinstance(found, int | float) else None

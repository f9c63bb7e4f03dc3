"""Events of a run that commits every second: an asset is told of at once, then at distances, with the sums of what came.

Assets that read each other are told of together: what Dagster holds of them is then always of one moment, and it calls none
of them stale because an input has been told of since.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from dagster_tideline.dagster_internals import (
    CODE_VERSION_TAG,
    DATA_VERSION_TAG,
    INPUT_POINTER,
    INPUT_VERSION,
)
from dagster_tideline.models.loader import Model
from dagster_tideline.runs.epoch_events import Event, ReportedTags, add_pointers, is_newer

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
class _WaitingEvent:
    event: dg.AssetMaterialization | dg.AssetObservation
    epochs: int = 1


@dataclass
class EventThrottle:
    """Which events of assets are passed on, and which wait: of one asset at most one in `seconds`, and the newest once it rests.

    Assets of one of the `groups` share the time at which they are told of; one without a group has its own. A check that comes
    out in another way is reported at once.

    `code_versions` are those of the assets' models. The store of a Dagster instance keeps every event for ever: without this
    a day of epochs a second would be 86,400 events an asset.
    """

    seconds: float
    code_versions: Mapping[str, str]
    reported_tags: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """The tags of each asset's newest event, told or not: what the next epoch is compared with."""
    groups: Mapping[str, str] = field(default_factory=dict)
    _reported_at: dict[str, float] = field(default_factory=dict)
    """When a group was told of last."""
    _waiting: dict[_Key, _WaitingEvent] = field(default_factory=dict)
    _outcomes: dict[_Check, tuple[_Outcome | None, float]] = field(default_factory=dict)
    """How each check came out that was told last, and when."""
    _checks: dict[_Check, dg.AssetCheckEvaluation] = field(default_factory=dict)

    def submit(self, events: Iterable[Event], now: float) -> Iterator[Event]:
        """Yield those events of an epoch whose time it is, and keep the others."""
        checks = []
        for event in events:
            if isinstance(event, dg.AssetCheckEvaluation):
                checks.append(event)
                continue
            converted = self.convert_event(event)
            key = (
                converted.asset_key.to_user_string(),
                converted.partition,
                isinstance(converted, dg.AssetObservation),
            )
            record_tags(self.reported_tags, converted)
            waiting = self._waiting.get(key)
            if waiting is not None:
                self._waiting[key] = _WaitingEvent(
                    _merge_events(waiting.event, converted), waiting.epochs + 1
                )
            else:
                self._waiting[key] = _WaitingEvent(converted)
        yield from self.pop_due(now)
        for check in checks:
            yield from self._submit_check(check, now)

    def _submit_check(self, event: dg.AssetCheckEvaluation, now: float) -> Iterator[dg.AssetCheckEvaluation]:
        """Yield how a check came out at once if that is news, else when the time of its asset's events has come."""
        key = (event.asset_key, event.check_name)
        outcome = (event.passed, event.severity, event.description)
        reported, at = self._outcomes.get(key, (None, float("-inf")))
        self._checks[key] = event
        if outcome != reported or now - at >= self.seconds:
            self._outcomes[key] = (outcome, now)
            yield self._checks.pop(key)

    def pop_due(self, now: float, *, all_of_them: bool = False) -> Iterator[Event]:
        """Yield the events whose time has come, or with `all_of_them` whatever waits."""
        for check in list(self._checks):
            outcome, at = self._outcomes[check]
            if all_of_them or now - at >= self.seconds:
                self._outcomes[check] = (outcome, now)
                yield self._checks.pop(check)
        groups = {self.groups.get(key[0], key[0]) for key in self._waiting}
        ripe = {
            one
            for one in groups
            if all_of_them or now - self._reported_at.get(one, float("-inf")) >= self.seconds
        }
        self._reported_at |= dict.fromkeys(ripe, now)
        for key in [key for key in self._waiting if self.groups.get(key[0], key[0]) in ripe]:
            waiting = self._waiting.pop(key)
            event = waiting.event
            if isinstance(event, dg.AssetMaterialization):
                event = event.with_metadata({**event.metadata, EPOCHS: waiting.epochs})
            yield event

    def drain(self, newest: ReportedTags) -> Iterator[Event]:
        """Yield whatever waits, as the run ends; `newest` are the tags told by now, by a successor, too.

        An asset's newest event is taken for its state, so none may say older versions than the one before it.
        """
        for event in self.pop_due(0.0, all_of_them=True):
            if isinstance(event, dg.AssetMaterialization) and event.partition is None:
                reported = newest.get(event.asset_key.to_user_string(), {})
                if is_newer(reported, event.tags or {}):
                    tags = {tag: value for tag, value in reported.items() if _is_version_tag(tag)}
                    event = dg.AssetMaterialization(event.asset_key, metadata=event.metadata, tags=tags)
            yield event

    @property
    def has_waiting(self) -> bool:
        """Whether anything is yet to be reported."""
        return bool(self._waiting or self._checks)

    def convert_event(
        self, event: dg.MaterializeResult[Any] | dg.AssetMaterialization | dg.AssetObservation
    ) -> Any:
        """Return what an op that has no assets of its own may yield in the place of an asset's result."""
        if not isinstance(event, dg.MaterializeResult):
            return event
        assert event.asset_key is not None
        name = event.asset_key.to_user_string()
        tags = add_pointers(event.tags or {})
        if event.data_version is not None:
            tags[DATA_VERSION_TAG] = event.data_version.value
        if name in self.code_versions:
            tags[CODE_VERSION_TAG] = self.code_versions[name]
        return dg.AssetMaterialization(event.asset_key, metadata=event.metadata, tags=tags)


def group_models(models: Iterable[Model]) -> dict[str, str]:
    """Return by the name of each model one that stands for all that read each other."""
    found: dict[str, str] = {}

    def find_first(name: str) -> str:
        while found.setdefault(name, name) != name:
            name = found[name]
        return name

    for model in models:
        for name in model.reads:
            found[find_first(name)] = find_first(model.name)
    return {name: find_first(name) for name in list(found)}


def record_tags(
    reported_tags: dict[str, Mapping[str, str]], event: dg.AssetMaterialization | dg.AssetObservation
) -> None:
    """Note the tags of an event; of a partition as well, as which ones have changed is asked for since the newest."""
    if isinstance(event, dg.AssetMaterialization):
        reported_tags[event.asset_key.to_user_string()] = event.tags or {}


def _is_version_tag(tag: str) -> bool:
    return tag in (DATA_VERSION_TAG, CODE_VERSION_TAG) or tag.startswith((INPUT_VERSION, INPUT_POINTER))


def _merge_events(
    before: dg.AssetMaterialization | dg.AssetObservation, now: dg.AssetMaterialization | dg.AssetObservation
) -> dg.AssetMaterialization | dg.AssetObservation:
    if not isinstance(before, dg.AssetMaterialization) or not isinstance(now, dg.AssetMaterialization):
        return now
    summed = {}
    for name in SUMMED:
        parts = [_get_number(event.metadata.get(name)) for event in (before, now)]
        if any(part is not None for part in parts):
            added = sum(part for part in parts if part is not None)
            summed[name] = round(added, 3) if isinstance(added, float) else added
    earlier = {name: value for name, value in before.metadata.items() if name not in now.metadata}
    return now.with_metadata({**earlier, **now.metadata, **summed})


def _get_number(value: Any) -> int | float | None:
    found = getattr(value, "value", value)
    return found if isinstance(found, int | float) else None

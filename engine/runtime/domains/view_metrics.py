"""What metrics tell of views: rows consumed by phase, lag, what waits, sinks; read from the manifest, as any process can."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import get_args

from engine.hummock import Version
from engine.hummock.epoch import seconds_of
from engine.hummock.monitoring.families import Family
from engine.meta.catalog.stored_catalog import StoredCatalog, load_catalog
from engine.meta.domains.creation import list_creations
from engine.meta.domains.domain import Domain, list_domains
from engine.meta.epochs.frontier import compute_frontiers
from engine.meta.status.dead_letters import DEAD_LETTER
from engine.meta.status.sampled_rows import SAMPLES
from engine.meta.status.sinks import compute_progress, list_sinks
from engine.meta.status.waits import DomainWait, Kind, list_all_waits

CONSUMED = "snapshot_backfill_consume_row_count"
_CONSUMED_ROWS = "Rows consumed by views made by snapshot backfill"
_WAITING = "Domains that wait, partitions in quarantine, and next queries that a gate holds up, by kind"


class ViewCollector:
    """Collects the metrics of a store's views at each scrape; `read` gives the version, `clock` seconds since 1970."""

    def __init__(self, read: Callable[[], Version], clock: Callable[[], float]) -> None:
        self._read, self._clock = read, clock

    def read_families(self) -> Iterator[Family]:
        """Yield a counter by view and phase, and gauges of lag, waits and sinks."""
        version = self._read()
        stored, now = load_catalog(version), self._clock()
        consumed = Family("counter", CONSUMED, _CONSUMED_ROWS, ("view", "phase"))
        lag = Family("gauge", "tideline_view_lag_seconds", "Age of the oldest change lacked", ("view",))
        known = compute_frontiers(version, stored.order, stored.inputs)
        found = list_domains(stored)
        for name, creation in list_creations(version).items():
            for view in _list_reported_members(found[name], stored) if name in found else ():
                for phase, rows in creation.consumed.items():
                    consumed.add(rows, view, phase)
        for domain in found.values():
            for view in _list_reported_members(domain, stored):
                oldest = known[view].oldest_change if known[view].lagging else None
                lag.add(0.0 if oldest is None else max(0.0, now - seconds_of(oldest)), view)
        waiting = Family("gauge", "tideline_waiting_domains", _WAITING, ("kind",))
        waits = list_all_waits(version, stored, now)
        kinds = [wait.kind for wait in waits]
        for kind in get_args(Kind):
            waiting.add(kinds.count(kind), kind)
        aside = Family("gauge", "tideline_rows_set_aside", "Rows in the table _dead_letter")
        aside.add(version.tables[DEAD_LETTER].row_count if DEAD_LETTER in version.tables else 0)
        yield from (
            consumed,
            lag,
            waiting,
            _build_wait_gauge(waits, now),
            aside,
            _build_sample_gauge(version),
        )
        yield from _build_sink_gauges(version, stored, now)


def _build_wait_gauge(waits: Collection[DomainWait], now: float) -> Family:
    """Return how long domains have waited, by domain and kind: the longest where several partitions of one do."""
    longest: dict[tuple[str, ...], float] = {}
    for wait in waits:
        key, waited = (wait.domain, wait.kind), 0.0 if wait.since is None else max(0.0, now - wait.since)
        longest[key] = max(waited, longest.get(key, 0.0))
    waited_for = "Seconds that a domain has waited, 0 where nobody knows since when"
    return Family("gauge", "tideline_waiting_seconds", waited_for, ("domain", "kind"), [*longest.items()])


def _build_sample_gauge(version: Version) -> Family:
    """Return how many rows of the views that were sampled differ from what their queries give."""
    told = "Rows found by samples that differ from what the view's query gives"
    found = Family("gauge", "tideline_sampled_rows_that_differ", told, ("view",))
    for view, samples in SAMPLES.list(version).items():
        found.add(samples.differ, view)
    return found


def _build_sink_gauges(version: Version, stored: StoredCatalog, now: float) -> Iterator[Family]:
    """Yield how far sinks are behind what they read; `phase` says which are paused or cannot go on."""
    lag = Family("gauge", "tideline_sink_lag_seconds", "Age of the oldest change not delivered", ("sink",))
    rows = Family("gauge", "tideline_sink_lag_rows", "Rows of changes not delivered", ("sink",))
    phases = Family("gauge", "tideline_sink_phase", "1 for the phase that a sink is in", ("sink", "phase"))
    for relation in list_sinks(stored):
        progress = compute_progress(version, relation)
        lag.add(progress.lag_seconds(now), relation.name)
        rows.add(progress.rows, relation.name)
        phases.add(1, relation.name, progress.phase)
    yield from (lag, rows, phases)


def _list_reported_members(domain: Domain, stored: StoredCatalog) -> tuple[str, ...]:
    """Return the members of a domain that are reported: the hidden views of checks go with theirs."""
    return tuple(view for view in domain.members if stored.catalog.relations[view].kind != "check")

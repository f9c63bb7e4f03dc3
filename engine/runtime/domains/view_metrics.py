"""What Prometheus gets of views: rows consumed by phase, lag, and what waits; read from the manifest, so any process can."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, get_args

from engine.hummock import Version
from engine.hummock.epoch import seconds_of
from engine.meta.catalog.stored_catalog import StoredCatalog, load_catalog
from engine.meta.domains.creation import list_creations
from engine.meta.domains.domain import Domain, list_domains
from engine.meta.epochs.frontier import compute_frontiers
from engine.meta.status.waits import Kind, list_all_waits

if TYPE_CHECKING:
    from prometheus_client.core import Metric

CONSUMED = "snapshot_backfill_consume_row_count"
_WAITING = "Domains that wait, partitions in quarantine, and next queries that a gate holds up, by kind"


class ViewCollector:
    """Collects the metrics of a store's views at each scrape; `read` gives the version, `clock` seconds since 1970."""

    def __init__(self, read: Callable[[], Version], clock: Callable[[], float]) -> None:
        self._read, self._clock = read, clock

    def collect(self) -> Iterator[Metric]:
        """Yield a counter by view and phase, and gauges of lag and waits."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        version = self._read()
        stored, now = load_catalog(version), self._clock()
        consumed = CounterMetricFamily(
            CONSUMED, "Rows consumed by views made by snapshot backfill", labels=["view", "phase"]
        )
        lag = GaugeMetricFamily(
            "tideline_view_lag_seconds", "Age of the oldest change lacked", labels=["view"]
        )
        known = compute_frontiers(version, stored.order, stored.inputs)
        found = list_domains(stored)
        for name, creation in list_creations(version).items():
            for view in _list_reported_members(found[name], stored) if name in found else ():
                for phase, rows in creation.consumed.items():
                    consumed.add_metric([view, phase], rows)
        for domain in found.values():
            for view in _list_reported_members(domain, stored):
                oldest = known[view].oldest_change if known[view].lagging else None
                lag.add_metric([view], 0.0 if oldest is None else max(0.0, now - seconds_of(oldest)))
        waiting = GaugeMetricFamily("tideline_waiting_domains", _WAITING, labels=["kind"])
        kinds = [wait.kind for wait in list_all_waits(version, stored, now)]
        for kind in get_args(Kind):
            waiting.add_metric([kind], kinds.count(kind))
        yield from (consumed, lag, waiting)


def _list_reported_members(domain: Domain, stored: StoredCatalog) -> tuple[str, ...]:
    """Return the members of a domain that are reported: the hidden views of checks go with theirs."""
    return tuple(view for view in domain.members if stored.catalog.relations[view].kind != "check")
